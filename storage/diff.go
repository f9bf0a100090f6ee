package storage

import (
	"context"
	"errors"
	"fmt"
	"io"

	cstorage "go.podman.io/storage"
	graphdriver "go.podman.io/storage/drivers"
	"go.podman.io/storage/pkg/archive"
)

// ChangeKind says what happened to a path; the numbers are those of the API (document 2, 4.1: changes).
type ChangeKind int

// The kinds of change.
const (
	Modified ChangeKind = 0
	Added    ChangeKind = 1
	Deleted  ChangeKind = 2
)

// Change is one difference between a container's file system and its image.
type Change struct {
	Path string // absolute, in the container
	Kind ChangeKind
}

// Size returns how many bytes a container has written (rw) and how many it has in all, with its image's (root).
//
// Errors are fault.NotFound (the container has no layer) or internal.
func (s *Store) Size(ctx context.Context, containerID string) (rw, root int64, err error) {
	layer, driver, unlock, err := s.layerForDiff(ctx, containerID)
	if err != nil {
		return 0, 0, err
	}
	defer unlock()
	if rw, err = driver.DiffSize(containerID, nil, layer.Parent, nil, ""); err != nil {
		return 0, 0, wrap(err, "size of layer of %s", containerID)
	}
	root = rw
	for layerID := layer.Parent; layerID != ""; {
		below, err := s.cs.Layer(layerID)
		if err != nil {
			return 0, 0, wrap(err, "size of layer of %s", containerID)
		}
		root += max(below.UncompressedSize, 0)
		layerID = below.Parent
	}
	return rw, root, nil
}

// Diff returns what a container has changed as a tar archive, with deleted files as ".wh." entries. The caller closes
// it. The container may run on meanwhile: the archive then holds some state of each file between start and end.
//
// Errors are fault.NotFound (the container has no layer) or internal.
func (s *Store) Diff(ctx context.Context, containerID string) (io.ReadCloser, error) {
	layer, driver, unlock, err := s.layerForDiff(ctx, containerID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	borrowed, err := s.borrowLocked(driver, containerID)
	if err != nil {
		return nil, err
	}
	s.naive.Lock()
	diff, err := driver.Diff(containerID, nil, layer.Parent, nil, "")
	s.naive.Unlock()
	if err != nil {
		err = wrap(err, "diff of layer of %s", containerID)
		if borrowed {
			err = errors.Join(err, s.giveBackLocked(containerID))
		}
		return nil, err
	}
	return &diffReader{ReadCloser: diff, store: s, containerID: containerID, borrowed: borrowed}, nil
}

// diffReader ends a diff, and the mount that was made for it.
type diffReader struct {
	io.ReadCloser
	store       *Store
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
func (s *Store) borrowLocked(driver graphdriver.Driver, containerID string) (bool, error) {
	if !s.comparesTrees(driver) || (s.mountedAt(containerID) != "" && !s.isBorrowed(containerID)) {
		return false, nil
	}
	s.mu.Lock()
	s.borrows[containerID]++
	first := s.borrows[containerID] == 1
	s.mu.Unlock()
	if !first {
		return true, nil
	}
	if _, err := driver.Get(containerID, graphdriver.MountOpts{}); err != nil {
		s.claim(containerID)
		return false, wrap(err, "mount layer of %s", containerID)
	}
	return true, nil
}

// giveBackLocked unmounts a borrowed layer with its last borrower, unless Mount has claimed it.
func (s *Store) giveBackLocked(containerID string) error {
	s.mu.Lock()
	left, ok := s.borrows[containerID]
	if ok {
		if left--; left == 0 {
			delete(s.borrows, containerID)
		} else {
			s.borrows[containerID] = left
		}
	}
	s.mu.Unlock()
	if !ok || left > 0 {
		return nil
	}
	return s.unmountLocked(containerID)
}

// claim makes a borrowed mount a container's own.
func (s *Store) claim(containerID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.borrows, containerID)
}

func (s *Store) isBorrowed(containerID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.borrows[containerID] > 0
}

// comparesTrees reports whether the driver finds differences by comparing mounted trees.
func (s *Store) comparesTrees(driver graphdriver.Driver) bool {
	if s.choice.driver == driverVFS {
		return false // it compares, but has nothing to mount
	}
	for _, pair := range driver.Status() {
		if pair[0] == "Native Overlay Diff" {
			return pair[1] != "true"
		}
	}
	return true
}

// Changes returns the paths that a container has changed, in order.
//
// Errors are fault.NotFound (the container has no layer) or internal.
func (s *Store) Changes(ctx context.Context, containerID string) ([]Change, error) {
	layer, driver, unlock, err := s.layerForDiff(ctx, containerID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s.naive.Lock()
	found, err := driver.Changes(containerID, nil, layer.Parent, nil, "")
	s.naive.Unlock()
	if err != nil {
		return nil, wrap(err, "changes of layer of %s", containerID)
	}
	changes := make([]Change, 0, len(found))
	for _, c := range found {
		kind := Modified
		switch c.Kind {
		case archive.ChangeModify:
		case archive.ChangeAdd:
			kind = Added
		case archive.ChangeDelete:
			kind = Deleted
		}
		changes = append(changes, Change{Path: c.Path, Kind: kind})
	}
	return changes, nil
}

// layerForDiff returns a container's layer with its lock held. The library's own calls for diffs are not used: they keep
// all layers locked as long as a client reads.
func (s *Store) layerForDiff(ctx context.Context, containerID string) (*cstorage.Layer, graphdriver.Driver, func(), error) {
	if err := validID(containerID); err != nil {
		return nil, nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, nil, fmt.Errorf("look at layer of %s: %w", containerID, err)
	}
	driver, err := s.cs.GraphDriver()
	if err != nil {
		return nil, nil, nil, wrap(err, "look at layer of %s", containerID)
	}
	unlock := s.locks.lock(containerID)
	layer, err := s.cs.Layer(containerID)
	if err != nil || !isContainer(layer) {
		unlock()
		if err == nil || errors.Is(err, cstorage.ErrLayerUnknown) {
			return nil, nil, nil, noLayer(containerID)
		}
		return nil, nil, nil, wrap(err, "look at layer of %s", containerID)
	}
	return layer, driver, unlock, nil
}
