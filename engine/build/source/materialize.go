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
	defer unix.Close(fd) //nolint:errcheck // only a handle
	m := &materializer{ctx: ctx, src: src, root: fd, links: map[uint64]string{}, buf: make([]byte, piece)}
	if !top.Mode.IsDir() {
		m.from = path.Dir(top.Path)
		return path.Join(dir, path.Base(top.Path)), m.writeEntry(fd, top)
	}
	m.from = top.Path
	defer m.way.Close()
	return dir, m.writeFolder(top)
}

// materializer writes one tree.
type materializer struct {
	ctx   context.Context //nolint:containedctx // of the one call that the materializer lives for
	src   Source
	root  int
	from  string            // the path that the root stands for
	links map[uint64]string // first names, below the root, of files that have more
	way   trees.Ladder      // from the root to the folder that is written
	above []level           // for each of its levels
	buf   []byte
}

// localName returns the name of an entry below the root.
func (m *materializer) localName(e *Entry) string {
	if m.from == "." {
		return e.Path
	}
	return strings.TrimPrefix(e.Path, m.from+"/")
}

// level is a folder that is written.
type level struct {
	dir  *Entry
	left []*Entry // what is in it and not written yet
}

// writeFolder writes the entries of a folder, at any depth. The mode and time of each folder come after what is in it.
func (m *materializer) writeFolder(top *Entry) error {
	err := m.enterFolder(m.root, ".", top)
	for err == nil && len(m.above) > 0 {
		l := &m.above[len(m.above)-1]
		if len(l.left) == 0 {
			err = m.leaveFolder(l.dir)
			continue
		}
		e := l.left[0]
		l.left = l.left[1:]
		err = m.writeEntry(m.way.Current(), e)
	}
	return err
}

// enterFolder opens a folder and makes it the lowest one.
func (m *materializer) enterFolder(dir int, base string, e *Entry) error {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		err = m.way.Down(fd)
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: e.Path, Err: err}
	}
	list, err := m.src.List(m.ctx, e)
	m.above = append(m.above, level{e, list})
	return err
}

// leaveFolder sets the metadata of the lowest folder and goes up.
func (m *materializer) leaveFolder(e *Entry) error {
	if err := setTime(m.way.Current(), ".", e); err != nil { // before the mode, which may forbid it
		return err
	}
	if err := applyMetadata(m.way.Current(), e); err != nil {
		return err
	}
	m.above = m.above[:len(m.above)-1]
	return m.way.Up()
}

// writeEntry writes one entry into an open folder, and enters it if it is a folder.
func (m *materializer) writeEntry(dir int, e *Entry) error {
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	base, err := path.Base(e.Path), error(nil)
	switch {
	case e.Mode.IsDir():
		if err = unix.Mkdirat(dir, base, 0o700); err == nil {
			return m.enterFolder(dir, base, e)
		}
	case e.Mode.IsRegular():
		err = m.writeFile(dir, base, e)
	case e.Mode&fs.ModeSymlink != 0:
		if err = unix.Symlinkat(e.Link, dir, base); err == nil {
			err = unix.Fchownat(dir, base, e.UID, e.GID, unix.AT_SYMLINK_NOFOLLOW)
		}
		if isOwnerRefused(err) {
			err = nil
		}
	default: // nothing that is read by its name alone
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: e.Path, Err: translateDiskFull(err)}
	}
	return nil
}

// writeFile writes a regular file, or one more name of it.
func (m *materializer) writeFile(dir int, base string, e *Entry) error {
	if e.Inode != 0 {
		if first, known := m.links[e.Inode]; known {
			return unix.Linkat(m.root, first, dir, base, 0)
		}
		m.links[e.Inode] = m.localName(e)
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
		err = applyMetadata(fd, e)
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	return setTime(dir, base, e)
}

// applyMetadata gives an open file the owner, mode and attributes of its entry. The mode comes after the owner, whose change
// takes bits of it. Bits that mean privilege go where the file gets another owner.
func applyMetadata(fd int, e *Entry) error {
	err := unix.Fchown(fd, e.UID, e.GID)
	if err != nil && !isOwnerRefused(err) {
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

// isOwnerRefused reports whether a change of owner failed because the machine has no such owner, or none but the user.
func isOwnerRefused(err error) bool { return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) }
