package source

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	trees "moss/engine/tree"
)

// Materialize writes what is at a path of a source, links followed, into an empty folder of this machine that nobody else
// changes, and returns where it is: dir itself for a folder, a file in dir for anything else. Owners, attributes, devices
// and sockets that this machine does not give stay away. What a failure leaves in dir is the caller's to remove.
//
// Errors are those of the source, of ctx, and internal.
func Materialize(ctx context.Context, src Source, name, dir string) (string, error) {
	top, err := src.Stat(ctx, name, true)
	if err != nil {
		return "", err
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: dir, Err: err}
	}
	root := os.NewFile(uintptr(fd), dir)
	defer root.Close() //nolint:errcheck // only a handle
	m := &materializer{ctx: ctx, src: src, root: fd, links: map[uint64]string{}, buf: make([]byte, piece)}
	if !top.Mode.IsDir() {
		m.from = path.Dir(top.Path)
		return path.Join(dir, path.Base(top.Path)), m.entry(fd, top)
	}
	m.from = top.Path
	if err := m.children(fd, top); err != nil {
		return "", err
	}
	if err := describe(fd, top); err != nil {
		return "", err
	}
	return dir, setTime(unix.AT_FDCWD, dir, top)
}

// materializer writes one tree.
type materializer struct {
	ctx   context.Context //nolint:containedctx // of the one call that the materializer lives for
	src   Source
	root  int
	from  string            // the path that the root stands for
	links map[uint64]string // first names, below the root, of files that have more
	buf   []byte
}

// local is the name of an entry below the root.
func (m *materializer) local(e *Entry) string {
	if m.from == "." {
		return e.Path
	}
	return strings.TrimPrefix(e.Path, m.from+"/")
}

// children writes what is in a folder into an open one.
func (m *materializer) children(fd int, dir *Entry) error {
	list, err := m.src.List(m.ctx, dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := m.entry(fd, e); err != nil {
			return err
		}
	}
	return nil
}

// entry writes one entry into an open folder.
func (m *materializer) entry(dir int, e *Entry) error {
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	base, err := path.Base(e.Path), error(nil)
	switch {
	case e.Mode.IsDir():
		return m.folder(dir, base, e) // its errors name what is in it
	case e.Mode.IsRegular():
		err = m.file(dir, base, e)
	case e.Mode&fs.ModeSymlink != 0:
		if err = unix.Symlinkat(e.Link, dir, base); err == nil {
			err = unix.Fchownat(dir, base, e.UID, e.GID, unix.AT_SYMLINK_NOFOLLOW)
		}
		if refused(err) {
			err = nil
		}
	default: // nothing that is read by its name alone
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: e.Path, Err: full(err)}
	}
	return nil
}

// folder writes a folder and what is in it. Its mode and time come last.
func (m *materializer) folder(dir int, base string, e *Entry) error {
	if err := unix.Mkdirat(dir, base, 0o700); err != nil {
		return &os.PathError{Op: "make", Path: e.Path, Err: full(err)}
	}
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: e.Path, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // only a handle
	if err := m.children(fd, e); err != nil {
		return err
	}
	if err := describe(fd, e); err != nil {
		return err
	}
	return setTime(dir, base, e)
}

// file writes a regular file, or one more name of it.
func (m *materializer) file(dir int, base string, e *Entry) error {
	if e.Inode != 0 {
		if first, known := m.links[e.Inode]; known {
			return unix.Linkat(m.root, first, dir, base, 0)
		}
		m.links[e.Inode] = m.local(e)
	}
	from, err := m.src.Open(m.ctx, e)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // only read
	fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	to := os.NewFile(uintptr(fd), base)
	_, err = io.CopyBuffer(struct{ io.Writer }{to}, contextReader{m.ctx, from}, m.buf)
	if err == nil {
		err = describe(fd, e)
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	return setTime(dir, base, e)
}

// describe gives an open file what its entry says. The mode comes after the owner, whose change takes bits of it. Bits that
// mean privilege go where the file gets another owner.
func describe(fd int, e *Entry) error {
	err := unix.Fchown(fd, e.UID, e.GID)
	if err != nil && !refused(err) {
		return &os.PathError{Op: "change owner of", Path: e.Path, Err: err}
	}
	mode, same := kernelMode(e.Mode), err == nil
	if !same {
		mode &^= unix.S_ISUID | unix.S_ISGID
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return &os.PathError{Op: "change mode of", Path: e.Path, Err: err}
	}
	for name, value := range e.Xattrs {
		if same || name != trees.Capabilities {
			unix.Fsetxattr(fd, name, []byte(value), 0) //nolint:errcheck // not every file system has them
		}
	}
	return nil
}

// setTime sets when a file was changed.
func setTime(dir int, base string, e *Entry) error {
	at := unix.Timespec{Sec: e.ModTime.Unix(), Nsec: int64(e.ModTime.Nanosecond())}
	err := unix.UtimesNanoAt(dir, base, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return &os.PathError{Op: "set times of", Path: e.Path, Err: err}
	}
	return nil
}

// refused reports whether the machine has no such owner, or none but the user.
func refused(err error) bool { return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) }
