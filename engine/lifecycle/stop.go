package lifecycle

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
)

// killWait bounds the wait for a process that has ended, or was sent SIGKILL, to be released: one that the kernel holds (a
// dead network mount) must not hold the verb for ever.
const killWait = 30 * time.Second

// Stop sends a signal and, after a time, SIGKILL, also where an earlier stop would give the container longer. fault.NotModified
// if it is stopped already, fault.Invalid for no signal. It goes on when ctx is cancelled.
func (m *Manager) Stop(ctx context.Context, ref string, opt container.StopOptions) error {
	c, err := m.index.find(ref)
	if err != nil {
		return err
	}
	how, err := askedEnding(c.record(), opt)
	if err != nil {
		return err
	}
	if err := m.stopper.acquireWithin(ctx, c, how.patience); err != nil {
		return err
	}
	defer c.release()
	return m.stopper.stopContainer(context.WithoutCancel(ctx), c, how) // a stop that was asked for is carried out
}

// Kill sends a signal: a name or a number, SIGKILL if empty, for which the call waits until the container has ended.
// fault.Conflict if it does not run, fault.Invalid for no signal.
func (m *Manager) Kill(ctx context.Context, ref, name string) error {
	if name == "" {
		name = "SIGKILL"
	}
	signal, err := container.ParseSignal(name)
	if err != nil {
		return err
	}
	c, err := m.index.find(ref)
	if err != nil {
		return err
	}
	r := c.record()
	if _, err := r.Next(container.OpKill); err != nil {
		return fault.Conflict("Cannot kill container: %s: %w", ref, err)
	}
	ends := signal == int(unix.SIGKILL) || signal == stopSignal(r)
	send := m.stopper.sendSignal
	if ends {
		r, err = m.lives.applyEvent(c, life.EndAsked{Op: container.OpKill})
		switch {
		case err != nil:
			return fault.Conflict("Cannot kill container: %s: %w", ref, err)
		case !r.State.HasProcess():
			return nil // it waited for its restart
		}
		defer m.lives.noteEvent(c, life.GaveUp{})
		send = m.stopper.endSignal
	}
	rest := c.untilRest()
	if err := send(ctx, c, signal); err != nil {
		if ends && fault.Is(err, fault.Conflict) {
			// The process has just ended: what is asked next shall find it so. After other signals its policy may start it again.
			waitRest(ctx, rest, killWait)
			ended := *c.record()
			ended.StoppedByUser = false
			if ended.State == container.Exited && life.ShouldRestart(&ended, ended.RestartCount) {
				return nil // it would run again: this call ended it
			}
		}
		if !fault.Is(err, fault.Conflict) {
			return fmt.Errorf("%s: %s: %w", "Cannot kill container", ref, err)
		}
		return fault.Conflict("Cannot kill container: %s: %w", ref, err)
	}
	if signal != int(unix.SIGKILL) {
		return nil
	}
	return m.stopper.awaitKilled(ctx, c, rest)
}

// Restart stops a running container as Stop does and starts it again; one at rest is just started.
func (m *Manager) Restart(ctx context.Context, ref string, opt container.StopOptions) error {
	c, err := m.index.find(ref)
	if err != nil {
		return err
	}
	how, err := askedEnding(c.record(), opt)
	if err != nil {
		return restartErr(ref, err)
	}
	if err := m.stopper.acquireWithin(ctx, c, how.patience); err != nil {
		return err
	}
	defer c.release()
	ctx = context.WithoutCancel(ctx) // between the two halves nobody would start it again
	if err := m.stopper.stopContainer(ctx, c, how); err != nil && !fault.Is(err, fault.NotModified) {
		return restartErr(ref, err)
	}
	if err := m.startContainer(ctx, c, container.OpStart); err != nil {
		return restartErr(ref, err)
	}
	publishEvent(m.opt.Events, "restart", c.record())
	return nil
}

// restartErr says, in the words that clients know, that one half of a restart did not work.
func restartErr(ref string, err error) error {
	return fmt.Errorf("%s %s: %w", "Cannot restart container", ref, err)
}

// Resize sets the size of the container's terminal in characters. Without a terminal there is nothing to do: clients send
// the size of their own. fault.Conflict when it does not run.
func (m *Manager) Resize(ctx context.Context, ref string, width, height uint16) error {
	c, err := m.index.find(ref)
	if err != nil {
		return err
	}
	t, ok := c.runningTask()
	if !ok {
		return container.NotRunning(c.record().Name)
	}
	if !c.record().Config.Tty {
		return nil
	}
	if err := t.Resize(ctx, width, height); err != nil {
		return err
	}
	publishEvent(m.opt.Events, "resize", c.record(), "height", strconv.Itoa(int(height)), "width", strconv.Itoa(int(width)))
	return nil
}
