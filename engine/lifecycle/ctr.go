package lifecycle

import (
	"context"
	"sync"

	"moss/engine/container"
)

// ctr is one container. The fields are in the order in which their locks may be taken: one after another, or skipping some.
type ctr struct {
	id  string
	dir string // of its records

	token chan struct{}
	layer layerUse
	net   networkUse

	files    sync.Mutex // held while an event is applied and while a file of its folder is written; guards revision and phase
	revision uint64     // of the last record written
	phase    phase      // as it was written last

	memory
}

func newCtr(r *container.Record, dir string) *ctr {
	c := &ctr{id: r.ID, dir: dir, revision: r.Revision, token: make(chan struct{}, 1)}
	c.setFirst(r)
	return c
}

// acquire takes the operation token; release gives it back. ctx ends the waiting.
func (c *ctr) acquire(ctx context.Context) error {
	select {
	case c.token <- struct{}{}:
		return nil
	default:
	}
	select {
	case c.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *ctr) release() { <-c.token }

// setGone says whether the container is gone for good. Once it is, its record is not written any more, and a write under way
// has ended: the folder can be removed. The watcher of an exit writes after those who wait for the exit go on.
func (c *ctr) setGone(gone bool) {
	c.files.Lock()
	defer c.files.Unlock()
	c.noteGone(gone)
}
