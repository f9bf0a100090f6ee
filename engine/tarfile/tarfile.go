// Package tarfile says of files what tar archives say of them, and of entries what they may say. It opens and writes nothing.
package tarfile

import (
	"archive/tar"
	"io/fs"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// Bounds of names.
const (
	MaxName  = 4096 // bytes of a path or of what a link says: PATH_MAX
	MaxDepth = 512  // folders in each other; who reads one may hold a descriptor for each
)

// CleanName returns a name of an entry relative to the root of what it belongs to, "." for that itself. what and whole word
// the error, which is fault.Invalid: what the name is, and what it must not lead out of.
func CleanName(what, name, whole string) (string, error) {
	switch {
	case name == "" || strings.ContainsRune(name, 0):
		return "", fault.Invalid("the %s %q of an entry is none", what, name)
	case len(name) > MaxName:
		return "", fault.Invalid("the %s %.64q… of an entry has more than %d bytes", what, name, MaxName)
	case strings.Count(name, "/") > MaxDepth:
		return "", fault.Invalid("the %s %.64q… is more than %d folders deep", what, name, MaxDepth)
	}
	clean := path.Clean("./" + strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fault.Invalid("the %s %q leads out of the %s", what, name, whole)
	}
	return clean, nil
}

// IsSparse reports whether an entry may pretend to more bytes than the archive holds.
func IsSparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// Header describes a file by what the kernel says of it. Its links and extended attributes are the caller's to add, and
// sockets, which archives do not know, to leave out.
func Header(name string, st *unix.Stat_t) *tar.Header {
	h := &tar.Header{
		Name: name, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid), ModTime: time.Unix(st.Mtim.Unix()),
		Typeflag: tar.TypeReg,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		h.Size = st.Size
	case unix.S_IFDIR:
		h.Typeflag = tar.TypeDir
		if !strings.HasSuffix(name, "/") {
			h.Name += "/"
		}
	case unix.S_IFLNK:
		h.Typeflag = tar.TypeSymlink
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFCHR, unix.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if st.Mode&unix.S_IFMT == unix.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	}
	return h
}

// FileMode turns the kernel's mode into Go's.
func FileMode(mode uint32) fs.FileMode {
	m := Permissions(int64(mode))
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
	return m
}

// Permissions are those of an entry's or the kernel's mode, as Go has them; the type is left out.
func Permissions(mode int64) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	if mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// ReadLink reads a symbolic link below an open folder; an empty name is the link that dir itself is a handle of.
func ReadLink(dir int, name string) (string, error) {
	buf := make([]byte, MaxName+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
