package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/network"
	"moss/engine/record"
	"moss/engine/task"
	"moss/engine/tree"
)

// reconcile reads all records and makes them true again: what runs is watched, what ended meanwhile is recorded as it
// ended, what a crash left half-made goes.
func (m *Manager) reconcile(ctx context.Context) error {
	all, err := m.loadRecords()
	if err != nil {
		return err
	}
	orphans, err := m.orphanTasks()
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeoutCause(ctx, adoptWait, task.ErrSilent)
	defer cancel()
	tasks := m.findTasks(soon, append(m.withTask(all), orphans...))
	adopted, err := m.adoptAll(ctx, soon, all, tasks)
	if err != nil {
		return err
	}
	live := map[string]network.Joined{}
	alive := map[string]bool{}
	for _, a := range adopted {
		if a.running { // the ports of one that has ended may be somebody else's by now
			alive[a.c.id] = true
			r := a.c.record()
			if _, others := strings.CutPrefix(r.Host.NetworkMode, container.JoinMode("")); !others || r.Network.ID != "" {
				live[a.c.id] = m.joinedAs(r)
			}
		}
	}
	if err := m.opt.Networks.Restore(ctx, live); err != nil {
		m.opt.Log.Error().Err(err).Msg("networks not restored whole")
	}
	if err := m.restoreVolumes(ctx, all, func(id string) bool { return alive[id] }); err != nil {
		m.opt.Log.Error().Err(err).Msg("volumes not restored whole")
	}
	if err := m.remakeLost(ctx, all, func(id string) bool { return alive[id] }); err != nil {
		return err
	}
	for _, a := range adopted {
		if a.running {
			m.finishLeaving(ctx, a.c)
			m.renewEtc(a.c)
		}
	}
	m.adopted = adopted
	if err := m.dropOrphans(ctx, soon, orphans, tasks); err != nil {
		return err
	}
	if err := m.sweepShm(); err != nil {
		m.opt.Log.Warn().Err(err).Msg("shared memory of an interrupted start not released")
	}
	return nil
}

// adoption is a task to be watched.
type adoption struct {
	c       *ctr
	task    task.Task
	running bool
	silence error // why nothing is known of it; nil for one that is known
}

// adoptAll makes the containers what has become of their tasks. One must not keep the engine, and with it all others, from
// answering: the only error is the end of ctx.
func (m *Manager) adoptAll(ctx, soon context.Context, all []*ctr, tasks map[string]found) ([]adoption, error) {
	var adopted []adoption
	for _, c := range all {
		if m.isUnknown(c) {
			continue
		}
		f, asked := tasks[c.id]
		if !asked {
			f.err = fault.NotFound("no task %s", c.id)
		}
		t, running, err := m.adoptContainer(ctx, soon, c, f)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("take over containers: %w", context.Cause(ctx))
		}
		switch {
		case err != nil && f.task == nil:
			m.opt.Log.Error().Err(err).Str("container", c.id).Msg("container not taken over")
		case err != nil:
			if m.keepSilent(ctx, c, f.task, err) {
				adopted = append(adopted, adoption{c, f.task, true, err})
			}
		case t != nil:
			adopted = append(adopted, adoption{c, t, running, nil})
		}
	}
	return adopted, nil
}

// loadRecords reads every record. A folder without one is what a crash left of a create or a remove.
func (m *Manager) loadRecords() ([]*ctr, error) {
	base := filepath.Join(m.opt.Root, "containers")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	var all []*ctr
	for _, entry := range entries {
		if !id.Is(entry.Name()) {
			continue
		}
		r, p, err := m.readRecord(entry.Name())
		if fault.Is(err, fault.NotFound) {
			if err := tree.RemovePath(m.dataDir(entry.Name())); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			if r, p, err = m.replaceRecord(entry.Name(), err); err != nil {
				return nil, err
			}
		}
		if err := m.setLinksAside(entry.Name()); err != nil {
			return nil, err
		}
		dir := m.dataDir(entry.Name())
		if err := record.Sweep(dir); err != nil {
			m.opt.Log.Warn().Err(err).Str("container", entry.Name()).Msg("half-written record not removed")
		}
		c := newCtr(r, dir)
		c.phase = p
		m.index.add(c)
		all = append(all, c)
	}
	return all, nil
}

// withTask lists the containers that may have a task.
func (m *Manager) withTask(all []*ctr) []string {
	ids := make([]string, 0, len(all))
	for _, c := range all {
		if m.isUnknown(c) {
			continue
		}
		if c.record().State.AtRest() {
			if _, err := os.Stat(m.taskDir(c.id)); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		ids = append(ids, c.id)
	}
	return ids
}

// adoptContainer makes one container what has become of its task. It returns a task to watch if there is one, and whether it
// runs.
// What can wait is asked of the task later if it is not answered soon. An error means that nothing is known of the task.
func (m *Manager) adoptContainer(ctx, soon context.Context, c *ctr, f found) (t task.Task, running bool, err error) {
	r := c.record()
	t, status := f.task, f.status
	switch {
	case fault.Is(f.err, fault.NotFound) && r.State.AtRest():
		m.removeLeftovers(ctx, c) // a view on its files may have been open
		return nil, false, nil
	case fault.Is(f.err, fault.NotFound):
		m.removeLeftovers(ctx, c)
		return nil, false, m.recordLost(c, "")
	case f.err != nil:
		return nil, false, f.err
	}
	if r.State.AtRest() || r.State == container.Restarting {
		if status.Pid == 0 && status.Exit == nil {
			// The engine died between preparing and starting. Nothing ran, nobody was told that it would.
			err := t.Delete(ctx)
			if err == nil {
				m.removeLeftovers(ctx, c)
				return nil, false, nil
			}
			if !fault.Is(err, fault.Conflict) {
				return nil, false, err
			}
			if status, err = begunMeanwhile(ctx, t); err != nil { // the runtime is at it
				return nil, false, err
			}
		}
		// The engine died after the start and before saving it: the start is true all the same.
		op := container.OpStart
		if r.State == container.Restarting {
			op = container.OpRestart
		}
		var net container.Network
		if err := record.Get(m.networkPath(c.id), &net); err != nil && !fault.Is(err, fault.NotFound) {
			return nil, false, err
		}
		started := life.Started{Op: op, Process: identifyProcess(status.Pid), At: status.StartedAt, BootID: m.opt.BootID, Network: net}
		if _, err := m.applyEvent(c, started); err != nil {
			return nil, false, err
		}
	}
	c.setTask(t)
	pid := status.Pid
	if status.Exit != nil {
		pid = 0
	}
	m.adoptLayer(ctx, c, pid)
	if status.Exit == nil && m.settleFreeze(soon, c, t, status.Paused) != nil {
		m.runInBackground(func(ctx context.Context) { m.settleLate(ctx, c, t) })
	}
	return t, status.Exit == nil, nil
}

// begunPatience is how long a new engine waits for a start that the one before it has asked for, of a monitor that answers.
const begunPatience = 10 * time.Second

// begunMeanwhile waits until a process that is just being started runs or has failed to.
func begunMeanwhile(ctx context.Context, t task.Task) (task.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, begunPatience)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		status, err := t.Status(ctx)
		if err != nil || status.Pid != 0 || status.Exit != nil {
			return status, err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return status, fmt.Errorf("wait for a start that was under way: %w", context.Cause(ctx))
		}
	}
}

// removeLeftovers takes away what a start that came to nothing, or an end that was not handled whole, has left of a container
// without a task. Its network goes when the networks are restored.
func (m *Manager) removeLeftovers(ctx context.Context, c *ctr) {
	if err := errors.Join(m.opt.Layers.Unmount(ctx, c.id), tree.RemovePath(m.taskDir(c.id))); err != nil {
		m.opt.Log.Warn().Err(err).Str("container", c.id).Msg("leftovers of container not removed")
	}
}

// lostCode is the exit code of a process whose own is not known.
const lostCode = 137

// recordLost records the end of a container whose process and monitor are both gone. An empty why stands for just that.
func (m *Manager) recordLost(c *ctr, why string) error {
	r := c.record()
	if !r.State.HasProcess() {
		return nil
	}
	switch {
	case why != "":
	case r.BootID != m.opt.BootID:
		why = "the machine was restarted while the container ran"
	default:
		why = "the container's monitor was gone when the engine started"
	}
	_, err := m.applyEvent(c, life.Lost{End: container.End{Code: lostCode, At: time.Now(), Error: why}})
	return err
}

// resumeContainer goes on where the last engine was: timers of restart policies, removals, automatic starts.
func (m *Manager) resumeContainer(ctx context.Context, c *ctr, begun map[string]chan struct{}) {
	r := c.record()
	switch {
	case r.State == container.Restarting:
		m.restartAfter(c, life.FirstDelay)
	case r.State == container.Removing:
		if _, left := c.runningTask(); left { // of which nothing could be learned: it has to be ended first
			m.runInBackground(func(ctx context.Context) {
				if err := c.acquire(ctx); err != nil {
					return
				}
				defer c.release()
				m.finishRemoval(context.WithoutCancel(ctx), c)
			})
			return
		}
		m.finishRemoval(context.WithoutCancel(ctx), c)
	case life.StartsWithEngine(r):
		m.runInBackground(func(ctx context.Context) {
			if ready := begun[c.id]; ready != nil { // nil for one that has ended since
				defer close(ready)
			}
			if !waitNeeds(ctx, r, begun) {
				return
			}
			if err := c.acquire(ctx); err != nil {
				return
			}
			defer c.release()
			if err := m.startContainer(context.WithoutCancel(ctx), c, container.OpStart); err != nil && !fault.Is(err, fault.NotModified) {
				m.opt.Log.Error().Err(err).Str("container", c.id).Msg("container not started with the engine")
			}
		})
	case r.State == container.Exited && r.Host.AutoRemove:
		m.removeSoon(c)
	}
}

// finishRemoval ends a removal that a crash interrupted.
func (m *Manager) finishRemoval(ctx context.Context, c *ctr) {
	_, err := m.applyEvent(c, life.RemovalFailed{Error: c.record().Error})
	if err == nil {
		err = m.removeContainer(ctx, c)
	}
	if err != nil {
		m.opt.Log.Error().Err(err).Str("container", c.id).Msg("interrupted removal not completed")
	}
}
