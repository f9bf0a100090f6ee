package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	cstorage "go.podman.io/storage"
	graphdriver "go.podman.io/storage/drivers"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/image"
)

// emptyFolder is the file system of an image without layers.
const emptyFolder = "moss-empty"

// View mounts the file system of an image read only; several views of it share one mount. Its layers cannot go until all are
// closed. The driver vfs has nothing to mount: nobody may write to what it gives.
//
// Errors are fault.NotFound or internal.
func (s *Store) View(ctx context.Context, imageID string) (*image.View, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open image %s: %w", imageID, err)
	}
	cfg, err := s.soundConfig(bareID(imageID))
	if err != nil {
		return nil, err
	}
	if cfg.topLayer == "" {
		dir := filepath.Join(s.root, emptyFolder)
		if err := os.MkdirAll(dir, 0o555); err != nil {
			return nil, wrap(err, "open image %s", imageID)
		}
		return viewOf(dir, func() error { return nil })
	}
	unpin, ok := s.pinLayer(cfg.topLayer)
	if !ok {
		return nil, image.NoSuch(imageID)
	}
	dir, err := s.mountImage(cfg.topLayer)
	if err != nil {
		unpin()
		return nil, wrap(err, "open image %s", imageID)
	}
	return viewOf(dir, func() error {
		defer unpin()
		return wrap(s.unmountImage(cfg.topLayer), "close image %s", imageID)
	})
}

// viewOf makes a view of a folder. done is called once, when it is closed.
func viewOf(dir string, done func() error) (*image.View, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", dir, err), done())
	}
	root := os.NewFile(uintptr(fd), dir)
	return &image.View{Dir: dir, Root: root, Release: sync.OnceValue(func() error {
		root.Close() //nolint:errcheck // only a handle
		return done()
	})}, nil
}

func (s *Store) mountImage(layerID string) (string, error) {
	driver, err := s.cs.GraphDriver()
	if err != nil {
		return "", err
	}
	defer s.shareMounts(layerID, driver)()
	return driver.Get(layerID, graphdriver.MountOpts{Options: []string{"ro"}})
}

func (s *Store) unmountImage(layerID string) error {
	driver, err := s.cs.GraphDriver()
	if err != nil {
		return err
	}
	defer s.shareMounts(layerID, driver)()
	return driver.Put(layerID)
}

// shareMounts keeps others from mounting an image's layer or taking its mount away until what it returns is called: the driver counts,
// but does not wait.
func (s *Store) shareMounts(layerID string, driver graphdriver.Driver) (done func()) {
	if s.comparesTrees(driver) {
		s.naive.Lock()
		return s.naive.Unlock
	}
	return s.locks.lock(layerID)
}

// dropViews takes mounts of images away that an engine before this one left when it was killed.
func (s *Store) dropViews() error {
	if s.choice.driver == driverVFS {
		return nil
	}
	layers, err := s.cs.Layers()
	if err != nil {
		return wrap(err, "list layers")
	}
	for i := range layers {
		if isContainer(&layers[i]) {
			continue
		}
		if dir := s.mountedAt(layers[i].ID); dir != "" {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				return wrap(err, "unmount layer %s", layers[i].ID)
			}
		}
	}
	return nil
}

// SetVolatile says whether mounts of a container's layer from now on keep nothing back for the disk: the container's own
// syncs and its unmount do not wait for it. It is for containers that nobody wants to see again after a crash of the machine;
// it is forgotten with the layer, or with the engine.
//
// Errors are fault.NotFound (the container has no layer) or internal.
func (s *Store) SetVolatile(ctx context.Context, containerID string, volatile bool) error {
	if err := validID(containerID); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("layer of %s: %w", containerID, err)
	}
	unlock := s.locks.lock(containerID)
	defer unlock()
	layer, err := s.cs.Layer(containerID)
	if errors.Is(err, cstorage.ErrLayerUnknown) || err == nil && !isContainer(layer) {
		return noLayer(containerID)
	}
	if err != nil {
		return wrap(err, "layer of %s", containerID)
	}
	if s.mountedAt(containerID) != "" {
		return fault.Conflict("the layer of container %s is mounted", containerID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if volatile {
		s.volatile[containerID] = struct{}{}
	} else {
		delete(s.volatile, containerID)
	}
	return nil
}

// getLayer mounts a container's layer. The driver (1.64) finds out with the first volatile mount whether there are any, without
// a lock of its own.
func (s *Store) getLayer(driver graphdriver.Driver, containerID string) (string, error) {
	if !s.isVolatile(containerID) {
		return driver.Get(containerID, graphdriver.MountOpts{})
	}
	s.probing.Lock()
	if !s.probed {
		defer s.probing.Unlock()
		dir, err := driver.Get(containerID, graphdriver.MountOpts{Volatile: true})
		s.probed = err == nil
		return dir, err
	}
	s.probing.Unlock()
	return driver.Get(containerID, graphdriver.MountOpts{Volatile: true})
}

// isVolatile reports what SetVolatile has said.
func (s *Store) isVolatile(containerID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.volatile[containerID]
	return ok
}
