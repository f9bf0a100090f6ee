package lifecycle

import (
	"context"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
)

// resumeContainer goes on where the last engine was: timers of restart policies, removals, automatic starts.
func (m *Manager) resumeContainer(ctx context.Context, c *ctr, begun map[string]chan struct{}) {
	r := c.record()
	switch {
	case r.State == container.Restarting:
		m.restartAfter(c, life.FirstDelay)
	case r.State == container.Removing:
		if _, left := c.runningTask(); left { // of which nothing could be learned: it has to be ended first
			m.background.runHolding(c, func(ctx context.Context) {
				m.finishRemoval(context.WithoutCancel(ctx), c)
			})
			return
		}
		m.finishRemoval(context.WithoutCancel(ctx), c)
	case life.StartsWithEngine(r):
		m.background.runJob(func(ctx context.Context) {
			if ready := begun[c.id]; ready != nil { // nil for one that has ended since
				defer close(ready)
			}
			if !waitNeeds(ctx, r, begun) {
				return
			}
			if err := c.acquire(ctx); err != nil {
				return
			}
			defer c.release()
			if err := m.startContainer(context.WithoutCancel(ctx), c, container.OpStart); err != nil && !fault.Is(err, fault.NotModified) {
				m.opt.Log.Error().Err(err).Str("container", c.id).Msg("container not started with the engine")
			}
		})
	case r.State == container.Exited && r.Host.AutoRemove:
		m.removeSoon(c)
	}
}

// finishRemoval ends a removal that a crash interrupted.
func (m *Manager) finishRemoval(ctx context.Context, c *ctr) {
	_, err := m.lives.applyEvent(c, life.RemovalFailed{Error: c.record().Error})
	if err == nil {
		err = m.remover.removeContainer(ctx, c)
	}
	if err != nil {
		m.opt.Log.Error().Err(err).Str("container", c.id).Msg("interrupted removal not completed")
	}
}
