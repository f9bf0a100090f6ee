package lifecycle

import (
	"context"
	"strconv"

	"moss/engine/container"
	"moss/engine/container/life"
)

// applyEvent is the way in which a container's life changes: by an event, one at a time. It returns the record after the
// event, and with an error, which is that of life.Step, the one before. A record that could not be saved is logged.
func (m *Manager) applyEvent(c *ctr, e life.Event) (*container.Record, error) {
	c.files.Lock()
	before, after, actions, err := c.stepLife(e)
	for len(actions) > 0 && actions[0].Do <= life.Disarm {
		m.doLocked(c, actions[0], before, after)
		actions = actions[1:]
	}
	c.files.Unlock()
	for _, a := range actions {
		m.doBeside(c, a)
	}
	return after, err
}

// doLocked does an action that other events wait for.
func (m *Manager) doLocked(c *ctr, a life.Action, before, after *container.Record) {
	switch a.Do {
	case life.Tell:
		if a.Event == "die" {
			m.publishEvent(a.Event, after, "exitCode", strconv.Itoa(after.ExitCode))
			return
		}
		m.publishEvent(a.Event, after)
	case life.TellReleased:
		m.publishNetwork("disconnect", before)
		m.publishVolumes("unmount", before)
	case life.Save, life.SaveStop, life.SavePhase:
		if err := c.saveLocked(a.Do); err != nil {
			m.opt.Log.Error().Err(err).Str("container", c.id).Str("state", after.State.String()).Msg("state of container not saved")
		}
	case life.Wake:
		c.wakeWaiters(after)
	case life.Arm:
		m.restartAfter(c, a.Delay)
	case life.Disarm:
		c.cancelRestart()
	case life.Thaw, life.Remove: // beside
	}
}

// doBeside does an action after which nothing of the container is held back.
func (m *Manager) doBeside(c *ctr, a life.Action) {
	switch a.Do {
	case life.Thaw:
		m.runInBackground(func(ctx context.Context) { m.thawToEnd(ctx, c) })
	case life.Remove:
		m.removeSoon(c)
	case life.Tell, life.TellReleased, life.Save, life.SaveStop, life.SavePhase, life.Wake, life.Arm, life.Disarm: // done
	}
}
