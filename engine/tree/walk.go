package tree

import (
	"context"
	"errors"
	"os"
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
	// Enter is called with the descriptor of a folder that is entered, before its entries, for the root folder too.
	Enter func(fd int, e *Entry) (enter bool, err error)
	// Leave is called with the descriptor of a folder after its entries, if Enter did not refuse them.
	Leave func(fd int, e *Entry) error
}

// Entry is what a walk has come to. It is valid during the call only.
type Entry struct {
	Dir   int         // descriptor of the folder that holds it
	Base  string      // its name in that folder; the root folder has none
	Stat  unix.Stat_t // of the entry itself, no link is followed; for Enter of the open folder, for Leave of none
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
	w.entry.Dir = root
	fd, err := unix.Openat(root, ".", folderFlags, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: w.entry.Shown(), Err: err}
	}
	defer w.way.Close()
	if err := w.pushFolder(fd, &w.entry); err != nil {
		return err
	}
	for len(w.folders) > 0 {
		if err := w.visitNext(); err != nil {
			return err
		}
	}
	return nil
}

type walk struct {
	ctx     context.Context //nolint:containedctx // of the one call that the walk lives for
	opt     Options
	visit   Visitor
	way     Ladder
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

// visitNext visits one entry of the lowest folder, or leaves that folder.
func (w *walk) visitNext() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	f := &w.folders[len(w.folders)-1]
	if len(f.entries) == 0 {
		return w.popFolder()
	}
	last := len(f.entries) - 1
	name := f.entries[last].name
	f.entries[last] = listed{}
	f.entries = f.entries[:last]
	w.pending -= len(name)
	e := &w.entry
	e.Dir, e.Base, e.Depth, e.way = w.way.Current(), name, len(w.folders), w.path
	err := unix.Fstatat(e.Dir, name, &e.Stat, unix.AT_SYMLINK_NOFOLLOW)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "look at", Path: e.Shown(), Err: err}
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
	return w.enterFolder(e)
}

// isGone reports whether an entry was removed or replaced meanwhile.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func (w *walk) enterFolder(e *Entry) error {
	fd, err := openFolder(e.Dir, e.Base, w.opt.Mounts)
	if isGone(err) || errors.Is(err, unix.EXDEV) && !w.opt.Mounts {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: e.Shown(), Err: err}
	}
	return w.pushFolder(fd, e)
}

// pushFolder makes an open folder the lowest one. Its names are read at once, since what is below may take its descriptor.
func (w *walk) pushFolder(fd int, e *Entry) error {
	if err := w.way.pushLevel(fd, &e.Stat); err != nil {
		return &os.PathError{Op: "look at", Path: e.Shown(), Err: err}
	}
	if w.visit.Enter != nil {
		if enter, err := w.visit.Enter(fd, e); err != nil || !enter {
			w.way.popLevel()
			return err
		}
	}
	entries, err := w.listFolder(fd)
	if err != nil {
		return &os.PathError{Op: "read", Path: e.Shown(), Err: err}
	}
	w.folders = append(w.folders, walking{entries: entries, path: len(w.path)})
	if e.Depth > 0 {
		w.path = append(append(w.path, e.Base...), '/')
	}
	return nil
}

// listFolder reads the names of an open folder, the last one first.
func (w *walk) listFolder(fd int) (entries []listed, err error) {
	for {
		before := len(entries)
		if entries, err = readListing(fd, w.buf, entries); err != nil {
			return nil, err
		}
		for i := range entries[before:] {
			w.pending += len(entries[before+i].name)
		}
		if len(entries) == before {
			break
		}
		if w.pending > maxPending {
			return nil, errors.New("too many entries in one folder")
		}
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
	}
	if w.opt.Sorted {
		slices.SortFunc(entries, func(a, b listed) int { return strings.Compare(b.name, a.name) })
	} else {
		slices.Reverse(entries)
	}
	return entries, nil
}

// popFolder leaves the lowest folder.
func (w *walk) popFolder() error {
	last := len(w.folders) - 1
	above := w.folders[last].path
	if w.visit.Leave != nil {
		e := &w.entry
		e.Dir, e.Base, e.Depth, e.way = -1, strings.TrimSuffix(string(w.path[above:]), "/"), last, w.path[:above]
		if err := w.visit.Leave(w.way.Current(), e); err != nil {
			return err
		}
	}
	w.path = w.path[:above]
	w.folders = w.folders[:last]
	return w.way.Up()
}
