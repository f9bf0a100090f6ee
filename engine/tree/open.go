package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// races is how often the kernel may find that what it resolves is being renamed before that is an error.
const races = 1000

// Openat2 is the system call, with O_CLOEXEC. The kernel gives up with EAGAIN when names on its way are being renamed, and is
// asked again.
func Openat2(dir int, name string, flags, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, name, &how)
		if err != unix.EAGAIN && err != unix.EINTR || try == races {
			return fd, err
		}
	}
}

// OpenIn is Openat2 for files.
func OpenIn(dir *os.File, name string, flags, resolve uint64) (*os.File, error) {
	fd, err := Openat2(int(dir.Fd()), name, flags, resolve)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// HandleIn opens a handle (O_PATH) to what a path leads to inside a folder. The kernel keeps links inside it. Errors are those of
// the system.
func HandleIn(folder, name string) (*os.File, error) {
	root, err := os.OpenFile(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // only a handle
	handle, err := OpenIn(root, name, unix.O_PATH, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return handle, nil
}

// PartIn is HandleIn of a subpath that somebody asked for: a folder or a file. fault.Invalid if it leads to nothing of the kind,
// in words that go behind whose it is.
func PartIn(folder, subpath string) (part *os.File, isDir bool, err error) {
	part, err = HandleIn(folder, subpath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, fault.Invalid("subpath %s does not exist", subpath)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil, false, fault.Invalid("subpath %s does not lead through folders", subpath)
	case err != nil:
		return nil, false, fmt.Errorf("subpath %s: %w", subpath, err)
	}
	info, err := part.Stat()
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = fault.Invalid("subpath %s is neither a folder nor a file", subpath)
	}
	if err != nil {
		return nil, false, errors.Join(err, part.Close())
	}
	return part, info.IsDir(), nil
}

// PathOf names an open file by its descriptor, for system calls that take a path.
func PathOf(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
