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

	"github.com/rs/zerolog"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/network"
	"moss/engine/record"
	"moss/engine/task"
)

// takeover makes the containers that an earlier engine has left this engine's own.
type takeover struct {
	index      *index
	folders    folders
	records    *records
	lives      *lives
	freezer    *freezer
	follower   *follower
	leftovers  *leftovers
	background *background
	namespaces *namespaces
	networks   *Networks
	layers     *layers
	store      layerStore
	volumes    *volumes
	etc        *etcFiles
	bootID     string // of the running kernel
	log        zerolog.Logger
}

// reconcile reads all records and makes them true again: what runs is watched, what ended meanwhile is recorded as it
// ended, what a crash left half-made goes. It returns the tasks to be watched.
func (to *takeover) reconcile(ctx context.Context) ([]adoption, error) {
	all, err := to.records.loadRecords()
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		to.index.add(c)
	}
	orphans, err := to.orphanTasks()
	if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeoutCause(ctx, adoptWait, task.ErrSilent)
	defer cancel()
	tasks := to.leftovers.findTasks(soon, append(to.withTask(all), orphans...))
	adopted, err := to.adoptAll(ctx, soon, all, tasks)
	if err != nil {
		return nil, err
	}
	live := map[string]network.Joined{}
	alive := map[string]bool{}
	for _, a := range adopted {
		if a.running { // the ports of one that has ended may be somebody else's by now
			alive[a.c.id] = true
			r := a.c.record()
			if _, others := strings.CutPrefix(r.Host.NetworkMode, container.JoinMode("")); !others || r.Network.ID != "" {
				live[a.c.id] = to.networks.joinedAs(r)
			}
		}
	}
	if err := to.networks.driver.Restore(ctx, live); err != nil {
		to.log.Error().Err(err).Msg("networks not restored whole")
	}
	if err := to.volumes.restoreVolumes(ctx, all, func(id string) bool { return alive[id] }); err != nil {
		to.log.Error().Err(err).Msg("volumes not restored whole")
	}
	if err := to.layers.remakeLost(ctx, all, func(id string) bool { return alive[id] }); err != nil {
		return nil, err
	}
	for _, a := range adopted {
		if a.running {
			to.networks.finishLeaving(ctx, a.c)
			to.etc.renewEtc(a.c)
		}
	}
	if err := to.dropOrphans(ctx, soon, orphans, tasks); err != nil {
		return nil, err
	}
	if err := to.namespaces.sweepShm(); err != nil {
		to.log.Warn().Err(err).Msg("shared memory of an interrupted start not released")
	}
	return adopted, nil
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
func (to *takeover) adoptAll(ctx, soon context.Context, all []*ctr, tasks map[string]found) ([]adoption, error) {
	var adopted []adoption
	for _, c := range all {
		if to.leftovers.isUnknown(c) {
			continue
		}
		f, asked := tasks[c.id]
		if !asked {
			f.err = fault.NotFound("no task %s", c.id)
		}
		t, running, err := to.adoptContainer(ctx, soon, c, f)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("take over containers: %w", context.Cause(ctx))
		}
		switch {
		case err != nil && f.task == nil:
			to.log.Error().Err(err).Str("container", c.id).Msg("container not taken over")
		case err != nil:
			if to.keepSilent(ctx, c, f.task, err) {
				adopted = append(adopted, adoption{c, f.task, true, err})
			}
		case t != nil:
			adopted = append(adopted, adoption{c, t, running, nil})
		}
	}
	return adopted, nil
}

// withTask lists the containers that may have a task.
func (to *takeover) withTask(all []*ctr) []string {
	ids := make([]string, 0, len(all))
	for _, c := range all {
		if to.leftovers.isUnknown(c) {
			continue
		}
		if c.record().State.AtRest() {
			if _, err := os.Stat(to.folders.taskDir(c.id)); errors.Is(err, fs.ErrNotExist) {
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
func (to *takeover) adoptContainer(ctx, soon context.Context, c *ctr, f found) (t task.Task, running bool, err error) {
	r := c.record()
	t, status := f.task, f.status
	switch {
	case fault.Is(f.err, fault.NotFound) && r.State.AtRest():
		to.leftovers.removeLeftovers(ctx, c) // a view on its files may have been open
		return nil, false, nil
	case fault.Is(f.err, fault.NotFound):
		to.leftovers.removeLeftovers(ctx, c)
		return nil, false, to.recordLost(c, "")
	case f.err != nil:
		return nil, false, f.err
	}
	if r.State.AtRest() || r.State == container.Restarting {
		if status.Pid == 0 && status.Exit == nil {
			// The engine died between preparing and starting. Nothing ran, nobody was told that it would.
			err := t.Delete(ctx)
			if err == nil {
				to.leftovers.removeLeftovers(ctx, c)
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
		if err := record.Get(to.folders.networkPath(c.id), &net); err != nil && !fault.Is(err, fault.NotFound) {
			return nil, false, err
		}
		started := life.Started{Op: op, Process: identifyProcess(status.Pid), At: status.StartedAt, BootID: to.bootID, Network: net}
		if _, err := to.lives.applyEvent(c, started); err != nil {
			return nil, false, err
		}
	}
	c.setTask(t)
	pid := status.Pid
	if status.Exit != nil {
		pid = 0
	}
	to.layers.adoptLayer(ctx, c, pid)
	if status.Exit == nil && to.freezer.settleFreeze(soon, c, t, status.Paused) != nil {
		to.background.runHolding(c, func(ctx context.Context) { to.follower.settleLate(ctx, c, t) })
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

// lostCode is the exit code of a process whose own is not known.
const lostCode = 137

// recordLost records the end of a container whose process and monitor are both gone. An empty why stands for just that.
func (to *takeover) recordLost(c *ctr, why string) error {
	r := c.record()
	if !r.State.HasProcess() {
		return nil
	}
	switch {
	case why != "":
	case r.BootID != to.bootID:
		why = "the machine was restarted while the container ran"
	default:
		why = "the container's monitor was gone when the engine started"
	}
	_, err := to.lives.applyEvent(c, life.Lost{End: container.End{Code: lostCode, At: time.Now(), Error: why}})
	return err
}

// keepSilent takes up a container of whose task nothing could be learned. One that runs by its record goes on so. For one
// at rest there is at most a start that no client was told of: it is taken back.
func (to *takeover) keepSilent(ctx context.Context, c *ctr, t task.Task, cause error) (running bool) {
	c.setTask(t)
	to.follower.noteSilence(c, cause)
	if r := c.record(); r.State.HasProcess() {
		to.layers.adoptLayer(ctx, c, r.Pid)
		return true
	}
	to.background.runHolding(c, func(ctx context.Context) {
		if err := to.leftovers.endLeftover(ctx, c); err != nil {
			to.log.Error().Err(err).Str("container", c.id).Msg("interrupted start not taken back")
		}
	})
	return false
}

// orphanTasks lists the tasks that belong to no container. The containers of builds are among them.
func (to *takeover) orphanTasks() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(to.folders.run, "tasks"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, entry := range entries {
		// One whose record cannot be read is for a person to look at.
		if _, err := os.Stat(to.folders.dataDir(entry.Name())); err != nil {
			ids = append(ids, entry.Name())
		}
	}
	return ids, nil
}

// dropOrphans removes task folders and writable layers that belong to no container: processes end before their files go.
// Those that do not end soon go later, and are not waited for.
func (to *takeover) dropOrphans(ctx, soon context.Context, orphans []string, tasks map[string]found) error {
	held := map[string]bool{}
	for _, containerID := range orphans {
		f := tasks[containerID]
		err := to.leftovers.endOrphan(soon, containerID, f)
		if err == nil {
			continue
		}
		held[containerID] = true
		if f.task == nil {
			to.log.Warn().Err(err).Str("container", containerID).Msg("task without container not ended")
			continue
		}
		to.background.runJob(func(ctx context.Context) {
			err := f.task.Destroy(ctx)
			if err == nil {
				err = to.leftovers.endOrphan(ctx, containerID, found{task: f.task})
			}
			if err == nil {
				err = to.store.Remove(ctx, containerID)
			}
			if err != nil && !to.background.isClosing() {
				to.log.Warn().Err(err).Str("container", containerID).Msg("task without container not ended")
			}
		})
	}
	owned, err := to.store.Containers(ctx)
	if err != nil {
		return fmt.Errorf("list writable layers: %w", err)
	}
	for _, containerID := range owned {
		if held[containerID] {
			continue
		}
		if _, err := os.Stat(to.folders.dataDir(containerID)); errors.Is(err, fs.ErrNotExist) {
			if err := to.store.Remove(ctx, containerID); err != nil {
				to.log.Warn().Err(err).Str("container", containerID).Msg("writable layer without container not removed")
			}
		}
	}
	return nil
}
