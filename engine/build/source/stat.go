package source

import (
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// procPath names an open file by its descriptor.
func procPath(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// readLink reads a symbolic link below a folder; an empty name is the link that dir itself is a handle of.
func readLink(dir int, name string) (string, error) {
	buf := make([]byte, maxName+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// fileMode turns the kernel's mode into Go's.
func fileMode(mode uint32) fs.FileMode {
	m := permissions(int64(mode & 0o7777))
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

// kernelMode turns the permissions of a mode into the kernel's.
func kernelMode(mode fs.FileMode) uint32 {
	m := uint32(mode.Perm())
	if mode&fs.ModeSetuid != 0 {
		m |= unix.S_ISUID
	}
	if mode&fs.ModeSetgid != 0 {
		m |= unix.S_ISGID
	}
	if mode&fs.ModeSticky != 0 {
		m |= unix.S_ISVTX
	}
	return m
}
