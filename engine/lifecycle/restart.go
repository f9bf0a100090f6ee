package lifecycle

import (
	"context"
	"sync"
	"time"

	"moss/engine/container"
	"moss/engine/task"
)

// The delays between a container's end and its restart (API document 1, 2.3).
const (
	restartFloor   = 100 * time.Millisecond // before the first restart; doubles with each quick exit
	restartCeiling = time.Minute            // no delay is longer
	restartSteady  = 10 * time.Second       // a run at least as long starts the delays anew
)

// verdict says what a container's end leads to by its policy, and after which delay.
func (m *Manager) verdict(c *ctr, r *container.Record, exit task.Exit) (container.Op, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.closing() || r.State == container.Removing || r.RestartAtStart || !shouldRestart(r, exit.Code, r.RestartCount) {
		return container.OpExit, 0
	}
	if exit.At.Sub(r.StartedAt) >= restartSteady || c.restartDelay == 0 {
		c.restartDelay = restartFloor
	} else {
		c.restartDelay = min(2*c.restartDelay, restartCeiling)
	}
	return container.OpRestart, c.restartDelay
}

// shouldRestart is the policy itself, for a container that ended with code after so many restarts since its last start by
// a user.
func shouldRestart(r *container.Record, code, restarts int) bool {
	if r.StoppedByUser {
		return false
	}
	switch policy := r.Host.RestartPolicy; policy.Name {
	case "always", "unless-stopped":
		return true
	case "on-failure":
		return code != 0 && (policy.MaximumRetryCount == 0 || restarts < policy.MaximumRetryCount)
	default:
		return false
	}
}

// startsWithEngine is the policy at the start of an engine, for a container at rest. What a user stopped stays so, but for
// "always".
func startsWithEngine(r *container.Record) bool {
	if r.State != container.Exited {
		return false // it has never run, or is half removed
	}
	switch r.Host.RestartPolicy.Name {
	case "always":
		return true
	case "unless-stopped":
		return !r.StoppedByUser
	default: // it ran when the last engine ended
		return r.RestartAtStart && shouldRestart(r, r.ExitCode, 0)
	}
}

// restartAfter starts a Restarting container again once the delay is over, unless someone stops it meanwhile.
func (m *Manager) restartAfter(c *ctr, delay time.Duration) {
	stopped := make(chan struct{})
	c.mu.Lock()
	c.stopWait = sync.OnceFunc(func() { close(stopped) })
	c.mu.Unlock()
	m.work(func(ctx context.Context) {
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
		if err := m.start(context.WithoutCancel(ctx), c, container.OpRestart); err != nil {
			m.opt.Log.Error().Err(err).Str("container", c.id).Msg("restart policy could not start the container")
		}
	})
}

// cancelRestart ends the timer and leaves the state: the next engine takes it up.
func (c *ctr) cancelRestart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopWait != nil {
		c.stopWait()
		c.stopWait = nil
	}
}

// stopRestarting brings a Restarting container to rest; it reports false if it was no longer Restarting.
func (m *Manager) stopRestarting(c *ctr, op container.Op) bool {
	return m.endRestarting(c, op, func(r *container.Record) { r.StoppedByUser = true })
}

// endRestarting is stopRestarting with what is to be noted of it.
func (m *Manager) endRestarting(c *ctr, op container.Op, note func(*container.Record)) bool {
	if c.record().State != container.Restarting {
		return false
	}
	c.cancelRestart()
	after, err := c.transition(op, note)
	if err != nil || after.State != container.Exited {
		return false
	}
	if err := c.persistStop(); err != nil {
		m.opt.Log.Error().Err(err).Str("container", c.id).Msg("stop of container not saved")
	}
	return true
}
