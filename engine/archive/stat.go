package archive

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/tarfile"
	trees "moss/engine/tree"
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
	s := Stat{Name: p.name, Size: st.Size, Mode: tarfile.FileMode(st.Mode), ModTime: time.Unix(st.Mtim.Unix())}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return s, nil
	}
	text, err := tarfile.ReadLink(int(f.Fd()), "")
	if err != nil {
		return Stat{}, err
	}
	s.LinkTarget = path.Clean(text)
	if !path.IsAbs(text) {
		s.LinkTarget = path.Join(path.Dir(p.path), text)
	}
	target, err := trees.OpenIn(t.root, p.path, unix.O_PATH, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return s, nil // it leads nowhere
	}
	defer target.Close() //nolint:errcheck // only a handle
	root, err := tarfile.ReadLink(unix.AT_FDCWD, trees.PathOf(int(t.root.Fd())))
	if err != nil {
		return Stat{}, err
	}
	full, err := tarfile.ReadLink(unix.AT_FDCWD, trees.PathOf(int(target.Fd())))
	if err != nil {
		return Stat{}, err
	}
	if inside, ok := strings.CutPrefix(full, strings.TrimSuffix(root, "/")); ok && strings.HasPrefix(inside, "/") {
		s.LinkTarget = inside
	}
	return s, nil
}
