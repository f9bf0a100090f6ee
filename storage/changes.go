package storage

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/tarfile"
	"moss/engine/tree"
)

// maxChanges is how many bytes the paths of a container's changes take at most.
const maxChanges = 256 << 20

// checkEntryBounds refuses an entry that no archive of a layer can hold: those who read one have bounds too.
func checkEntryBounds(e *tree.Entry) error {
	folders := e.Depth
	if !e.IsDir() {
		folders--
	}
	if e.PathLen() < tarfile.MaxName && folders <= tarfile.MaxDepth {
		return nil
	}
	return fault.Invalid("%s: its path has more than %d bytes or is more than %d folders deep, which no layer can hold",
		e.Shown(), tarfile.MaxName, tarfile.MaxDepth)
}

// checkBounds looks at all that a container has written before the library does, which goes by paths, looks at each from the
// root, and leaves out what it cannot reach.
func (w *Writable) checkBounds(ctx context.Context, containerID string) error {
	return walkFolder(ctx, w.layerFolder(containerID), tree.Options{}, tree.Visitor{
		Entry: func(e *tree.Entry) (bool, error) { return true, checkEntryBounds(e) },
	})
}

// walkFolder walks a folder whose path nobody else may shape.
func walkFolder(ctx context.Context, path string, opt tree.Options, v tree.Visitor) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return wrapError(err, "open %s", path)
	}
	defer unix.Close(fd) //nolint:errcheck // only read
	return tree.Walk(ctx, fd, opt, v)
}

// folderDiffer finds what a container's own folder of the overlay says beside those of its image.
type folderDiffer struct {
	below   []int // the folders of the image, the upper ones first
	levels  []changedFolder
	changes []container.Change
	bytes   int // of the paths in changes
}

// changedFolder is a folder on the way to what is looked at.
type changedFolder struct {
	path   string
	fresh  bool // the image has no such folder: nothing in it is looked for there
	listed bool // it is among the changes
	whole  bool // so are all above it
}

// overlayChanges returns the changes of a container's own folder of the overlay, a folder before what is in it.
func overlayChanges(ctx context.Context, own string, below []string) ([]container.Change, error) {
	d := &folderDiffer{levels: []changedFolder{{listed: true, whole: true}}}
	defer func() {
		for _, fd := range d.below {
			unix.Close(fd) //nolint:errcheck // only handles
		}
	}()
	for _, dir := range below {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		d.below = append(d.below, fd)
	}
	err := walkFolder(ctx, own, tree.Options{Sorted: true}, tree.Visitor{Entry: func(e *tree.Entry) (bool, error) {
		if e.PathLen() >= tarfile.MaxName {
			return false, fault.Invalid("%s: its path has more than %d bytes, which no list can hold", e.Shown(), tarfile.MaxName)
		}
		return true, d.compareEntry(e)
	}})
	return d.changes, err
}

// compareEntry compares one entry with the image, and lists it if it is a change.
func (d *folderDiffer) compareEntry(e *tree.Entry) error {
	d.levels = d.levels[:e.Depth]
	above := &d.levels[e.Depth-1]
	name := "/" + e.Path()
	kind, fresh, same := container.ChangeAdded, true, false
	if !above.fresh {
		var before unix.Stat_t
		if d.findInImage(name, &before) {
			kind, fresh = container.ChangeModified, false
			same = e.IsDir() && isSameFolder(&e.Stat, &before)
		}
	}
	switch {
	case isWhiteout(&e.Stat):
		kind, same = container.ChangeDeleted, false
	case e.IsDir() && !fresh && isOpaque(e):
		kind, same = container.ChangeDeleted, false // and made anew
	}
	if !same {
		if kind != container.ChangeModified {
			d.listAbove(e.Depth - 1)
		}
		if err := d.addChange(name, kind); err != nil {
			return err
		}
	}
	if e.IsDir() {
		d.levels = append(d.levels, changedFolder{path: name, fresh: fresh, listed: !same, whole: !same && above.whole})
	}
	return nil
}

// listAbove adds the folders in which something came or went, unless they are among the changes.
func (d *folderDiffer) listAbove(last int) {
	first := last
	for first >= 0 && !d.levels[first].whole {
		first--
	}
	for i := first + 1; i <= last; i++ {
		l := &d.levels[i]
		if !l.listed {
			_ = d.addChange(l.path, container.ChangeModified) // the bound is looked at with what follows
		}
		l.listed, l.whole = true, true
	}
}

func (d *folderDiffer) addChange(name string, kind container.ChangeKind) error {
	d.changes = append(d.changes, container.Change{Path: name, Kind: kind})
	if d.bytes += len(name); d.bytes > maxChanges {
		return fault.Invalid("the names of what the container has changed have more than %d bytes", maxChanges)
	}
	return nil
}

// findInImage finds a name in the image.
func (d *folderDiffer) findInImage(name string, st *unix.Stat_t) bool {
	for _, layer := range d.below {
		switch err := statIn(layer, name, st); {
		case err == nil:
			return !isWhiteout(st)
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			return false // this layer has replaced a folder above
		}
	}
	return false
}

// isSameFolder reports whether a folder is there only because something in it has changed.
func isSameFolder(now, before *unix.Stat_t) bool {
	return now.Size == before.Size && now.Mode == before.Mode && now.Mtim == before.Mtim
}

// isOpaque reports whether a folder hides what the image has in its place.
func isOpaque(e *tree.Entry) bool {
	var value [1]byte
	n, err := unix.Lgetxattr(tree.PathOf(e.Dir)+"/"+e.Base, overlayXattrs+"opaque", value[:])
	return err == nil && n == 1 && value[0] == 'y'
}
