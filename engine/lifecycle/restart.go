package lifecycle

import (
	"context"
	"sync"
	"time"

	"moss/engine/container"
)

// restartAfter starts a Restarting container again once the delay is over, unless someone stops it meanwhile.
func (m *Manager) restartAfter(c *ctr, delay time.Duration) {
	stopped := make(chan struct{})
	c.setDisarm(sync.OnceFunc(func() { close(stopped) }))
	m.background.runJob(func(ctx context.Context) {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-stopped:
			return
		case <-ctx.Done():
			return
		}
		if err := c.acquire(ctx); err != nil {
			return
		}
		defer c.release()
		if c.record().State != container.Restarting {
			return
		}
		if err := m.startContainer(context.WithoutCancel(ctx), c, container.OpRestart); err != nil {
			m.opt.Log.Error().Err(err).Str("container", c.id).Msg("restart policy could not start the container")
		}
	})
}

// cancelRestart ends the timer and leaves the state: the next engine takes it up.
func (c *ctr) cancelRestart() {
	if disarm := c.takeDisarm(); disarm != nil {
		disarm()
	}
}
