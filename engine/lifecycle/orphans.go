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

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tree"
)

// orphanTasks lists the tasks that belong to no container. The containers of builds are among them.
func (m *Manager) orphanTasks() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(m.opt.RunDir, "tasks"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, entry := range entries {
		if _, err := os.Stat(m.dataDir(entry.Name())); err != nil { // not one whose record cannot be read: it is for a person to look at
			ids = append(ids, entry.Name())
		}
	}
	return ids, nil
}

// dropOrphans removes task folders and writable layers that belong to no container: processes end before their files go.
// Those that do not end soon go later, and are not waited for.
func (m *Manager) dropOrphans(ctx, soon context.Context, orphans []string, tasks map[string]found) error {
	held := map[string]bool{}
	for _, containerID := range orphans {
		f := tasks[containerID]
		err := m.endOrphan(soon, containerID, f)
		if err == nil {
			continue
		}
		held[containerID] = true
		if f.task == nil {
			m.opt.Log.Warn().Err(err).Str("container", containerID).Msg("task without container not ended")
			continue
		}
		m.runInBackground(func(ctx context.Context) {
			err := f.task.Destroy(ctx)
			if err == nil {
				err = m.endOrphan(ctx, containerID, found{task: f.task})
			}
			if err == nil {
				err = m.opt.Layers.Remove(ctx, containerID)
			}
			if err != nil && !m.isClosing() {
				m.opt.Log.Warn().Err(err).Str("container", containerID).Msg("task without container not ended")
			}
		})
	}
	owned, err := m.opt.Layers.Containers(ctx)
	if err != nil {
		return fmt.Errorf("list writable layers: %w", err)
	}
	for _, containerID := range owned {
		if held[containerID] {
			continue
		}
		if _, err := os.Stat(m.dataDir(containerID)); errors.Is(err, fs.ErrNotExist) {
			if err := m.opt.Layers.Remove(ctx, containerID); err != nil {
				m.opt.Log.Warn().Err(err).Str("container", containerID).Msg("writable layer without container not removed")
			}
		}
	}
	return nil
}

// endOrphan ends a task whose container is gone. On error it may go on running.
func (m *Manager) endOrphan(ctx context.Context, containerID string, f found) error {
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
	parent := m.orphanCgroup(containerID)
	if err := tree.RemovePath(m.taskDir(containerID)); err != nil {
		m.opt.Log.Warn().Err(err).Str("container", containerID).Msg("task folder without container not removed")
	}
	if parent != "" {
		pruneCgroups(cgroupMount, m.opt.CgroupBase, parent)
	}
	return nil
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
