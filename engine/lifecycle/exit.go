package lifecycle

import (
	"context"
	"errors"
	"sync"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/task"
	"moss/engine/tree"
)

// watchTask follows a running task to its end and cleans up after it. One watcher runs per running container; it takes no
// token, so that it is never kept from its work. silence, if not nil, says why nothing could be learned of the task so far.
func (m *Manager) watchTask(c *ctr, t task.Task, silence error) {
	m.runInBackground(func(ctx context.Context) {
		if exit, over := m.followTask(ctx, c, t, silence); over { // otherwise the next engine takes the task over
			m.handleExit(context.WithoutCancel(ctx), c, t, exit)
		}
	})
}

// handleExit releases what a running container holds, then says that it has ended.
func (m *Manager) handleExit(ctx context.Context, c *ctr, t task.Task, exit task.Exit) {
	log := m.opt.Log.With().Str("container", c.id).Logger()
	end := container.End{Code: exit.Code, At: exit.At, OOMKilled: exit.OOMKilled, Error: exit.Error, KilledMonitor: exit.KilledMonitor}
	// The task goes with its word on the end: should the engine die before it is released, the record has it.
	if _, err := m.applyEvent(c, life.ProcessEnded{End: end}); err != nil {
		log.Error().Err(err).Msg("process of container ended in a state that has none")
	}
	if err := m.releaseTask(ctx, c, t); err != nil {
		log.Error().Err(err).Msg("container ended but not everything of it could be released")
	}
	m.tellEnded(c.id)
	after, err := m.applyEvent(c, life.Released{End: end, Closing: m.isClosing()})
	if err != nil {
		log.Error().Err(err).Msg("container ended in a state that has no end")
		return
	}
	log.Info().Int("exit", exit.Code).Str("state", after.State.String()).Msg("container exited")
}

// releaseTask gives back the network, the mount and the task itself.
func (m *Manager) releaseTask(ctx context.Context, c *ctr, t task.Task) error {
	var network, mount error
	var others sync.WaitGroup
	others.Go(func() {
		c.net.Lock()
		defer c.net.Unlock()
		network = m.opt.Networks.Leave(ctx, c.id)
	})
	others.Go(func() { // the kernel takes its time over a mount
		c.layerBack()
		mount = m.dropLayer(ctx, c)
	})
	deleted := t.Delete(ctx)
	if deleted == nil {
		deleted = tree.RemovePath(m.taskDir(c.id)) // what launchTask has put beside the task's own files
	}
	m.pruneCgroups(c.record())
	others.Wait()
	c.setTask(nil)
	return errors.Join(deleted, mount, network, m.unmountVolumes(ctx, c.record()))
}

// removeSoon removes a container that asked for it, once nobody holds its token.
func (m *Manager) removeSoon(c *ctr) {
	m.runInBackground(func(ctx context.Context) {
		if err := c.acquire(ctx); err != nil {
			return
		}
		defer c.release()
		if !c.record().State.AtRest() {
			return
		}
		if err := m.removeContainer(context.WithoutCancel(ctx), c); err != nil {
			m.opt.Log.Error().Err(err).Str("container", c.id).Msg("container not removed after its exit")
		}
	})
}
