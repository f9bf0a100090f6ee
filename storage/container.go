package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	cstorage "go.podman.io/storage"
	"go.podman.io/storage/pkg/idtools"

	"moss/engine/fault"
	"moss/engine/image"
)

// Writable keeps the writable layers of containers, and their mounts.
type Writable struct {
	*disk
	containers *containerIndex // which layers there are

	mu       sync.Mutex          // guards borrows, volatile and detached
	borrows  map[string]int      // layers mounted for diffs only, with the number of these
	volatile map[string]struct{} // containers whose layers nobody wants after a crash of the machine
	detached map[string]*os.File // mounts of layers that are in no namespace of the engine's; nil: out of reach

	probe volatileProbe
}

func newWritable(d *disk, containers *containerIndex) *Writable {
	return &Writable{
		disk: d, containers: containers,
		borrows: map[string]int{}, volatile: map[string]struct{}{}, detached: map[string]*os.File{},
	}
}

// containerLayer is the layer of a container.
type containerLayer struct {
	id, parent string
	top        string              // layer of the image; the parent, or what that is a copy of
	maps       *idtools.IDMappings // nil for a container that has no ids of its own
}

// Create makes the writable layer of a container over an image. It reaches the disk within a second, not before Create
// returns: a power cut may undo it, a crash of the engine cannot.
//
// Errors are fault.NotFound (no such image), fault.Conflict (the layer is there already), fault.Invalid (not an id) or
// internal; nothing is left of a failed try.
func (s *Store) Create(ctx context.Context, containerID, imageID string) error {
	if err := validID(containerID); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("create layer of %s: %w", containerID, err)
	}
	cfg, err := s.soundConfig(bareID(imageID))
	if err != nil {
		return err
	}
	return s.createLayer(containerID, imageID, cfg.topLayer)
}

// createLayer makes a container's layer over another one and says what went wrong as Create does.
func (s *Store) createLayer(containerID, imageID, parent string) error {
	unlock := s.locks.lock(containerID)
	defer unlock()
	_, known := s.containers.findParent(containerID)
	if _, err := s.cs.Layer(containerID); known || err == nil {
		return fault.Conflict("container %s has a layer already", containerID)
	}
	driver, err := s.cs.GraphDriver()
	if err != nil {
		return wrapError(err, "create layer of %s", containerID)
	}
	s.birth.RLock()
	w, err := describeLayer(s.cs, containerID, parent)
	if err == nil {
		err = s.containers.makeLayer(driver, w)
	}
	s.birth.RUnlock()
	switch {
	case err == nil:
		s.flusher.markContainers()
		return nil
	case errors.Is(err, cstorage.ErrLayerUnknown):
		s.forgetConfig(bareID(imageID))
		return image.NoSuch(imageID)
	default:
		return wrapError(err, "create layer of %s", containerID)
	}
}

// describeLayer tells of a container's layer what follows from the one below. Errors are the library's.
func describeLayer(cs cstorage.Store, containerID, parent string) (*containerLayer, error) {
	w := &containerLayer{id: containerID, parent: parent, top: parent}
	if parent == "" {
		return w, nil
	}
	below, err := cs.Layer(parent)
	if err != nil {
		return w, err
	}
	if top, ok := below.Flags[mappedFlag].(string); ok {
		w.top, w.maps = top, idtools.NewIDMappingsFromMaps(below.UIDMap, below.GIDMap)
	}
	return w, nil
}

// Mount mounts a container's layer over its image and returns the folder, ready to be a root file system. Mounting a
// mounted layer again returns the same folder; one Unmount is enough in any case.
//
// Errors are fault.NotFound (the container has no layer), fault.Conflict (see Reclaim) or internal.
func (w *Writable) Mount(ctx context.Context, containerID string) (string, error) {
	if err := validID(containerID); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("mount layer of %s: %w", containerID, err)
	}
	unlock := w.locks.lock(containerID)
	defer unlock()
	if dir := w.mountedAt(containerID); dir != "" {
		w.claimMount(containerID)
		return dir, nil
	}
	if dir, err := w.attachLocked(containerID); err != nil || dir != "" {
		return dir, err
	}
	driver, err := w.cs.GraphDriver()
	if err != nil {
		return "", wrapError(err, "mount layer of %s", containerID)
	}
	dir, err := w.getLayer(driver, containerID)
	if errors.Is(err, fs.ErrNotExist) && !driver.Exists(containerID) {
		return "", noLayer(containerID)
	}
	if err != nil {
		return "", wrapError(err, "mount layer of %s", containerID)
	}
	return dir, nil
}

// Unmount takes a container's mount away, a detached one too. An absent mount, or an absent layer, is no error. What is
// still open below it goes on working until it is closed.
//
// The kernel writes the whole file system to disk when the last user of an overlay lets go, which takes as long as there
// is something to write. Letting go in the background was tried: it slows what runs meanwhile by more than it saves.
func (w *Writable) Unmount(ctx context.Context, containerID string) error {
	if err := validID(containerID); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("unmount layer of %s: %w", containerID, err)
	}
	unlock := w.locks.lock(containerID)
	defer unlock()
	return w.unmountLocked(containerID)
}

func (w *Writable) unmountLocked(containerID string) error {
	kept := w.letGo(containerID)
	if w.mountedAt(containerID) == "" && !kept {
		return nil
	}
	driver, err := w.cs.GraphDriver()
	if err != nil {
		return wrapError(err, "unmount layer of %s", containerID)
	}
	err = driver.Put(containerID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrapError(err, "unmount layer of %s", containerID)
	}
	return nil
}

// Remove deletes a container's layer, unmounted or not. Removing an absent layer is not an error. Layers of an image
// that was removed before go with the last container that needed them.
func (s *Store) Remove(ctx context.Context, containerID string) error {
	if err := validID(containerID); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("remove layer of %s: %w", containerID, err)
	}
	unlock := s.locks.lock(containerID)
	defer unlock()
	if err := s.unmountLocked(containerID); err != nil {
		return err
	}
	parent, known := s.containers.findParent(containerID)
	if !known {
		return nil
	}
	driver, err := s.cs.GraphDriver()
	if err != nil {
		return wrapError(err, "remove layer of %s", containerID)
	}
	defer s.ballast.restore()
	s.ballast.releaseIfScarce()
	err = s.emptyOwnLayer(containerID) // on a full disk the container's own files make room for the rest
	if err == nil {
		err = s.containers.removeLayer(driver, containerID)
	}
	if err != nil {
		return wrapError(err, "remove layer of %s", containerID)
	}
	s.forgetVolatile(containerID)
	s.flusher.markContainers()
	if !s.hasOrphans() {
		return nil
	}
	return s.pruneOrphans(parent)
}

// Containers returns the ids of all containers that have a layer.
func (w *Writable) Containers(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list container layers: %w", err)
	}
	return slices.Sorted(maps.Keys(w.containers.allParents())), nil
}

// noLayer is the one wording for a container without a layer.
func noLayer(containerID string) error {
	return fault.NotFound("container %s has no writable layer", containerID)
}

// validID makes sure that an id can be part of a path.
func validID(containerID string) error {
	if len(containerID) != 64 || strings.Trim(containerID, "0123456789abcdef") != "" {
		return fault.Invalid("%q is not a container id", containerID)
	}
	return nil
}

// bareID returns an image id as the library has it, without sha256:.
func bareID(imageID string) string { return strings.TrimPrefix(imageID, "sha256:") }
