package archive

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Stat is what a client learns of a path (API document 2, 4.1: archive).
type Stat struct {
	Name       string
	Size       int64 // bytes
	Mode       fs.FileMode
	ModTime    time.Time
	LinkTarget string // where a symbolic link leads, as a path in the container; empty for anything else
}

// statOf describes an open file. A symbolic link's target is told as the container sees it, whole way followed; that of a
// link that leads nowhere as it is written.
func (t tree) statOf(p place, f *os.File) (Stat, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Stat{}, err
	}
	s := Stat{Name: p.name, Size: st.Size, Mode: fileMode(st.Mode), ModTime: time.Unix(st.Mtim.Unix())}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return s, nil
	}
	text, err := readLink(int(f.Fd()), "")
	if err != nil {
		return Stat{}, err
	}
	s.LinkTarget = path.Clean(text)
	if !path.IsAbs(text) {
		s.LinkTarget = path.Join(path.Dir(p.path), text)
	}
	target, err := openIn(t.root, p.path, unix.O_PATH|unix.O_CLOEXEC, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return s, nil // it leads nowhere
	}
	defer target.Close() //nolint:errcheck // only a handle
	root, err := readLink(unix.AT_FDCWD, procPath(t.root))
	if err != nil {
		return Stat{}, err
	}
	full, err := readLink(unix.AT_FDCWD, procPath(target))
	if err != nil {
		return Stat{}, err
	}
	if inside, ok := strings.CutPrefix(full, strings.TrimSuffix(root, "/")); ok && strings.HasPrefix(inside, "/") {
		s.LinkTarget = inside
	}
	return s, nil
}

// readLink reads a symbolic link below a folder; an empty name is the link that dir itself is a handle of.
func readLink(dir int, name string) (string, error) {
	buf := make([]byte, maxName+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// fileMode turns the kernel's mode into Go's, which is what clients get.
func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	switch mode & unix.S_IFMT {
	case unix.S_IFBLK:
		m |= fs.ModeDevice
	case unix.S_IFCHR:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFIFO:
		m |= fs.ModeNamedPipe
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFSOCK:
		m |= fs.ModeSocket
	}
	if mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}
