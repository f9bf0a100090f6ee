package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	cstorage "go.podman.io/storage"
	graphdriver "go.podman.io/storage/drivers"
	"go.podman.io/storage/pkg/archive"

	"moss/engine/container"
	"moss/engine/tree"
)

// Size returns how many bytes a container has written (rw) and how many it has in all, with its image's (root).
//
// Errors are fault.NotFound (the container has no layer) or internal.
func (w *Writable) Size(ctx context.Context, containerID string) (rw, root int64, err error) {
	layer, driver, unlock, err := w.layerForDiff(ctx, containerID)
	if err != nil {
		return 0, 0, err
	}
	defer unlock()
	if w.choice.driver == driverVFS {
		if err = w.checkBounds(ctx, containerID); err == nil {
			rw, err = driver.DiffSize(containerID, nil, layer.parent, nil, "")
		}
	} else {
		rw, err = tree.Size(ctx, w.layerFolder(containerID))
	}
	if err != nil {
		return 0, 0, wrapError(err, "size of layer of %s", containerID)
	}
	root = rw
	for below, err := range w.layersFrom(layer.parent) {
		if err != nil {
			return 0, 0, wrapError(err, "size of layer of %s", containerID)
		}
		root += max(below.UncompressedSize, 0)
	}
	return rw, root, nil
}

// Diff returns what a container has changed as a tar archive, with deleted files as ".wh." entries. The caller closes
// it. The container may run on meanwhile: the archive then holds some state of each file between start and end. skip is
// that of Changes: what it leaves out there is not in the archive either.
//
// Errors are fault.NotFound (the container has no layer) or internal.
func (w *Writable) Diff(ctx context.Context, containerID string, skip []string) (io.ReadCloser, error) {
	layer, driver, unlock, err := w.layerForDiff(ctx, containerID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := w.checkBounds(ctx, containerID); err != nil {
		return nil, wrapError(err, "diff of layer of %s", containerID)
	}
	var left map[string]bool
	if len(skip) > 0 {
		if _, left, err = w.changesLocked(ctx, layer, driver, skip); err != nil {
			return nil, err
		}
	}
	borrowed, err := w.borrowLocked(driver, containerID)
	if err != nil {
		return nil, err
	}
	w.naive.Lock()
	diff, err := driver.Diff(containerID, layer.maps, layer.parent, layer.maps, "")
	w.naive.Unlock()
	if err != nil {
		err = wrapError(err, "diff of layer of %s", containerID)
		if borrowed {
			err = errors.Join(err, w.giveBackLocked(containerID))
		}
		return nil, err
	}
	if len(left) > 0 {
		diff = leaveOut(diff, left)
	}
	return &diffReader{ReadCloser: diff, store: w, containerID: containerID, borrowed: borrowed}, nil
}

// diffReader ends a diff, and the mount that was made for it.
type diffReader struct {
	io.ReadCloser
	store       *Writable
	containerID string
	borrowed    bool
}

// Close ends the diff.
func (d *diffReader) Close() error {
	unlock := d.store.locks.lock(d.containerID)
	defer unlock()
	err := d.ReadCloser.Close()
	if d.borrowed {
		err = errors.Join(err, d.store.giveBackLocked(d.containerID))
		d.borrowed = false
	}
	return err
}

// borrowLocked mounts a layer for a driver that compares mounted trees. Without it the driver would mount the layer read
// only by itself, and a Mount of that moment would return that.
func (w *Writable) borrowLocked(driver graphdriver.Driver, containerID string) (bool, error) {
	if !w.comparesTrees(driver) || (w.mountedAt(containerID) != "" && !w.isBorrowed(containerID)) {
		return false, nil
	}
	w.mu.Lock()
	w.borrows[containerID]++
	first := w.borrows[containerID] == 1
	w.mu.Unlock()
	if !first {
		return true, nil
	}
	if _, err := driver.Get(containerID, graphdriver.MountOpts{}); err != nil {
		w.claimMount(containerID)
		return false, wrapError(err, "mount layer of %s", containerID)
	}
	return true, nil
}

// giveBackLocked unmounts a borrowed layer with its last borrower, unless Mount has claimed it.
func (w *Writable) giveBackLocked(containerID string) error {
	w.mu.Lock()
	left, ok := w.borrows[containerID]
	if ok {
		if left--; left == 0 {
			delete(w.borrows, containerID)
		} else {
			w.borrows[containerID] = left
		}
	}
	w.mu.Unlock()
	if !ok || left > 0 {
		return nil
	}
	return w.unmountLocked(containerID)
}

// claimMount makes a borrowed mount a container's own.
func (w *Writable) claimMount(containerID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.borrows, containerID)
}

func (w *Writable) isBorrowed(containerID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.borrows[containerID] > 0
}

// Changes returns the paths that a container has changed, in order. skip names the container's mount points: a folder or
// empty file that was made there only to be mounted over is left out, and so are parents that nothing else has changed.
//
// Errors are fault.NotFound (the container has no layer) or internal.
func (w *Writable) Changes(ctx context.Context, containerID string, skip []string) ([]container.Change, error) {
	layer, driver, unlock, err := w.layerForDiff(ctx, containerID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	changes, left, err := w.changesLocked(ctx, layer, driver, skip)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(changes, func(c container.Change) bool { return left[c.Path] }), nil
}

// changesLocked returns all changes, and the paths of those that skip leaves out.
func (w *Writable) changesLocked(
	ctx context.Context, layer *containerLayer, driver graphdriver.Driver, skip []string,
) ([]container.Change, map[string]bool, error) {
	var changes []container.Change
	own, below, err := w.foldersOf(layer, driver)
	switch {
	case err != nil:
	case w.choice.driver == driverVFS || w.comparesTrees(driver):
		changes, err = w.comparedChanges(ctx, layer, driver)
	default:
		changes, err = overlayChanges(ctx, own, below)
	}
	if err != nil {
		return nil, nil, wrapError(err, "changes of layer of %s", layer.id)
	}
	slices.SortStableFunc(changes, func(a, b container.Change) int { return strings.Compare(a.Path, b.Path) })
	left, err := w.leftOut(layer, driver, changes, skip)
	return changes, left, err
}

// comparedChanges has the library compare the trees of a container and its image, which goes by paths.
func (w *Writable) comparedChanges(
	ctx context.Context, layer *containerLayer, driver graphdriver.Driver,
) ([]container.Change, error) {
	if err := w.checkBounds(ctx, layer.id); err != nil {
		return nil, err
	}
	w.naive.Lock()
	found, err := driver.Changes(layer.id, nil, layer.parent, nil, "")
	w.naive.Unlock()
	if err != nil {
		return nil, err
	}
	changes := make([]container.Change, 0, len(found))
	for _, c := range found {
		kind := container.ChangeModified
		switch c.Kind {
		case archive.ChangeModify:
		case archive.ChangeAdd:
			kind = container.ChangeAdded
		case archive.ChangeDelete:
			kind = container.ChangeDeleted
		}
		changes = append(changes, container.Change{Path: c.Path, Kind: kind})
	}
	return changes, nil
}

// layerForDiff returns a container's layer with its lock held. The library's own calls for diffs are not used: they keep
// all layers locked as long as a client reads.
func (w *Writable) layerForDiff(ctx context.Context, containerID string) (*containerLayer, graphdriver.Driver, func(), error) {
	if err := validID(containerID); err != nil {
		return nil, nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, nil, fmt.Errorf("look at layer of %s: %w", containerID, err)
	}
	driver, err := w.cs.GraphDriver()
	if err != nil {
		return nil, nil, nil, wrapError(err, "look at layer of %s", containerID)
	}
	unlock := w.locks.lock(containerID)
	parent, ok := w.containers.findParent(containerID)
	if !ok {
		unlock()
		return nil, nil, nil, noLayer(containerID)
	}
	layer, err := describeLayer(w.cs, containerID, parent)
	if err != nil && !errors.Is(err, cstorage.ErrLayerUnknown) { // a damaged image: what was written is there
		unlock()
		return nil, nil, nil, wrapError(err, "look at layer of %s", containerID)
	}
	return layer, driver, unlock, nil
}
