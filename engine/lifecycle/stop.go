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

// Stop sends the container's stop signal and, after timeout, SIGKILL. A nil timeout takes the container's own, a
// negative one waits for ever. fault.NotModified if it is stopped already. It goes on when ctx is cancelled.
func (m *Manager) Stop(ctx context.Context, ref string, timeout *time.Duration) error {
	c, err := m.index.find(ref)
	if err != nil {
		return err
	}
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	return m.stopContainer(context.WithoutCancel(ctx), c, timeout) // a stop that was asked for is carried out
}

func (m *Manager) stopContainer(ctx context.Context, c *ctr, timeout *time.Duration) error {
	r, err := m.applyEvent(c, life.EndAsked{Op: container.OpStop})
	if err != nil {
		return err
	}
	if err := m.endProcess(ctx, c, r, m.stopTimeout(r, timeout)); err != nil {
		return err
	}
	m.publishEvent("stop", c.record())
	return nil
}

// stopTimeout is how long a stop waits before it kills.
func (m *Manager) stopTimeout(r *container.Record, asked *time.Duration) time.Duration {
	switch {
	case asked != nil:
		return *asked
	case r.Config.StopTimeout != nil:
		return time.Duration(*r.Config.StopTimeout) * time.Second
	default:
		return container.DefaultStopTimeout
	}
}

// endProcess ends the process of a container that was told so (life.EndAsked), and returns when its exit has been handled. r is the
// record after that. patience 0 kills at once.
func (m *Manager) endProcess(ctx context.Context, c *ctr, r *container.Record, patience time.Duration) error {
	if !r.State.HasProcess() {
		return nil // it waited for its restart
	}
	defer m.applyEvent(c, life.GaveUp{}) //nolint:errcheck // it cannot be refused
	rest := c.untilRest()
	if patience != 0 {
		if err := m.endSignal(ctx, c, stopSignal(r)); err != nil && !fault.Is(err, fault.Conflict) {
			return err
		}
		if patience < 0 {
			<-rest.done
			return nil
		}
		if waitRest(ctx, rest, patience) {
			return nil
		}
	}
	if err := m.endSignal(ctx, c, int(unix.SIGKILL)); err != nil && !fault.Is(err, fault.Conflict) {
		return err
	}
	return m.awaitKilled(ctx, c, rest)
}

func waitRest(ctx context.Context, rest *moment, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-rest.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// sendSignal tells of a signal and sends it to the container's process: the end that it leads to is told after it. fault.Conflict
// if there is no process.
func (m *Manager) sendSignal(ctx context.Context, c *ctr, signal int) error {
	t, ok := c.runningTask()
	if !ok {
		return container.NotRunning(c.record().Name)
	}
	m.publishEvent("kill", c.record(), "signal", strconv.Itoa(signal))
	return t.Signal(ctx, signal)
}

// stopSignal is the signal that asks the container to end.
func stopSignal(r *container.Record) int {
	if n, err := container.ParseSignal(string(r.Config.StopSignal)); err == nil {
		return n
	}
	return int(unix.SIGTERM)
}

// endSignal is sendSignal for one that is meant to end the container. A paused one is thawed, or it would not hear of it.
func (m *Manager) endSignal(ctx context.Context, c *ctr, signal int) error {
	if err := m.sendSignal(ctx, c, signal); err != nil {
		return err
	}
	m.thawToEnd(ctx, c)
	return nil
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
	send := m.sendSignal
	if ends {
		r, err = m.applyEvent(c, life.EndAsked{Op: container.OpKill})
		switch {
		case err != nil:
			return fault.Conflict("Cannot kill container: %s: %w", ref, err)
		case !r.State.HasProcess():
			return nil // it waited for its restart
		}
		defer m.applyEvent(c, life.GaveUp{}) //nolint:errcheck // it cannot be refused
		send = m.endSignal
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
	return m.awaitKilled(ctx, c, rest)
}

// Restart stops a running container as Stop does and starts it again; one at rest is just started.
func (m *Manager) Restart(ctx context.Context, ref string, timeout *time.Duration) error {
	c, err := m.index.find(ref)
	if err != nil {
		return err
	}
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	ctx = context.WithoutCancel(ctx) // between the two halves nobody would start it again
	if err := m.stopContainer(ctx, c, timeout); err != nil && !fault.Is(err, fault.NotModified) {
		return restartErr(ref, err)
	}
	if err := m.startContainer(ctx, c, container.OpStart); err != nil {
		return restartErr(ref, err)
	}
	m.publishEvent("restart", c.record())
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
	m.publishEvent("resize", c.record(), "height", strconv.Itoa(int(height)), "width", strconv.Itoa(int(width)))
	return nil
}
