package tree

import (
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tarfile"
)

// parent is a folder that entries go into.
type parent struct {
	fd     int
	handle *os.File // nil for the destination itself, which others close
	depth  int      // folders above it and itself
}

// maxParents is how many folders a writer keeps open.
const maxParents = 128

// parentFolder returns a folder below the destination by its clean name. With mkdir it makes what is missing. Symbolic links
// on the way are followed inside the root, as its own processes would.
func (w *Writer) parentFolder(name string, mkdir bool) (*parent, error) {
	if name == "." {
		return &parent{fd: int(w.opt.Dest.Fd())}, nil
	}
	if known := w.folders[name]; known != nil {
		return known, nil
	}
	handle, depth, err := w.openParent(name)
	if errors.Is(err, unix.ENOENT) && mkdir {
		var above *parent
		if above, err = w.parentFolder(path.Dir(name), true); err != nil {
			return nil, err
		}
		if err = w.makeImplied(above, path.Base(name)); err != nil {
			if fault.Is(err, fault.Invalid) {
				return nil, err
			}
			return nil, &os.PathError{Op: "make folder", Path: name, Err: err}
		}
		handle, depth, err = w.openParent(name)
	}
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOENT):
		return nil, fault.Invalid("cannot unpack into %.64q: it is not a directory", name)
	default:
		return nil, &os.PathError{Op: "open folder", Path: name, Err: err}
	}
	if len(w.folders) >= maxParents {
		w.closeFolders()
	}
	p := &parent{fd: int(handle.Fd()), handle: handle, depth: depth}
	w.folders[name] = p
	return p, nil
}

// makeImplied makes a folder that no entry tells of, and that is the root user's. One that is there stays as it is, and so
// does what others put in the place of a new one.
func (w *Writer) makeImplied(above *parent, base string) error {
	if err := errors.Join(w.opt.Budget.Folder(), w.opt.Budget.Depth(above.depth+1)); err != nil {
		return err
	}
	err := unix.Mkdirat(above.fd, base, 0o700)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	fd, err := unix.Openat(above.fd, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if isSwapped(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written to it
	if w.opt.Owner != nil {
		if uid, gid, _ := w.opt.Owner(0, 0); uid != 0 || gid != 0 {
			if err := unix.Fchown(fd, uid, gid); err != nil {
				return err
			}
		}
	}
	return unix.Fchmod(fd, 0o755) // whatever the engine's own umask is
}

// openParent opens a folder below the destination, and says how deep it is. Where a link is on the way, the name is resolved
// from the root: only from there it is known where links lead.
func (w *Writer) openParent(name string) (*os.File, int, error) {
	depth := depthOf(name)
	f, err := OpenIn(w.opt.Dest, name, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, unix.ELOOP) {
		f, depth, err = w.openThroughLinks(path.Join(w.opt.At, name))
	}
	if err != nil {
		return nil, 0, err
	}
	if foreign, err := w.isForeign(int(f.Fd())); err != nil || foreign {
		f.Close() //nolint:errcheck // only a handle
		if err == nil {
			err = fault.Invalid("cannot unpack into %.64q: it does not hold data but files of the system", name)
		}
		return nil, 0, err
	}
	return f, depth, nil
}

// openThroughLinks opens a folder of the root and follows links on the way, one name after the other: the kernel would not
// tell how many names it looks up, and for a chain of links these are so many that each entry costs milliseconds. Each name is
// opened in an open folder and never goes up, so nothing leads out of the root, whatever is renamed meanwhile.
func (w *Writer) openThroughLinks(name string) (_ *os.File, depth int, err error) {
	at, parts, links := w.opt.Root, []string(nil), 0
	defer func() {
		if err != nil {
			w.closeFolder(at)
		}
	}()
	for rest := name; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if links > 0 {
			if err := w.opt.Budget.Step(1); err != nil {
				return nil, 0, err
			}
		}
		switch part {
		case "", ".":
			continue
		case "..":
			parts = parts[:max(len(parts)-1, 0)]
			above, err := w.reopenFolder(parts)
			if err != nil {
				return nil, 0, err
			}
			w.closeFolder(at)
			at = above
			continue
		}
		next, link, err := w.openOrReadLink(at, part)
		if err != nil {
			return nil, 0, err
		}
		if next != nil {
			w.closeFolder(at)
			at, parts = next, append(parts, part)
			continue
		}
		if links++; links > MaxLinks || len(link)+len(rest) > tarfile.MaxName {
			return nil, 0, Looped(name)
		}
		if path.IsAbs(link) {
			w.closeFolder(at)
			at, parts = w.opt.Root, nil
		}
		rest = link + "/" + rest
	}
	if at == w.opt.Root { // the caller closes what it gets
		at, err = w.reopenFolder(nil)
	}
	return at, len(parts), err
}

// closeFolder closes a folder that a walk is through with.
func (w *Writer) closeFolder(f *os.File) {
	if f != nil && f != w.opt.Root {
		f.Close() //nolint:errcheck // only a handle
	}
}

// reopenFolder opens a folder of the root by names that are no links.
func (w *Writer) reopenFolder(parts []string) (*os.File, error) {
	if err := w.opt.Budget.Step(len(parts)); err != nil {
		return nil, err
	}
	return OpenIn(w.opt.Root, "./"+strings.Join(parts, "/"), unix.O_PATH|unix.O_DIRECTORY,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
}

// openOrReadLink returns the folder that has a name in an open one, or what the link there says.
func (w *Writer) openOrReadLink(at *os.File, name string) (*os.File, string, error) {
	fd, err := unix.Openat(int(at.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", err
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return f, "", nil
	}
	defer f.Close() //nolint:errcheck // only a handle
	if err != nil {
		return nil, "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return nil, "", unix.ENOTDIR
	}
	if foreign, err := w.isForeign(fd); err != nil || foreign { // such links lead where they do not say
		return nil, "", errors.Join(err, unix.ELOOP)
	}
	link, err := tarfile.ReadLink(fd, "")
	return nil, link, err
}

// closeFolders closes the folders that are kept open: what their names mean may have changed.
func (w *Writer) closeFolders() {
	for name, p := range w.folders {
		p.handle.Close() //nolint:errcheck // only a handle
		delete(w.folders, name)
	}
}
