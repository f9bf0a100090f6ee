package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/network"
	"moss/engine/record"
	"moss/engine/task"
)

// reconcile reads all records and makes them true again: what runs is watched, what ended meanwhile is recorded as it
// ended, what a crash left half-made goes.
func (m *Manager) reconcile(ctx context.Context) error {
	all, err := m.load()
	if err != nil {
		return err
	}
	adopted := map[*ctr]task.Task{}
	live := map[string]network.Joined{}
	alive := map[string]bool{}
	for _, c := range all {
		t, running, err := m.adopt(ctx, c)
		if ctx.Err() != nil {
			return fmt.Errorf("take over containers: %w", context.Cause(ctx))
		}
		if err != nil {
			// One container must not keep the engine, and with it all others, from answering.
			m.opt.Log.Error().Err(err).Str("container", c.id).Msg("container not taken over")
			if err := m.lost(c, "it could not be taken over: "+err.Error()); err != nil {
				m.opt.Log.Error().Err(err).Str("container", c.id).Msg("end of container not saved")
			}
			continue
		}
		if t != nil {
			adopted[c] = t
		}
		if running { // the ports of one that has ended may be somebody else's by now
			alive[c.id] = true
			r := c.record()
			if _, others := strings.CutPrefix(r.Host.NetworkMode, container.JoinMode("")); !others || r.Network.SandboxID != "" {
				live[c.id] = m.joinedAs(r)
			}
		}
	}
	if err := m.opt.Networks.Restore(ctx, live); err != nil {
		m.opt.Log.Error().Err(err).Msg("networks not restored whole")
	}
	if err := m.restoreVolumes(ctx, all, func(id string) bool { return alive[id] }); err != nil {
		m.opt.Log.Error().Err(err).Msg("volumes not restored whole")
	}
	for c, t := range adopted {
		if alive[c.id] {
			m.finishLeaving(ctx, c)
			m.renewEtc(c)
		}
		m.watch(c, t)
	}
	if err := m.dropOrphans(ctx); err != nil {
		return err
	}
	if err := m.remake(ctx, all); err != nil {
		return err
	}
	if err := m.sweepShm(); err != nil {
		m.opt.Log.Warn().Err(err).Msg("shared memory of an interrupted start not released")
	}
	begun := startSignals(all)
	for _, c := range all {
		m.resume(ctx, c, begun)
	}
	return nil
}

// load reads every record. A folder without one is what a crash left of a create or a remove.
func (m *Manager) load() ([]*ctr, error) {
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
		dir := m.dataDir(entry.Name())
		r, p, err := readRecord(dir)
		switch {
		case fault.Is(err, fault.NotFound):
			if err := os.RemoveAll(dir); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			// A record that cannot be read keeps its files for a person to look at, and the engine goes on.
			m.opt.Log.Error().Err(err).Str("container", entry.Name()).Msg("record unreadable: container left out")
			continue
		}
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

// adopt finds out what has become of one container. It returns a task to watch if there is one, and whether it runs.
func (m *Manager) adopt(ctx context.Context, c *ctr) (t task.Task, running bool, err error) {
	r := c.record()
	if r.State.AtRest() {
		if _, err := os.Stat(m.taskDir(c.id)); errors.Is(err, fs.ErrNotExist) {
			return nil, false, m.opt.Layers.Unmount(ctx, c.id) // a view on its files may have been open
		}
	}
	t, err = m.opt.Tasks.Adopt(ctx, c.id, m.taskDir(c.id))
	if fault.Is(err, fault.NotFound) {
		m.clear(ctx, c)
		return nil, false, m.lost(c, "")
	}
	if err != nil {
		return nil, false, err
	}
	status, err := t.Status(ctx)
	if err != nil {
		return nil, false, err
	}
	if r.State.AtRest() || r.State == container.Restarting {
		if status.Pid == 0 && status.Exit == nil {
			// The engine died between preparing and starting. Nothing ran, nobody was told that it would.
			err := t.Delete(ctx)
			if err == nil {
				m.clear(ctx, c)
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
		if _, err := c.transition(op, func(r *container.Record) {
			m.begun(r, op, status.Pid, status.StartedAt, net)
		}); err != nil {
			return nil, false, err
		}
	}
	c.setTask(t)
	pid := status.Pid
	if status.Exit != nil {
		pid = 0
	}
	m.adoptLayer(ctx, c, pid)
	if status.Exit == nil {
		m.settleFreeze(ctx, c, t, status.Paused)
	}
	return t, status.Exit == nil, nil
}

// begunPatience is how long a new engine waits for a start that the one before it has asked for.
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
			return status, fmt.Errorf("wait for a start that was under way: %w", ctx.Err())
		}
	}
}

// clear takes away what a start that came to nothing, or an end that was not handled whole, has left of a container
// without a task. Its network goes when the networks are restored.
func (m *Manager) clear(ctx context.Context, c *ctr) {
	if err := errors.Join(m.opt.Layers.Unmount(ctx, c.id), os.RemoveAll(m.taskDir(c.id))); err != nil {
		m.opt.Log.Warn().Err(err).Str("container", c.id).Msg("leftovers of container not removed")
	}
}

// lostCode is the exit code of a process whose own is not known.
const lostCode = 137

// lost records the end of a container whose process and monitor are both gone. An empty why stands for just that.
func (m *Manager) lost(c *ctr, why string) error {
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
	end := container.End{Code: lostCode, At: time.Now(), Error: why}
	if r.End != nil {
		end = *r.End // the last engine died after it had read this and before it had saved the state
	}
	_, err := c.transition(container.OpExit, func(r *container.Record) {
		r.Pid, r.ExitCode, r.Error, r.FinishedAt, r.OOMKilled = 0, end.Code, end.Error, end.At.UTC(), end.OOMKilled
		r.Network, r.RestartAtStart, r.End, r.Thaw = container.Network{}, true, nil, false
	})
	return errors.Join(err, c.persist(false))
}

// dropOrphans removes task folders and writable layers that belong to no container: processes end before their files go.
// The containers of builds are among them.
func (m *Manager) dropOrphans(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(m.opt.RunDir, "tasks"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if _, err := os.Stat(m.dataDir(entry.Name())); err == nil {
			continue // also of a container whose record cannot be read: it is for a person to look at
		}
		m.endOrphan(ctx, entry.Name())
	}
	owned, err := m.opt.Layers.Containers(ctx)
	if err != nil {
		return fmt.Errorf("list writable layers: %w", err)
	}
	for _, containerID := range owned {
		if _, err := os.Stat(m.dataDir(containerID)); errors.Is(err, fs.ErrNotExist) {
			if err := m.opt.Layers.Remove(ctx, containerID); err != nil {
				m.opt.Log.Warn().Err(err).Str("container", containerID).Msg("writable layer without container not removed")
			}
		}
	}
	return nil
}

// endOrphan ends a task whose container is gone.
func (m *Manager) endOrphan(ctx context.Context, containerID string) {
	dir := m.taskDir(containerID)
	t, err := m.opt.Tasks.Adopt(ctx, containerID, dir)
	if err == nil {
		err = t.Signal(ctx, int(unix.SIGKILL))
		if err == nil { // it can be deleted only when it has ended
			bounded, cancel := context.WithTimeout(ctx, killWait)
			_, err = t.Wait(bounded)
			cancel()
		}
		if err == nil || fault.Is(err, fault.Conflict) {
			err = t.Delete(ctx)
		}
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		m.opt.Log.Warn().Err(err).Str("container", containerID).Msg("task without container not ended")
		return
	}
	parent := m.orphanCgroup(containerID)
	if err := os.RemoveAll(dir); err != nil {
		m.opt.Log.Warn().Err(err).Str("container", containerID).Msg("task folder without container not removed")
	}
	if parent != "" {
		pruneCgroups(cgroupMount, m.opt.CgroupBase, parent)
	}
}

// orphanCgroup is the parent that a task's cgroup was given, as the task's own settings tell; empty if it had none.
func (m *Manager) orphanCgroup(containerID string) string {
	raw, err := os.ReadFile(filepath.Join(m.taskDir(containerID), "config.json"))
	if err != nil || m.opt.CgroupBase == "" {
		return ""
	}
	var oci struct {
		Linux struct {
			CgroupsPath string `json:"cgroupsPath"`
		} `json:"linux"`
	}
	if err := json.Unmarshal(raw, &oci); err != nil {
		return "" // half written: nothing was started by it
	}
	below, ok := strings.CutPrefix(filepath.Dir(oci.Linux.CgroupsPath), filepath.Join("/", m.opt.CgroupBase)+"/")
	if !ok {
		return ""
	}
	return below
}

// resume goes on where the last engine was: timers of restart policies, removals, automatic starts.
func (m *Manager) resume(ctx context.Context, c *ctr, begun map[string]chan struct{}) {
	r := c.record()
	switch {
	case r.State == container.Restarting:
		m.restartAfter(c, restartFloor)
	case r.State == container.Removing:
		m.finishRemoval(context.WithoutCancel(ctx), c)
	case startsWithEngine(r):
		m.work(func(ctx context.Context) {
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
			if err := m.start(context.WithoutCancel(ctx), c, container.OpStart); err != nil && !fault.Is(err, fault.NotModified) {
				m.opt.Log.Error().Err(err).Str("container", c.id).Msg("container not started with the engine")
			}
		})
	case r.State == container.Exited && r.Host.AutoRemove:
		m.removeSoon(c)
	}
}

// finishRemoval ends a removal that a crash interrupted.
func (m *Manager) finishRemoval(ctx context.Context, c *ctr) {
	_, err := c.transition(container.OpRemoveFailed, nil)
	if err == nil {
		err = m.remove(ctx, c)
	}
	if err != nil {
		m.opt.Log.Error().Err(err).Str("container", c.id).Msg("interrupted removal not completed")
	}
}
