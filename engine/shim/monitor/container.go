package monitor

import (
	"context"
	"sync"

	"moss/engine/oci"
)

// container is the task's container as the runtime knows it, and what is done to all its processes at once.
type container struct {
	id      string
	dir     string // its bundle, the task's folder
	runtime *oci.Runtime
	first   *process
	family  *family
	ending  chan struct{} // closed when the first process has ended

	children sync.RWMutex // shared: a runtime call, whose processes are not collected; alone: no call is under way

	mu      sync.Mutex // guards the fields below
	paused  bool
	stopped []stopped // by pauseAll, without a freezer
}

// callContext bounds a call of the runtime, which gets no further than the container's first process.
func (c *container) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, runtimeLimit)
	go func() {
		select {
		case <-c.ending:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// deleteLocked removes the container and kills its processes. The caller holds children.
func (c *container) deleteLocked(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runtimeLimit) // cleaning up is never cancelled
	defer cancel()
	if err := c.runtime.Delete(ctx, c.id, true); err != nil {
		logError("delete container", err)
	}
}
