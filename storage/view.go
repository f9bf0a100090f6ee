package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	graphdriver "go.podman.io/storage/drivers"
	"golang.org/x/sys/unix"

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
			return nil, wrapError(err, "open image %s", imageID)
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
		return nil, wrapError(err, "open image %s", imageID)
	}
	return viewOf(dir, func() error {
		defer unpin()
		return wrapError(s.unmountImage(cfg.topLayer), "close image %s", imageID)
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

func (t *layerTree) mountImage(layerID string) (string, error) {
	driver, err := t.cs.GraphDriver()
	if err != nil {
		return "", err
	}
	defer t.shareMounts(layerID, driver)()
	return driver.Get(layerID, graphdriver.MountOpts{Options: []string{"ro"}})
}

func (t *layerTree) unmountImage(layerID string) error {
	driver, err := t.cs.GraphDriver()
	if err != nil {
		return err
	}
	defer t.shareMounts(layerID, driver)()
	return driver.Put(layerID)
}

// shareMounts keeps others from mounting an image's layer or taking its mount away until what it returns is called: the driver
// counts, but does not wait.
func (t *layerTree) shareMounts(layerID string, driver graphdriver.Driver) (done func()) {
	if t.comparesTrees(driver) {
		t.naive.Lock()
		return t.naive.Unlock
	}
	return t.locks.lock(layerID)
}

// dropViews takes mounts of images away that an engine before this one left when it was killed.
func (t *layerTree) dropViews() error {
	if t.choice.driver == driverVFS {
		return nil
	}
	layers, err := t.cs.Layers()
	if err != nil {
		return wrapError(err, "list layers")
	}
	for i := range layers {
		if dir := t.mountedAt(layers[i].ID); dir != "" {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				return wrapError(err, "unmount layer %s", layers[i].ID)
			}
		}
	}
	return nil
}
