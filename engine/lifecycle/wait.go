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
