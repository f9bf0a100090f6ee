package archive

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// parent is a folder that entries go into.
type parent struct {
	fd     int
	handle *os.File // nil for the destination itself, which others close
}

// maxOpen is how many folders an unpacker keeps open.
const maxOpen = 128

// parent returns a folder below the destination by its cleaned name. With make it makes what is missing. Symbolic links
// on the way are followed inside the container's root, as the container itself would.
func (u *unpacker) parent(name string, mkdir bool) (*parent, error) {
	if name == "." {
		return &parent{fd: int(u.dest.Fd())}, nil
	}
	if known := u.folders[name]; known != nil {
		return known, nil
	}
	handle, err := u.openFolder(name)
	if errors.Is(err, unix.ENOENT) && mkdir {
		var above *parent
		if above, err = u.parent(path.Dir(name), true); err != nil {
			return nil, err
		}
		if err = u.makeFolder(above.fd, path.Base(name)); err != nil {
			return nil, &os.PathError{Op: "make folder", Path: name, Err: err}
		}
		handle, err = u.openFolder(name)
	}
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOENT):
		return nil, fault.Invalid("cannot unpack into %q: it is not a directory", name)
	default:
		return nil, &os.PathError{Op: "open folder", Path: name, Err: err}
	}
	if len(u.folders) >= maxOpen {
		u.forget()
	}
	p := &parent{fd: int(handle.Fd()), handle: handle}
	u.folders[name] = p
	return p, nil
}

// makeFolder makes a folder that is the container root's. One that is there stays as it is, and so does what the container
// puts in the place of a new one.
func (u *unpacker) makeFolder(above int, base string) error {
	err := unix.Mkdirat(above, base, 0o700)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	fd, err := unix.Openat(above, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if swapped(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written to it
	if u.ids != nil {
		if uid, gid := u.ids.Owner(0, 0); uid != 0 || gid != 0 {
			if err := unix.Fchown(fd, uid, gid); err != nil {
				return err
			}
		}
	}
	return unix.Fchmod(fd, 0o755) // whatever the engine's own umask is
}

// openFolder opens a folder below the destination. Where a link is on the way, the name is resolved from the container's
// root: only from there the kernel knows where links lead.
func (u *unpacker) openFolder(name string) (*os.File, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	f, err := openIn(u.dest, name, flags, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, unix.ELOOP) {
		f, err = openIn(u.root, path.Join(u.place.path, name), flags, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
	}
	if err != nil {
		return nil, err
	}
	if system, err := systemFS(int(f.Fd())); err != nil || system {
		f.Close() //nolint:errcheck // only a handle
		if err == nil {
			err = fault.Invalid("cannot unpack into %q: it does not hold data but files of the system", name)
		}
		return nil, err
	}
	return f, nil
}

// forget closes the folders that are kept open: what their names mean may have changed.
func (u *unpacker) forget() {
	for name, p := range u.folders {
		p.handle.Close() //nolint:errcheck // only a handle
		delete(u.folders, name)
	}
}
