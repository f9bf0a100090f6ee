package lifecycle

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/task"
)

// Pause freezes the container's processes. fault.Conflict if it does not run or is paused already. On error it runs on.
func (m *Manager) Pause(ctx context.Context, ref string) error {
	return m.whileHeld(ctx, ref, m.freezer.pauseContainer)
}

// Unpause lets a paused container's processes go on. fault.Conflict if it is not paused.
func (m *Manager) Unpause(ctx context.Context, ref string) error {
	return m.whileHeld(ctx, ref, m.freezer.unpauseContainer)
}

// whileHeld runs a verb with the container's token. The verb is carried out even if the client hangs up.
func (m *Manager) whileHeld(ctx context.Context, ref string, verb func(context.Context, *ctr) error) error {
	c, err := m.index.acquire(ctx, ref)
	if err != nil {
		return err
	}
	defer c.release()
	if c.isRemoved() {
		return noSuch(ref) // while this waited
	}
	return verb(context.WithoutCancel(ctx), c)
}

// thawSoon lets the processes of a container that is to end go on.
func (m *Manager) thawSoon(c *ctr) {
	m.background.runJob(func(ctx context.Context) { m.freezer.thawToEnd(ctx, c) })
}

// freezer lets the processes of containers stand still and go on.
type freezer struct {
	lives *lives
	log   zerolog.Logger
}

// pauseContainer does the work of Pause. The caller holds the token.
func (f *freezer) pauseContainer(ctx context.Context, c *ctr) error {
	return f.freezeAs(ctx, c, life.Frozen{})
}

// freezeForNow is pauseContainer that does not outlive the engine: should it die, the next one lets the processes go on.
func (f *freezer) freezeForNow(ctx context.Context, c *ctr) error {
	return f.freezeAs(ctx, c, life.Frozen{Moment: true})
}

func (f *freezer) freezeAs(ctx context.Context, c *ctr, frozen life.Frozen) (err error) {
	r, err := f.lives.applyEvent(c, life.FreezeBegun{})
	if err != nil {
		return err
	}
	var back undo
	defer func() { back.run(ctx, &err) }()
	back.push(func(context.Context) error {
		f.lives.noteEvent(c, life.FreezeFailed{})
		return nil
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
	_, err = f.lives.applyEvent(c, frozen)
	return err // it has ended meanwhile
}

// unpauseContainer does the work of Unpause. The caller holds the token.
func (f *freezer) unpauseContainer(ctx context.Context, c *ctr) error {
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
		f.lives.noteEvent(c, life.FrozenEnded{})
		return container.NotRunning(r.Name)
	}
	if err != nil {
		return fmt.Errorf("Cannot unpause container %s: %w", c.id, err) //nolint:staticcheck // clients know the text
	}
	_, err = f.lives.applyEvent(c, life.Thawed{})
	return err // it has ended meanwhile
}

// thawToEnd lets the processes of a container that is to end go on, so that they can. It needs no token.
func (f *freezer) thawToEnd(ctx context.Context, c *ctr) {
	t, ok := c.runningTask()
	if !ok || c.record().State != container.Paused {
		return
	}
	err := t.Resume(ctx)
	switch {
	case fault.Is(err, fault.Conflict): // it has ended already
		f.lives.noteEvent(c, life.FrozenEnded{})
		return
	case err != nil:
		f.log.Error().Err(err).Str("container", c.id).Msg("container that is to end not thawed")
		return
	}
	f.lives.noteEvent(c, life.Thawed{})
}

// settleFreeze makes a running task that is taken over and its record agree. A freeze that the last engine left half-done,
// or that was for a moment only, ends; otherwise what the task says counts.
func (f *freezer) settleFreeze(ctx context.Context, c *ctr, t task.Task, frozen bool) error {
	if c.record().Thaw {
		if err := ignoreEnd(t.Resume(ctx)); err != nil {
			return fmt.Errorf("thaw container %s: %w", c.id, err)
		}
		frozen = false
	}
	f.lives.noteEvent(c, life.Found{Frozen: frozen})
	return nil
}

// ignoreEnd drops the error of a task that has ended: there is nothing left to be done to it.
func ignoreEnd(err error) error {
	if fault.Is(err, fault.Conflict) {
		return nil
	}
	return err
}
