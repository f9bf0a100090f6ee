package tree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Remover removes trees. The zero value is ready.
type Remover struct {
	// Turn is called before each entry goes and may wait; ctx.Err is one. Its error ends the removal.
	Turn func() error
}

// RemovePath is Remover.RemovePath to the end, whoever waits.
func RemovePath(path string) error { return Remover{}.RemovePath(path) }

// RemovePath is Remove for what is at a path. The folder that holds it is opened by its path: nobody else may shape that.
func (r Remover) RemovePath(path string) error {
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // only a handle
	return r.Remove(int(dir.Fd()), filepath.Base(path))
}

// RemoveIn is Remover.RemoveIn to the end, whoever waits.
func RemoveIn(path string) error { return Remover{}.RemoveIn(path) }

// RemoveIn removes all that is in a folder, and leaves the folder. A folder that is not there is no error. An entry that
// cannot be removed does not keep the others.
func (r Remover) RemoveIn(path string) error {
	fd, err := unix.Open(path, folderFlags, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	var entries []listed
	buf := make([]byte, listBuffer)
	for {
		before := len(entries)
		if entries, err = readListing(fd, buf, entries); err != nil {
			return &os.PathError{Op: "read", Path: path, Err: err}
		}
		if len(entries) == before {
			break
		}
	}
	for _, e := range entries {
		if r.Turn != nil {
			if err := r.Turn(); err != nil {
				return err
			}
		}
		if left := r.Remove(fd, e.name); err == nil {
			err = left
		}
	}
	return err
}

// Remove removes what an open folder holds under a name, with all below it. What is not there is no error. It follows no
// link and enters no other file system; a folder that something is mounted on stays, and so do those above it. What
// cannot be removed does not keep the rest: the error names the first of it.
//
// A tree that others change meanwhile is no danger, but may be left in part.
func (r Remover) Remove(dir int, name string) error {
	m := &removal{turn: r.Turn}
	if done, err := m.removeEntry(dir, listed{name: name}); done || err != nil {
		return removeError(err, name)
	}
	above, err := unix.Openat(dir, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer m.way.Close()
	if err := m.way.Down(above); err != nil {
		return err
	}
	m.folders = []*removing{{name: "."}}
	m.buf = make([]byte, listBuffer)
	if err := m.enterFolder(name); err != nil {
		return removeError(err, name)
	}
	for len(m.folders) > 1 {
		if err := m.removeNext(); err != nil {
			return err
		}
	}
	return m.first
}

func removeError(err error, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("remove %s: %w", Short(name), err)
}

// removal is one call of Remove.
type removal struct {
	turn    func() error
	way     Ladder
	folders []*removing // for each level of way
	buf     []byte
	first   error // of what could not be removed
}

// removing is a folder that is being removed.
type removing struct {
	name     string
	pending  []listed
	progress bool            // something went since the listing began
	stuck    map[string]bool // what cannot be removed
	opened   bool            // its mode was changed
}

// removeNext removes one entry of the lowest folder, or that folder.
func (m *removal) removeNext() error {
	f := m.folders[len(m.folders)-1]
	if len(f.pending) == 0 {
		var err error
		if f.pending, err = readListing(m.way.Current(), m.buf, f.pending); err != nil {
			return removeError(err, f.name)
		}
		if len(f.pending) == 0 {
			return m.removeLowest(f)
		}
	}
	e := f.pending[0]
	f.pending = f.pending[1:]
	if f.stuck[e.name] {
		return nil
	}
	if m.turn != nil {
		if err := m.turn(); err != nil {
			return err
		}
	}
	done, err := m.removeEntry(m.way.Current(), e)
	if isDenied(err) && !f.opened {
		f.opened = true
		if unix.Fchmod(m.way.Current(), 0o700) == nil {
			done, err = m.removeEntry(m.way.Current(), e)
		}
	}
	if err == nil && !done {
		err = m.enterFolder(e.name)
		done = errors.Is(err, unix.ENOENT)
	}
	if done {
		f.progress = true
		return nil
	}
	if err != nil {
		m.noteStuck(f, e.name, err)
	}
	return nil
}

// removeEntry removes what is no folder, or an empty one; done is false for others.
func (m *removal) removeEntry(dir int, e listed) (done bool, err error) {
	if e.kind != unix.DT_DIR {
		err = unlinkAt(dir, e.name, 0)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return true, nil
		}
		if !errors.Is(err, unix.EISDIR) {
			return false, err
		}
	}
	err = unlinkAt(dir, e.name, unix.AT_REMOVEDIR)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return true, nil
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return false, nil
	case errors.Is(err, unix.ENOTDIR):
		err = unlinkAt(dir, e.name, 0) // a file has just taken its place
		return err == nil, err
	default:
		return false, err
	}
}

func unlinkAt(dir int, name string, flags int) error {
	for {
		if err := unix.Unlinkat(dir, name, flags); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func isDenied(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// noteStuck notes an entry that cannot be removed.
func (m *removal) noteStuck(f *removing, name string, err error) {
	if f.stuck == nil {
		f.stuck = map[string]bool{}
	}
	f.stuck[name] = true
	if m.first == nil {
		m.first = removeError(err, name)
	}
}

// enterFolder enters a folder of the lowest one.
func (m *removal) enterFolder(name string) error {
	dir := m.way.Current()
	fd, err := openFolder(dir, name, false)
	if isDenied(err) && allowOwner(dir, name) == nil {
		fd, err = openFolder(dir, name, false)
	}
	if errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("something is mounted on it: %w", unix.EBUSY)
	}
	if err != nil {
		return err
	}
	if err := m.way.Down(fd); err != nil {
		return err
	}
	m.folders = append(m.folders, &removing{name: name})
	if closed := m.way.first - 1; closed >= 0 { // its listing begins anew when it is opened again
		m.folders[closed].pending = nil
	}
	return nil
}

// allowOwner lets the owner of a folder read and change it.
func allowOwner(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // only a handle
	return unix.Chmod(PathOf(fd), 0o700)
}

// removeLowest removes the lowest folder, whose listing has ended.
func (m *removal) removeLowest(f *removing) error {
	above, again, err := m.way.openAbove()
	if err != nil {
		return removeError(err, f.name)
	}
	parent := m.folders[len(m.folders)-2]
	if again {
		parent.progress = true
	}
	err = unlinkAt(above, f.name, unix.AT_REMOVEDIR)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		parent.progress = true
	case (errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST)) && f.progress:
		// What went may have moved what followed in the listing.
		f.progress = false
		_, err := unix.Seek(m.way.Current(), 0, unix.SEEK_SET)
		return removeError(err, f.name)
	default:
		m.noteStuck(parent, f.name, err)
	}
	m.way.popLevel()
	m.folders = m.folders[:len(m.folders)-1]
	return nil
}
