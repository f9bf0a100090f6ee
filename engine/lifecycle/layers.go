package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"moss/engine/container"
)

// layerStore keeps the writable layers of containers. A container's id names its layer.
type layerStore interface {
	Create(ctx context.Context, containerID, imageID string) error
	Remove(ctx context.Context, containerID string) error
	// SetVolatile says whether mounts to come keep nothing back for the disk. fault.Conflict while there is a mount.
	SetVolatile(ctx context.Context, containerID string, volatile bool) error
	Size(ctx context.Context, containerID string) (rw, rootfs int64, err error)
	Diff(ctx context.Context, containerID string, skip []string) (io.ReadCloser, error)
	Containers(ctx context.Context) ([]string, error)
	Driver() string
}

// layerMounts mounts writable layers. Detach takes the mount of one that runs away until the next Mount; Reclaim finds
// what an earlier engine has detached.
type layerMounts interface {
	Mount(ctx context.Context, containerID string) (dir string, err error)
	Unmount(ctx context.Context, containerID string) error
	Detach(ctx context.Context, containerID string) error
	Reclaim(ctx context.Context, containerID string, pid int) error
}

// layers makes, mounts and removes the writable layers of containers.
type layers struct {
	store  layerStore
	mounts layerMounts
	userns *userNamespaces
	log    zerolog.Logger
}

// layerUse is the use of one container's layer.
type layerUse struct {
	removal sync.RWMutex // read-locked while a view on the files is opened; locked while the layer is removed

	mount   sync.Mutex // held while the layer is mounted or unmounted; guards holders and apart
	holders int        // of the mount: the task, and views on the files
	apart   bool       // the task's process has the layer in a mount namespace of its own
}

// createLayer makes a container's writable layer.
func (l *layers) createLayer(ctx context.Context, containerID, imageID string, spec *container.Spec) error {
	if spec.Host.KeepsID() && !l.userns.ids.Single() {
		return l.userns.mapped.CreateMapped(ctx, containerID, imageID, *l.userns.idMap(&spec.Host))
	}
	return l.store.Create(ctx, containerID, imageID)
}

// holdLayer mounts a container's layer, or shares the mount. Each success is followed by one dropLayer.
func (l *layers) holdLayer(ctx context.Context, c *ctr) (dir string, err error) {
	c.layer.mount.Lock()
	defer c.layer.mount.Unlock()
	if dir, err = l.mounts.Mount(ctx, c.id); err != nil {
		return "", err
	}
	if c.layer.holders == 0 {
		if err := ownRoot(dir, l.userns.idMap(&c.record().Host)); err != nil {
			return "", errors.Join(err, l.mounts.Unmount(context.WithoutCancel(ctx), c.id))
		}
	}
	c.layer.holders++
	return dir, nil
}

// dropLayer lets go of a mount. With the last holder the layer is unmounted; a layer that was removed is none. With the
// last but a process that runs it is detached.
func (l *layers) dropLayer(ctx context.Context, c *ctr) error {
	c.layer.mount.Lock()
	defer c.layer.mount.Unlock()
	return l.dropLocked(ctx, c)
}

// dropEnded is dropLayer for a task whose process has ended.
func (l *layers) dropEnded(ctx context.Context, c *ctr) error {
	c.layer.mount.Lock()
	defer c.layer.mount.Unlock()
	c.layer.apart = false
	return l.dropLocked(ctx, c)
}

func (l *layers) dropLocked(ctx context.Context, c *ctr) error {
	if c.layer.holders = max(c.layer.holders-1, 0); c.layer.holders > 0 {
		l.detachLocked(ctx, c)
		return nil
	}
	return l.mounts.Unmount(ctx, c.id)
}

// removeLayer removes the layer of a container that is Removing, and with it the mount. Views that are being opened are
// waited for; those that are open go on without files.
func (l *layers) removeLayer(ctx context.Context, c *ctr, take func() error) error {
	c.layer.removal.Lock()
	defer c.layer.removal.Unlock()
	if err := take(); err != nil {
		return err
	}
	return l.store.Remove(ctx, c.id)
}

// layerApart notes that a process runs, which has the layer in a mount namespace of its own. The engine's own mount is
// taken away unless somebody looks at the files.
func (l *layers) layerApart(ctx context.Context, c *ctr) {
	c.layer.mount.Lock()
	defer c.layer.mount.Unlock()
	c.layer.apart = true
	l.detachLocked(ctx, c)
}

// detachLocked detaches a layer that only the container's process needs. Where that fails all works as well, but slower.
func (l *layers) detachLocked(ctx context.Context, c *ctr) {
	if !c.layer.apart || c.layer.holders != 1 {
		return
	}
	if err := l.mounts.Detach(ctx, c.id); err != nil {
		l.log.Warn().Err(err).Str("container", c.id).Msg("layer of container not detached")
	}
}

// adoptLayer counts the mount of a container that an earlier engine has started. pid is its process; 0 if it has ended.
func (l *layers) adoptLayer(ctx context.Context, c *ctr, pid int) {
	c.layer.mount.Lock()
	defer c.layer.mount.Unlock()
	c.layer.holders++
	if pid == 0 {
		return
	}
	if err := l.mounts.Reclaim(ctx, c.id, pid); err != nil {
		l.log.Warn().Err(err).Str("container", c.id).Msg("files of container out of reach")
	}
	c.layer.apart = true
	l.detachLocked(ctx, c)
}

// bareLayer takes the mount of a layer away under whoever looks at it still.
func (l *layers) bareLayer(ctx context.Context, c *ctr) error {
	c.layer.mount.Lock()
	defer c.layer.mount.Unlock()
	return l.mounts.Unmount(ctx, c.id)
}

// settleLayer has the files of a container that is to be kept written to the disk, now and whenever it runs: its layer was
// mounted for a step, which need not survive a crash of the machine. It takes one mount for that.
func (l *layers) settleLayer(ctx context.Context, c *ctr) error {
	c.layer.removal.Lock() // nobody looks at its files from here on
	defer c.layer.removal.Unlock()
	if err := l.bareLayer(ctx, c); err != nil {
		return err
	}
	if err := l.store.SetVolatile(ctx, c.id, false); err != nil {
		return err
	}
	if _, err := l.holdLayer(ctx, c); err != nil {
		return err
	}
	return l.dropLayer(ctx, c)
}

// remakeLost makes anew the writable layers that a power cut has taken: they reach the disk within a second, a record at once.
// What was in them is as old as that.
func (l *layers) remakeLost(ctx context.Context, all []*ctr, running func(containerID string) bool) error {
	owned, err := l.store.Containers(ctx)
	if err != nil {
		return fmt.Errorf("list writable layers: %w", err)
	}
	for _, c := range all {
		spec := keptSpec(c)
		if spec == nil || running(c.id) || slices.Contains(owned, c.id) {
			continue
		}
		log := l.log.With().Str("container", c.id).Logger()
		log.Warn().Msg("writable layer is lost: an empty one takes its place")
		if err := l.createLayer(ctx, c.id, c.record().ImageID, spec); err != nil {
			log.Error().Err(err).Msg("writable layer not made anew")
		}
	}
	return nil
}

// keptSpec returns the settings of a container that is to stay; nil for one that is being removed, or cannot be started.
func keptSpec(c *ctr) *container.Spec {
	r := c.record()
	if r.State == container.Removing || r.State == container.Dead {
		return nil
	}
	spec, err := container.SpecOf(r)
	if err != nil {
		return nil // its start says so
	}
	return &spec
}
