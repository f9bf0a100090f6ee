package lifecycle

import (
	"context"
	"fmt"
	"time"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
)

// Start runs the container's process. fault.NotModified if it runs already; fault.NotFound if the command is not in the
// image. When it cannot start, the container stays as it was, with the exit code that shells give (126, 127) or 128.
func (m *Manager) Start(ctx context.Context, ref string) error {
	c, err := m.index.acquire(ctx, ref)
	if err != nil {
		return err
	}
	defer c.release()
	return m.startContainer(context.WithoutCancel(ctx), c, container.OpStart) // it keeps starting even if the client hangs up
}

// startContainer does the work of Start and of the restart policy. The caller holds the token.
func (m *Manager) startContainer(ctx context.Context, c *ctr, op container.Op) error {
	m.starting.RLock()
	defer m.starting.RUnlock()
	if m.ending {
		return fault.Unavailable("the engine is shutting down") // a container that is Restarting stays so for the next one
	}
	r := c.record()
	if _, err := r.Next(op); err != nil {
		return err
	}
	if err := m.leftovers.endLeftover(ctx, c); err != nil {
		return err
	}
	if err := m.launcher.launchTask(ctx, c, op); err != nil {
		return m.startFailed(c, op, err)
	}
	return nil
}

// startFailed records why a container did not start and tells of it as of an end, which is what waiting clients look for.
func (m *Manager) startFailed(c *ctr, op container.Op, cause error) error {
	code := 128
	switch {
	case isNeedMissing(cause): // says nothing of the command
	case fault.Is(cause, fault.NotFound):
		code = 127
	case fault.Is(cause, fault.Forbidden):
		code = 126
		cause = fault.Internal("%w", cause) // the documents know no 403 here
	}
	_, err := m.lives.applyEvent(c, life.StartFailed{Op: op, Code: code, Error: fault.Text(cause), At: time.Now()})
	if err != nil {
		return fmt.Errorf("killed while it was being restarted: %w", cause) // the kill has noted the end already
	}
	return cause
}
