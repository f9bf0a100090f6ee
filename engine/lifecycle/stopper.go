package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
)

// stopper ends the processes of containers.
type stopper struct {
	lives   *lives
	freezer *freezer
	events  events
}

// stopContainer does the work of Stop. The caller holds the token.
func (s *stopper) stopContainer(ctx context.Context, c *ctr, how ending) error {
	r, err := s.lives.applyEvent(c, life.EndAsked{Op: container.OpStop})
	if err != nil {
		return err
	}
	if err := s.endProcess(ctx, c, r, how); err != nil {
		return err
	}
	publishEvent(s.events, "stop", c.record())
	return nil
}

// ending is how a process is ended.
type ending struct {
	signal   int           // the first one
	patience time.Duration // until SIGKILL; 0: SIGKILL alone, negative: never
}

// newEnding is what the container's configuration says.
func newEnding(r *container.Record) ending {
	how := ending{stopSignal(r), container.DefaultStopTimeout}
	if r.Config.StopTimeout != nil {
		how.patience = time.Duration(*r.Config.StopTimeout) * time.Second
	}
	return how
}

// askedEnding is newEnding with what is asked for otherwise. fault.Invalid for no signal.
func askedEnding(r *container.Record, asked container.StopOptions) (how ending, err error) {
	how = newEnding(r)
	if asked.Timeout != nil {
		how.patience = *asked.Timeout
	}
	if asked.Signal != "" {
		how.signal, err = container.ParseSignal(asked.Signal)
	}
	return how, err
}

// endProcess ends the process of a container that was told so (life.EndAsked), and returns when its exit has been handled. r is
// the record after that.
func (s *stopper) endProcess(ctx context.Context, c *ctr, r *container.Record, how ending) error {
	if !r.State.HasProcess() {
		return nil // it waited for its restart
	}
	defer s.lives.noteEvent(c, life.GaveUp{})
	rest := c.untilRest()
	if how.patience != 0 {
		if err := s.endSignal(ctx, c, how.signal); err != nil && !fault.Is(err, fault.Conflict) {
			return err
		}
		if how.patience < 0 {
			<-rest.done
			return nil
		}
		if waitRest(ctx, rest, how.patience) {
			return nil
		}
	}
	if err := s.endSignal(ctx, c, int(unix.SIGKILL)); err != nil && !fault.Is(err, fault.Conflict) {
		return err
	}
	return s.awaitKilled(ctx, c, rest)
}

// acquireWithin takes the token of a container that is to end. One that is being stopped by somebody who gives it longer than
// patience, which may be without end, is killed then; negative patience waits.
func (s *stopper) acquireWithin(ctx context.Context, c *ctr, patience time.Duration) error {
	if patience < 0 || !c.isEnding() {
		return c.acquire(ctx)
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := c.acquire(within)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if c.isEnding() {
		if err := s.endSignal(ctx, c, int(unix.SIGKILL)); err != nil && !fault.Is(err, fault.Conflict) {
			return err
		}
	}
	return c.acquire(ctx)
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

// awaitKilled waits for the end of a container that was sent SIGKILL. When its monitor does not tell of it the task is ended
// without it.
func (s *stopper) awaitKilled(ctx context.Context, c *ctr, rest *moment) error {
	if waitRest(ctx, rest, endWait) || ctx.Err() != nil {
		return ctx.Err()
	}
	var err error
	if t, ok := c.runningTask(); ok {
		err = t.Destroy(ctx)
	}
	if waitRest(ctx, rest, endWait) || ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(fmt.Errorf("container %s did not end within %s of SIGKILL", c.record().Name, 2*endWait), err)
}

// sendSignal tells of a signal and sends it to the container's process: the end that it leads to is told after it. fault.Conflict
// if there is no process.
func (s *stopper) sendSignal(ctx context.Context, c *ctr, signal int) error {
	t, ok := c.runningTask()
	if !ok {
		return container.NotRunning(c.record().Name)
	}
	publishEvent(s.events, "kill", c.record(), "signal", strconv.Itoa(signal))
	return t.Signal(ctx, signal)
}

// stopSignal is the signal that asks the container to end.
func stopSignal(r *container.Record) int {
	if n, err := container.ParseSignal(r.Config.StopSignal); err == nil {
		return n
	}
	return int(unix.SIGTERM)
}

// endSignal is sendSignal for one that is meant to end the container. A paused one is thawed, or it would not hear of it.
func (s *stopper) endSignal(ctx context.Context, c *ctr, signal int) error {
	if err := s.sendSignal(ctx, c, signal); err != nil {
		return err
	}
	s.freezer.thawToEnd(ctx, c)
	return nil
}
