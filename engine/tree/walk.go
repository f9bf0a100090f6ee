package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Options says how a tree is walked. The zero value takes entries as the file system lists them and enters no mounts.
type Options struct {
	Sorted bool // by name, in each folder
	Mounts bool // enter what is mounted in the tree as well; without it such a folder is an empty one
}

// Visitor is told of a tree's entries. Every function may be nil, and the first error of any ends the walk.
type Visitor struct {
	// Entry is called for every entry before what is in it. A folder is entered only if it says so.
	Entry func(e *Entry) (enter bool, err error)
	// Enter is called with the descriptor of a folder that is entered, before its entries.
	Enter func(fd int, e *Entry) (enter bool, err error)
	// Leave is called with the descriptor of a folder after its entries, for the root folder too. depth is the folder's.
	Leave func(fd, depth int) error
}

// Entry is what a walk has come to. It is valid during the call only.
type Entry struct {
	Dir   int         // descriptor of the folder that holds it
	Base  string      // its name in that folder
	Stat  unix.Stat_t // of the entry itself: no link is followed
	Depth int         // 1 for what is in the root folder

	way []byte // path of the folder, with a slash at its end unless it is the root
}

// IsDir reports whether the entry is a folder.
func (e *Entry) IsDir() bool { return e.Stat.Mode&unix.S_IFMT == unix.S_IFDIR }

// PathLen returns the bytes of the entry's path below the root.
func (e *Entry) PathLen() int { return len(e.way) + len(e.Base) }

// Path returns the entry's path below the root, as long as it may be.
func (e *Entry) Path() string { return string(e.way) + e.Base }

// Shown returns the path as an error shows it.
func (e *Entry) Shown() string {
	if e.PathLen() <= maxShown {
		return "/" + e.Path()
	}
	base := e.Base
	if len(base) > maxShown/2 {
		base = base[:maxShown/2] + "…"
	}
	return "/" + string(e.way[:min(len(e.way), maxShown/2)]) + "…/" + base
}

// maxPending is how many bytes the names of the folders above the current one take at most, of entries that come later.
const maxPending = 256 << 20

// Walk visits all that is below an open folder, which stays open. It enters no link. What is removed or replaced meanwhile
// is left out; ErrMoved is the error where a folder deep in the tree was moved.
func Walk(ctx context.Context, root int, opt Options, v Visitor) error {
	w := &walk{ctx: ctx, opt: opt, visit: v, buf: make([]byte, listBuffer)}
	fd, err := unix.Openat(root, ".", folderFlags, 0)
	if err != nil {
		return err
	}
	defer w.way.close()
	if err := w.down(fd, 0); err != nil {
		return err
	}
	for len(w.folders) > 0 {
		if err := w.step(); err != nil {
			return err
		}
	}
	return nil
}

type walk struct {
	ctx     context.Context //nolint:containedctx // of the one call that the walk lives for
	opt     Options
	visit   Visitor
	way     ladder
	folders []walking // for each level of way
	path    []byte    // of the lowest folder
	pending int       // bytes of the names in folders
	buf     []byte
	entry   Entry
}

// walking is a folder that is walked.
type walking struct {
	entries []listed // in reverse: the next one is the last
	path    int      // bytes of the path of the folder above
}

// step visits one entry of the lowest folder, or leaves that folder.
func (w *walk) step() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	f := &w.folders[len(w.folders)-1]
	if len(f.entries) == 0 {
		return w.up()
	}
	last := len(f.entries) - 1
	name := f.entries[last].name
	f.entries[last] = listed{}
	f.entries = f.entries[:last]
	w.pending -= len(name)
	e := &w.entry
	e.Dir, e.Base, e.Depth, e.way = w.way.current(), name, len(w.folders), w.path
	err := unix.Fstatat(e.Dir, name, &e.Stat, unix.AT_SYMLINK_NOFOLLOW)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", e.Shown(), err)
	}
	enter := true
	if w.visit.Entry != nil {
		if enter, err = w.visit.Entry(e); err != nil {
			return err
		}
	}
	if !enter || !e.IsDir() {
		return nil
	}
	return w.enter(e)
}

// isGone reports whether an entry was removed or replaced meanwhile.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func (w *walk) enter(e *Entry) error {
	fd, err := openFolder(e.Dir, e.Base, w.opt.Mounts)
	if isGone(err) || errors.Is(err, unix.EXDEV) && !w.opt.Mounts {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", e.Shown(), err)
	}
	if w.visit.Enter != nil {
		enter, err := w.visit.Enter(fd, e)
		if err != nil || !enter {
			unix.Close(fd) //nolint:errcheck // only read
			return err
		}
	}
	above := len(w.path)
	w.path = append(append(w.path, e.Base...), '/')
	if err := w.down(fd, above); err != nil {
		return fmt.Errorf("read %s: %w", e.Shown(), err)
	}
	return nil
}

// down makes an open folder the lowest one. Its names are read at once, since what is below may take its descriptor.
func (w *walk) down(fd, above int) error {
	if err := w.way.down(fd); err != nil {
		return err
	}
	var entries []listed
	for {
		before := len(entries)
		var err error
		if entries, err = list(fd, w.buf, entries); err != nil {
			return err
		}
		for i := range entries[before:] {
			w.pending += len(entries[before+i].name)
		}
		if len(entries) == before {
			break
		}
		if w.pending > maxPending {
			return errors.New("too many entries in one folder")
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
	}
	if w.opt.Sorted {
		slices.SortFunc(entries, func(a, b listed) int { return strings.Compare(b.name, a.name) })
	} else {
		slices.Reverse(entries)
	}
	w.folders = append(w.folders, walking{entries: entries, path: above})
	return nil
}

// up leaves the lowest folder.
func (w *walk) up() error {
	last := len(w.folders) - 1
	if w.visit.Leave != nil {
		if err := w.visit.Leave(w.way.current(), last); err != nil {
			return err
		}
	}
	if last > 0 {
		if _, _, err := w.way.above(); err != nil {
			return err
		}
	}
	w.path = w.path[:w.folders[last].path]
	w.way.up()
	w.folders = w.folders[:last]
	return nil
}
