package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	cstorage "go.podman.io/storage"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/image"
)

// containerFlag marks the layer of a container in the library's records; its value is the id of the image.
const containerFlag = "moss-container"

// Create makes the writable layer of a container over an image. The record reaches the disk within a second, not before
// Create returns: a power cut may undo it, a crash of the engine cannot.
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
	return s.createLayer(containerID, imageID, cfg.topLayer, cstorage.LayerIDMappingOptions{})
}

// createLayer makes a container's layer over another one and says what went wrong as Create does.
func (s *Store) createLayer(containerID, imageID, parent string, maps cstorage.LayerIDMappingOptions) error {
	bare := bareID(imageID)
	s.birth.RLock()
	_, err := s.cs.CreateLayer(containerID, parent, nil, "", true, &cstorage.LayerOptions{
		Volatile:         true, // the record is synced by the flusher instead of by the verb
		IDMappingOptions: maps,
		Flags:            map[string]any{containerFlag: bare},
	})
	s.birth.RUnlock()
	switch {
	case err == nil:
		s.flusher.requestSync()
		return nil
	case errors.Is(err, cstorage.ErrDuplicateID):
		return fault.Conflict("container %s has a layer already", containerID)
	case errors.Is(err, cstorage.ErrLayerUnknown):
		s.forgetConfig(bare)
		return image.NoSuch(imageID)
	default:
		return wrap(err, "create layer of %s", containerID)
	}
}

// Mount mounts a container's layer over its image and returns the folder, ready to be a root file system. Mounting a
// mounted layer again returns the same folder; one Unmount is enough in any case.
//
// Errors are fault.NotFound (the container has no layer), fault.Conflict (see Reclaim) or internal.
func (s *Store) Mount(ctx context.Context, containerID string) (string, error) {
	if err := validID(containerID); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("mount layer of %s: %w", containerID, err)
	}
	unlock := s.locks.lock(containerID)
	defer unlock()
	if dir := s.mountedAt(containerID); dir != "" {
		s.claimMount(containerID)
		return dir, nil
	}
	if dir, err := s.attachLocked(containerID); err != nil || dir != "" {
		return dir, err
	}
	driver, err := s.cs.GraphDriver()
	if err != nil {
		return "", wrap(err, "mount layer of %s", containerID)
	}
	dir, err := s.getLayer(driver, containerID)
	if errors.Is(err, fs.ErrNotExist) && !driver.Exists(containerID) {
		return "", noLayer(containerID)
	}
	if err != nil {
		return "", wrap(err, "mount layer of %s", containerID)
	}
	return dir, nil
}

// Unmount takes a container's mount away, a detached one too. An absent mount, or an absent layer, is no error. What is
// still open below it goes on working until it is closed.
//
// The kernel writes the whole file system to disk when the last user of an overlay lets go, which takes as long as there
// is something to write. Letting go in the background was tried: it slows what runs meanwhile by more than it saves.
func (s *Store) Unmount(ctx context.Context, containerID string) error {
	if err := validID(containerID); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("unmount layer of %s: %w", containerID, err)
	}
	unlock := s.locks.lock(containerID)
	defer unlock()
	return s.unmountLocked(containerID)
}

func (s *Store) unmountLocked(containerID string) error {
	kept := s.letGo(containerID)
	if s.mountedAt(containerID) == "" && !kept {
		return nil
	}
	driver, err := s.cs.GraphDriver()
	if err != nil {
		return wrap(err, "unmount layer of %s", containerID)
	}
	err = driver.Put(containerID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrap(err, "unmount layer of %s", containerID)
	}
	return nil
}

// mountedAt returns where a layer is mounted, by this engine or by the one before it; nothing if it is not. The driver
// vfs has nothing to mount.
func (s *Store) mountedAt(containerID string) string {
	if s.choice.driver == driverVFS {
		return ""
	}
	dir := filepath.Join(s.root, driverOverlay, containerID, "merged")
	var inside, outside unix.Stat_t
	if unix.Lstat(dir, &inside) != nil || unix.Lstat(filepath.Dir(dir), &outside) != nil || inside.Dev == outside.Dev {
		return ""
	}
	return dir
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
	parent := ""
	if s.hasOrphans() {
		if layer, err := s.cs.Layer(containerID); err == nil {
			parent = layer.Parent
		}
	}
	defer s.ballast.restore()
	s.ballast.releaseIfScarce()
	// On a full disk the container's own files make room for what the library notes.
	if err := s.emptyOwnLayer(containerID); err != nil {
		return wrap(err, "remove layer of %s", containerID)
	}
	err := s.cs.DeleteLayer(containerID)
	if err != nil && !errors.Is(err, cstorage.ErrNotALayer) && !errors.Is(err, cstorage.ErrLayerUnknown) {
		return wrap(err, "remove layer of %s", containerID)
	}
	s.mu.Lock()
	delete(s.volatile, containerID)
	s.mu.Unlock()
	s.flusher.requestSync()
	return s.pruneOrphans(parent)
}

// Containers returns the ids of all containers that have a layer.
func (s *Store) Containers(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list container layers: %w", err)
	}
	layers, err := s.cs.Layers()
	if err != nil {
		return nil, wrap(err, "list container layers")
	}
	var ids []string
	for i := range layers {
		if isContainer(&layers[i]) {
			ids = append(ids, layers[i].ID)
		}
	}
	return ids, nil
}

func isContainer(l *cstorage.Layer) bool {
	_, ok := l.Flags[containerFlag]
	return ok
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
