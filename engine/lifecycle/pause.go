package lifecycle

import (
	"context"
	"fmt"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/task"
)

// Pause freezes the container's processes. fault.Conflict if it does not run or is paused already. On error it runs on.
func (m *Manager) Pause(ctx context.Context, ref string) error {
	return m.whileHeld(ctx, ref, m.freeze)
}

// Unpause lets a paused container's processes go on. fault.Conflict if it is not paused.
func (m *Manager) Unpause(ctx context.Context, ref string) error {
	return m.whileHeld(ctx, ref, m.unfreeze)
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
	if c.removed() {
		return noSuch(ref) // while this waited
	}
	return verb(context.WithoutCancel(ctx), c)
}

// freeze does the work of Pause. The caller holds the token.
func (m *Manager) freeze(ctx context.Context, c *ctr) error {
	if err := m.freezeForNow(ctx, c); err != nil {
		return err
	}
	c.update(func(r *container.Record) { r.Thaw = false })
	m.saveFrozen(c)
	return nil
}

// freezeForNow is freeze that does not outlive the engine: should it die, the next one lets the processes go on.
func (m *Manager) freezeForNow(ctx context.Context, c *ctr) (err error) {
	r := c.record()
	if _, err := r.Next(container.OpPause); err != nil {
		return err
	}
	t, ok := c.running()
	if !ok {
		return container.NotRunning(r.Name)
	}
	c.update(func(r *container.Record) { r.Thaw = true })
	if err := c.persist(false); err != nil {
		c.update(func(r *container.Record) { r.Thaw = false })
		return fmt.Errorf("save container %s: %w", c.id, err)
	}
	var back undo
	defer func() { back.run(ctx, &err) }()
	back.push(func(context.Context) error {
		c.update(func(r *container.Record) { r.Thaw = false })
		return c.persist(false)
	})
	back.push(func(ctx context.Context) error { return ignoreEnd(t.Resume(ctx)) }) // some processes may be frozen
	if err := t.Pause(ctx); err != nil {
		return fmt.Errorf("Cannot pause container %s: %w", c.id, err) //nolint:staticcheck // clients know the text
	}
	after, err := c.transition(container.OpPause, nil)
	if err != nil {
		return err // it has ended meanwhile
	}
	m.publish("pause", after)
	if c.beingEnded() { // a kill that came meanwhile must not wait for an unpause
		m.thaw(ctx, c, t)
	}
	return nil
}

// unfreeze does the work of Unpause. The caller holds the token.
func (m *Manager) unfreeze(ctx context.Context, c *ctr) error {
	r := c.record()
	if _, err := r.Next(container.OpUnpause); err != nil {
		return err
	}
	t, ok := c.running()
	if !ok {
		return container.NotRunning(r.Name)
	}
	err := t.Resume(ctx)
	if fault.Is(err, fault.Conflict) { // its process has ended, which nobody has told yet
		m.endFrozen(c)
		return container.NotRunning(r.Name)
	}
	if err != nil {
		return fmt.Errorf("Cannot unpause container %s: %w", c.id, err) //nolint:staticcheck // clients know the text
	}
	after, err := c.transition(container.OpUnpause, func(r *container.Record) { r.Thaw = false })
	if err != nil {
		return err // it has ended meanwhile
	}
	m.saveFrozen(c)
	m.publish("unpause", after)
	return nil
}

// endFrozen takes up that the process of a container that was paused has ended. Its watcher tells of the end.
func (m *Manager) endFrozen(c *ctr) {
	c.transition(container.OpEnd, func(r *container.Record) { r.Thaw = false }) //nolint:errcheck // the watcher was faster
}

// thaw lets the processes of a container that is to end go on, so that they can. It needs no token.
func (m *Manager) thaw(ctx context.Context, c *ctr, t task.Task) {
	if c.record().State != container.Paused {
		return
	}
	err := t.Resume(ctx)
	switch {
	case fault.Is(err, fault.Conflict): // it has ended already
		m.endFrozen(c)
		return
	case err != nil:
		m.opt.Log.Error().Err(err).Str("container", c.id).Msg("container that is to end not thawed")
		return
	}
	after, err := c.transition(container.OpUnpause, func(r *container.Record) { r.Thaw = false })
	if err != nil {
		return // it has ended already
	}
	m.saveFrozen(c)
	m.publish("unpause", after)
}

// saveFrozen saves that a container is frozen or no longer is. When it cannot be saved, only the next engine is misled.
func (m *Manager) saveFrozen(c *ctr) {
	if err := c.persist(false); err != nil {
		m.opt.Log.Error().Err(err).Str("container", c.id).Msg("pause of container not saved")
	}
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
	op := container.OpUnpause
	if frozen {
		op = container.OpPause
	}
	before := c.record()
	c.transition(op, nil) //nolint:errcheck // the state says so already
	c.update(func(r *container.Record) { r.Thaw = false })
	if after := c.record(); after.State != before.State || before.Thaw {
		m.saveFrozen(c)
	}
	return nil
}

// ignoreEnd drops the error of a task that has ended: there is nothing left to be done to it.
func ignoreEnd(err error) error {
	if fault.Is(err, fault.Conflict) {
		return nil
	}
	return err
}

// ending counts a caller that waits for the container's end until the returned function is called.
func (c *ctr) ending() (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enders++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.enders--
	}
}

// beingEnded reports whether somebody waits for the container's end.
func (c *ctr) beingEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enders > 0
}
