package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/pidfd"
	"moss/engine/task"
	"moss/engine/tree"
)

// leftovers finds and ends what earlier engines have left: tasks without a container, starts that no record tells of, and
// processes of containers whose records were damaged.
type leftovers struct {
	index   *index
	folders folders
	tasks   task.Runner
	layers  *layers
	cgroups *cgroups
	bootID  string // of the running kernel
	log     zerolog.Logger
}

// found is what an engine learns of the task of an earlier one. The task is there with any error but fault.NotFound.
type found struct {
	task   task.Task
	status task.Status
	err    error
}

// findTasks asks all monitors side by side. ctx bounds all of it.
func (l *leftovers) findTasks(ctx context.Context, ids []string) map[string]found {
	type answer struct {
		id string
		found
	}
	answers := make(chan answer)
	slots := make(chan struct{}, adoptAtOnce)
	for _, id := range ids {
		go func() { // ends with ctx
			slots <- struct{}{}
			f := l.findTask(ctx, id)
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
func (l *leftovers) findTask(ctx context.Context, id string) (f found) {
	look := time.NewTicker(folderPoll)
	defer look.Stop()
	for {
		if f.task, f.err = l.tasks.Adopt(ctx, id, l.folders.taskDir(id)); f.err == nil {
			f.status, f.err = f.task.Status(ctx)
		}
		if !fault.Is(f.err, fault.NotFound) || !l.hasLivingProcess(id) {
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
func (l *leftovers) hasLivingProcess(containerID string) bool {
	c, err := l.index.find(containerID)
	if err != nil {
		return false // a task without a container
	}
	r := c.record()
	return r.State.HasProcess() && r.BootID == l.bootID && pidfd.ID{Pid: r.Pid, Start: r.PidStart}.Lives()
}

// endLeftover ends what an earlier engine has left of a start that its record does not tell of. The container is neither
// started nor removed beside it. The caller holds the token.
func (l *leftovers) endLeftover(ctx context.Context, c *ctr) error {
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
	l.removeLeftovers(ctx, c)
	c.setTask(nil)
	return nil
}

// removeLeftovers takes away what a start that came to nothing, or an end that was not handled whole, has left of a container
// without a task. Its network goes when the networks are restored.
func (l *leftovers) removeLeftovers(ctx context.Context, c *ctr) {
	if err := errors.Join(l.layers.bareLayer(ctx, c), tree.RemovePath(l.folders.taskDir(c.id))); err != nil {
		l.log.Warn().Err(err).Str("container", c.id).Msg("leftovers of container not removed")
	}
}

// isUnknown reports whether a container's record says nothing of its process, which goes on until the container's removal.
func (l *leftovers) isUnknown(c *ctr) bool {
	if c.record().State != container.Dead {
		return false
	}
	_, err := os.Stat(l.folders.taskDir(c.id))
	return err == nil
}

// endUnknown ends the process of a container whose record was damaged while it ran.
func (l *leftovers) endUnknown(ctx context.Context, c *ctr) error {
	soon, cancel := context.WithTimeoutCause(ctx, endWait, task.ErrSilent)
	defer cancel()
	f := l.findTasks(soon, []string{c.id})[c.id]
	err := l.endOrphan(soon, c.id, f)
	if err == nil || f.task == nil {
		return err
	}
	if err := f.task.Destroy(ctx); err != nil {
		return fmt.Errorf("end its process: %w", err)
	}
	return l.endOrphan(ctx, c.id, found{task: f.task})
}

// endOrphan ends a task whose container is gone. On error it may go on running.
func (l *leftovers) endOrphan(ctx context.Context, containerID string, f found) error {
	t, err := f.task, f.err
	if err == nil {
		err = t.Signal(ctx, int(unix.SIGKILL))
		if err == nil { // it can be deleted only when it has ended
			_, err = t.Wait(ctx)
		}
		if err == nil || fault.Is(err, fault.Conflict) {
			err = t.Delete(ctx)
		}
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	parent := l.orphanCgroup(containerID)
	if err := tree.RemovePath(l.folders.taskDir(containerID)); err != nil {
		l.log.Warn().Err(err).Str("container", containerID).Msg("task folder without container not removed")
	}
	l.cgroups.pruneParents(parent)
	return nil
}

// orphanCgroup is the parent that a task's cgroup was given, as the task's own settings tell; empty if it had none.
func (l *leftovers) orphanCgroup(containerID string) string {
	raw, err := os.ReadFile(filepath.Join(l.folders.taskDir(containerID), "config.json"))
	if err != nil || l.cgroups.base == "" {
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
	below, ok := strings.CutPrefix(filepath.Dir(oci.Linux.CgroupsPath), filepath.Join("/", l.cgroups.base)+"/")
	if !ok {
		return ""
	}
	return below
}
