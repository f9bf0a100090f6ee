package lifecycle

import (
	"context"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/task"
)

const (
	// adoptWait is how long a new engine waits for the monitors before it serves. One that answers later is taken over then.
	adoptWait = time.Second
	// adoptAtOnce bounds how many monitors are asked at the same time, each over a connection.
	adoptAtOnce = 64
	// folderPoll is how often a new engine looks for a folder that a monitor is about to write again.
	folderPoll = 10 * time.Millisecond
	// retryFloor and retryCeiling are the delays after which a task is asked again of which something else but silence keeps
	// the engine from knowing: it has no descriptors left, or the runtime cannot clean up.
	retryFloor   = time.Second
	retryCeiling = time.Minute
	// endWait is how long a monitor may take to tell of the end of a process that was sent SIGKILL: it drains the output and
	// lets the runtime clean up.
	endWait = 15 * time.Second
)

// followTask sees a task to its end and returns it; false when the engine is closing. While the monitor does not answer the
// container is what it was: nothing tells that it has ended.
func (f *follower) followTask(ctx context.Context, c *ctr, t task.Task, silence error) (task.Exit, bool) {
	for wait := retryFloor; ; {
		err := silence
		if err == nil {
			var exit task.Exit
			if exit, err = t.Wait(ctx); err == nil {
				return exit, !f.background.isClosing()
			}
		}
		silence = nil
		switch {
		case f.background.isClosing():
			return task.Exit{}, false
		case fault.Is(err, fault.NotFound):
			return task.Exit{Code: 137, At: time.Now(), Error: "the container's monitor is gone: " + err.Error()}, true
		}
		f.noteSilence(c, err)
		status, err := t.Reach(ctx)
		switch {
		case f.background.isClosing():
			return task.Exit{}, false
		case err == nil:
			wait = retryFloor
			f.noteAnswer(c, t, status)
			continue
		case fault.Is(err, fault.NotFound):
			continue // Wait says so as well
		}
		f.noteSilence(c, err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, retryCeiling)
	}
}

// noteSilence makes it known that a container's monitor does not answer.
func (f *follower) noteSilence(c *ctr, cause error) {
	if c.record().MonitorSilent {
		return
	}
	c.update(func(r *container.Record) { r.MonitorSilent = true })
	f.log.Warn().Err(cause).Str("container", c.id).Msg("monitor of container does not answer: it keeps its state")
}

// noteAnswer makes it known that a container's monitor answers again.
func (f *follower) noteAnswer(c *ctr, t task.Task, status task.Status) {
	c.update(func(r *container.Record) { r.MonitorSilent = false })
	f.log.Info().Str("container", c.id).Msg("monitor of container answers")
	if status.Exit == nil {
		f.background.runHolding(c, func(ctx context.Context) { f.settleLate(ctx, c, t) })
	}
}

// settleLate is settleFreeze for a task that is taken over, or answers again, while verbs are at work. The caller holds the
// token.
func (f *follower) settleLate(ctx context.Context, c *ctr, t task.Task) {
	status, err := t.Status(ctx)
	if now, _ := c.runningTask(); err != nil || status.Exit != nil || now != t || !c.record().State.HasProcess() {
		return // it has ended meanwhile, or is silent again
	}
	if err := f.freezer.settleFreeze(ctx, c, t, status.Paused); err != nil {
		f.log.Error().Err(err).Str("container", c.id).Msg("pause of container not settled")
	}
}
