package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/pidfd"
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
func (m *Manager) followTask(ctx context.Context, c *ctr, t task.Task, silence error) (task.Exit, bool) {
	for wait := retryFloor; ; {
		err := silence
		if err == nil {
			var exit task.Exit
			if exit, err = t.Wait(ctx); err == nil {
				return exit, !m.isClosing()
			}
		}
		silence = nil
		switch {
		case m.isClosing():
			return task.Exit{}, false
		case fault.Is(err, fault.NotFound):
			return task.Exit{Code: 137, At: time.Now(), Error: "the container's monitor is gone: " + err.Error()}, true
		}
		m.noteSilence(c, err)
		status, err := t.Reach(ctx)
		switch {
		case m.isClosing():
			return task.Exit{}, false
		case err == nil:
			wait = retryFloor
			m.noteAnswer(c, t, status)
			continue
		case fault.Is(err, fault.NotFound):
			continue // Wait says so as well
		}
		m.noteSilence(c, err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, retryCeiling)
	}
}

// noteSilence makes it known that a container's monitor does not answer.
func (m *Manager) noteSilence(c *ctr, cause error) {
	if c.record().MonitorSilent {
		return
	}
	c.update(func(r *container.Record) { r.MonitorSilent = true })
	m.opt.Log.Warn().Err(cause).Str("container", c.id).Msg("monitor of container does not answer: it keeps its state")
}

// noteAnswer makes it known that a container's monitor answers again.
func (m *Manager) noteAnswer(c *ctr, t task.Task, status task.Status) {
	c.update(func(r *container.Record) { r.MonitorSilent = false })
	m.opt.Log.Info().Str("container", c.id).Msg("monitor of container answers")
	if status.Exit == nil {
		m.runInBackground(func(ctx context.Context) { m.settleLate(ctx, c, t) })
	}
}

// settleLate is settleFreeze for a task that is taken over, or answers again, while verbs are at work.
func (m *Manager) settleLate(ctx context.Context, c *ctr, t task.Task) {
	if err := c.acquire(ctx); err != nil {
		return
	}
	defer c.release()
	status, err := t.Status(ctx)
	if now, _ := c.runningTask(); err != nil || status.Exit != nil || now != t || !c.record().State.HasProcess() {
		return // it has ended meanwhile, or is silent again
	}
	if err := m.settleFreeze(ctx, c, t, status.Paused); err != nil {
		m.opt.Log.Error().Err(err).Str("container", c.id).Msg("pause of container not settled")
	}
}

// found is what an engine learns of the task of an earlier one. The task is there with any error but fault.NotFound.
type found struct {
	task   task.Task
	status task.Status
	err    error
}

// findTasks asks all monitors side by side. ctx bounds all of it.
func (m *Manager) findTasks(ctx context.Context, ids []string) map[string]found {
	type answer struct {
		id string
		found
	}
	answers := make(chan answer)
	slots := make(chan struct{}, adoptAtOnce)
	for _, id := range ids {
		go func() { // ends with ctx
			slots <- struct{}{}
			f := m.findTask(ctx, id)
			<-slots
			answers <- answer{id, f}
		}()
	}
	all := make(map[string]found, len(ids))
	for range ids {
		a := <-answers
		all[a.id] = a.found
	}
	return all
}

// findTask asks one monitor. It waits for one whose folder has gone together with the last engine: the monitor of a living
// process writes it again.
func (m *Manager) findTask(ctx context.Context, id string) (f found) {
	look := time.NewTicker(folderPoll)
	defer look.Stop()
	for {
		if f.task, f.err = m.opt.Tasks.Adopt(ctx, id, m.taskDir(id)); f.err == nil {
			f.status, f.err = f.task.Status(ctx)
		}
		if !fault.Is(f.err, fault.NotFound) || !m.hasLivingProcess(id) {
			return f
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return f
		}
	}
}

// hasLivingProcess reports whether the process lives that a container has by its record.
func (m *Manager) hasLivingProcess(containerID string) bool {
	c, err := m.index.find(containerID)
	if err != nil {
		return false // a task without a container
	}
	r := c.record()
	return r.State.HasProcess() && r.BootID == m.opt.BootID && pidfd.ID{Pid: r.Pid, Start: r.PidStart}.Lives()
}

// keepSilent takes up a container of whose task nothing could be learned. One that runs by its record goes on so. For one
// at rest there is at most a start that no client was told of: it is taken back.
func (m *Manager) keepSilent(ctx context.Context, c *ctr, t task.Task, cause error) (running bool) {
	c.setTask(t)
	m.noteSilence(c, cause)
	if r := c.record(); r.State.HasProcess() {
		m.adoptLayer(ctx, c, r.Pid)
		return true
	}
	m.runInBackground(func(ctx context.Context) {
		if err := c.acquire(ctx); err != nil {
			return
		}
		defer c.release()
		if err := m.endLeftover(ctx, c); err != nil {
			m.opt.Log.Error().Err(err).Str("container", c.id).Msg("interrupted start not taken back")
		}
	})
	return false
}

// endLeftover ends what an earlier engine has left of a start that its record does not tell of. The container is neither
// started nor removed beside it. The caller holds the token.
func (m *Manager) endLeftover(ctx context.Context, c *ctr) error {
	t, left := c.runningTask()
	if !left || c.record().State.HasProcess() {
		return nil
	}
	err := t.Destroy(ctx)
	if err == nil {
		err = t.Delete(ctx)
	}
	if err != nil {
		return fmt.Errorf("end what is left of an interrupted start of %s: %w", c.record().Name, err)
	}
	m.removeLeftovers(ctx, c)
	c.setTask(nil)
	return nil
}

// awaitKilled waits for the end of a container that was sent SIGKILL. When its monitor does not tell of it the task is ended
// without it.
func (m *Manager) awaitKilled(ctx context.Context, c *ctr, rest *moment) error {
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
