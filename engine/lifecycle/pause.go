package lifecycle

import (
	"context"
	"fmt"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/task"
)

// Pause freezes the container's processes. fault.Conflict if it does not run or is paused already. On error it runs on.
func (m *Manager) Pause(ctx context.Context, ref string) error {
	return m.whileHeld(ctx, ref, m.pauseContainer)
}

// Unpause lets a paused container's processes go on. fault.Conflict if it is not paused.
func (m *Manager) Unpause(ctx context.Context, ref string) error {
	return m.whileHeld(ctx, ref, m.unpauseContainer)
}

// whileHeld runs a verb with the container's token. The verb is carried out even if the client hangs up.
func (m *Manager) whileHeld(ctx context.Context, ref string, verb func(context.Context, *ctr) error) error {
	c, err := m.index.find(ref)
	if err != nil {
		return err
	}
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	if c.isRemoved() {
		return noSuch(ref) // while this waited
	}
	return verb(context.WithoutCancel(ctx), c)
}

// pauseContainer does the work of Pause. The caller holds the token.
func (m *Manager) pauseContainer(ctx context.Context, c *ctr) error {
	return m.freezeAs(ctx, c, life.Frozen{})
}

// freezeForNow is pauseContainer that does not outlive the engine: should it die, the next one lets the processes go on.
func (m *Manager) freezeForNow(ctx context.Context, c *ctr) error {
	return m.freezeAs(ctx, c, life.Frozen{Moment: true})
}

func (m *Manager) freezeAs(ctx context.Context, c *ctr, frozen life.Frozen) (err error) {
	r, err := m.applyEvent(c, life.FreezeBegun{})
	if err != nil {
		return err
	}
	var back undo
	defer func() { back.run(ctx, &err) }()
	back.push(func(context.Context) error {
		_, err := m.applyEvent(c, life.FreezeFailed{})
		return err
	})
	t, ok := c.runningTask()
	if !ok {
		return container.NotRunning(r.Name)
	}
	if err := c.saveRecord(false); err != nil {
		return fmt.Errorf("save container %s: %w", c.id, err)
	}
	back.push(func(ctx context.Context) error { return ignoreEnd(t.Resume(ctx)) }) // some processes may be frozen
	if err := t.Pause(ctx); err != nil {
		return fmt.Errorf("Cannot pause container %s: %w", c.id, err) //nolint:staticcheck // clients know the text
	}
	_, err = m.applyEvent(c, frozen)
	return err // it has ended meanwhile
}

// unpauseContainer does the work of Unpause. The caller holds the token.
func (m *Manager) unpauseContainer(ctx context.Context, c *ctr) error {
	r := c.record()
	if _, err := r.Next(container.OpUnpause); err != nil {
		return err
	}
	t, ok := c.runningTask()
	if !ok {
		return container.NotRunning(r.Name)
	}
	err := t.Resume(ctx)
	if fault.Is(err, fault.Conflict) { // its process has ended, which nobody has told yet
		m.applyEvent(c, life.FrozenEnded{}) //nolint:errcheck // its watcher was faster
		return container.NotRunning(r.Name)
	}
	if err != nil {
		return fmt.Errorf("Cannot unpause container %s: %w", c.id, err) //nolint:staticcheck // clients know the text
	}
	_, err = m.applyEvent(c, life.Thawed{})
	return err // it has ended meanwhile
}

// thawToEnd lets the processes of a container that is to end go on, so that they can. It needs no token.
func (m *Manager) thawToEnd(ctx context.Context, c *ctr) {
	t, ok := c.runningTask()
	if !ok || c.record().State != container.Paused {
		return
	}
	err := t.Resume(ctx)
	switch {
	case fault.Is(err, fault.Conflict): // it has ended already
		m.applyEvent(c, life.FrozenEnded{}) //nolint:errcheck // its watcher was faster
		return
	case err != nil:
		m.opt.Log.Error().Err(err).Str("container", c.id).Msg("container that is to end not thawed")
		return
	}
	m.applyEvent(c, life.Thawed{}) //nolint:errcheck // it has ended already
}

// settleFreeze makes a running task that is taken over and its record agree. A freeze that the last engine left half-done,
// or that was for a moment only, ends; otherwise what the task says counts.
func (m *Manager) settleFreeze(ctx context.Context, c *ctr, t task.Task, frozen bool) error {
	if c.record().Thaw {
		if err := ignoreEnd(t.Resume(ctx)); err != nil {
			return fmt.Errorf("thaw container %s: %w", c.id, err)
		}
		frozen = false
	}
	_, err := m.applyEvent(c, life.Found{Frozen: frozen})
	return err
}

// ignoreEnd drops the error of a task that has ended: there is nothing left to be done to it.
func ignoreEnd(err error) error {
	if fault.Is(err, fault.Conflict) {
		return nil
	}
	return err
}
