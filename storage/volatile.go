package storage

import (
	"context"
	"fmt"
	"sync"

	graphdriver "go.podman.io/storage/drivers"

	"moss/engine/fault"
)

// SetVolatile says whether mounts of a container's layer from now on keep nothing back for the disk: the container's own
// syncs and its unmount do not wait for it. It is for containers that nobody wants to see again after a crash of the machine;
// it is forgotten with the layer, or with the engine.
//
// Errors are fault.NotFound (the container has no layer) or internal.
func (w *Writable) SetVolatile(ctx context.Context, containerID string, volatile bool) error {
	if err := validID(containerID); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("layer of %s: %w", containerID, err)
	}
	unlock := w.locks.lock(containerID)
	defer unlock()
	if _, ok := w.containers.findParent(containerID); !ok {
		return noLayer(containerID)
	}
	if w.mountedAt(containerID) != "" {
		return fault.Conflict("the layer of container %s is mounted", containerID)
	}
	if !volatile {
		w.forgetVolatile(containerID)
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.volatile[containerID] = struct{}{}
	return nil
}

// isVolatile reports what SetVolatile has said.
func (w *Writable) isVolatile(containerID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.volatile[containerID]
	return ok
}

func (w *Writable) forgetVolatile(containerID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.volatile, containerID)
}

// getLayer mounts a container's layer.
func (w *Writable) getLayer(driver graphdriver.Driver, containerID string) (string, error) {
	if w.isVolatile(containerID) {
		return w.probe.getVolatile(driver, containerID)
	}
	return driver.Get(containerID, graphdriver.MountOpts{})
}

// volatileProbe makes the first volatile mount alone: the driver (1.64) finds out with it whether there are any, without a lock
// of its own.
type volatileProbe struct {
	mu   sync.Mutex // held while the first mount is made; guards done
	done bool
}

func (p *volatileProbe) getVolatile(driver graphdriver.Driver, layerID string) (string, error) {
	p.mu.Lock()
	if !p.done {
		defer p.mu.Unlock()
		dir, err := driver.Get(layerID, graphdriver.MountOpts{Volatile: true})
		p.done = err == nil
		return dir, err
	}
	p.mu.Unlock()
	return driver.Get(layerID, graphdriver.MountOpts{Volatile: true})
}
