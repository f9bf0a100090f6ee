package lifecycle

import (
	"context"

	"moss/engine/container"
)

// Wait is WaitFor for container.WaitNotRunning.
func (iv *Inventory) Wait(ctx context.Context, ref string) (code int, err error) {
	return iv.WaitFor(ctx, ref, container.WaitNotRunning, func() {})
}

// WaitFor blocks until what the condition says has come, and returns the container's exit code of then. If that is not yet, it
// calls begun once nothing that happens from then on is missed; begun must not block. Conditions:
//   - WaitNotRunning is the next end of the process, whatever its restart policy makes of that. A container at rest gives its
//     last code at once; 0 if it has never run.
//   - WaitNextExit is that for a container at rest too: the end of the run to come, or of a start that fails.
//   - WaitRemoved is the removal of the container; one that fails ends the waiting with its error.
//
// A container that is removed meanwhile still gives its code. fault.NotFound if there is no such container.
func (iv *Inventory) WaitFor(
	ctx context.Context, ref string, condition container.WaitCondition, begun func(),
) (code int, err error) {
	c, err := iv.index.find(ref)
	if err != nil {
		return 0, err
	}
	end := c.awaitedMoment(condition)
	select {
	case <-end.done:
		return end.code, end.err
	default:
		begun()
	}
	select {
	case <-end.done:
		return end.code, end.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// awaitedMoment returns the moment that a condition means.
func (c *ctr) awaitedMoment(condition container.WaitCondition) *moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch condition {
	case container.WaitNextExit:
		if !c.end.past { // of the process that there is, or of one that comes
			return c.end
		}
		if c.exit == nil {
			c.exit = newMoment()
		}
		return c.exit
	case container.WaitRemoved:
		return c.removal
	case container.WaitNotRunning:
		return c.end
	default:
		return c.end
	}
}

// endLocked lets those go on who wait for the end of the process, or of the next one.
func (c *ctr) endLocked(code int) {
	c.end.complete(code)
	if c.exit != nil {
		c.exit.complete(code)
		c.exit = nil
	}
}

// completeRemoval lets those go on who wait for the removal of the container; nothing will run in it any more.
func (c *ctr) completeRemoval() {
	c.mu.Lock()
	defer c.mu.Unlock()
	code := c.published.Load().ExitCode
	c.endLocked(code)
	c.removal.complete(code)
}

// failRemoval tells those who wait for the removal of the container that it has failed. The next one may work.
func (c *ctr) failRemoval(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removal.err = cause
	c.removal.complete(c.published.Load().ExitCode)
	c.removal = newMoment()
}
