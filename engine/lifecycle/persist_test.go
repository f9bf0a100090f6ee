package lifecycle

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"moss/engine/container"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

// powerCut ends an engine as a power cut does on a file system that has the names and not the contents of new files.
func (w *world) powerCut(m *Manager, id string) {
	w.t.Helper()
	m.Close()
	state := filepath.Join(m.folders.dataDir(id), stateName)
	if _, err := os.Stat(state); err == nil {
		w.must(os.Truncate(state, 0))
	}
	if last := w.tasks.Task(id); last != nil {
		w.tasks.Forget(id)
		w.t.Cleanup(func() { last.End(task.Exit{}) })
	}
	w.must(os.RemoveAll(m.folders.taskDir(id)))
	w.boot = "boot-2"
}

// TestPowerCut: whatever of a container's state is lost, what its clients were promised is there, and its policy holds.
func TestPowerCut(t *testing.T) {
	started := func(m *Manager, id string) error { return m.Start(m.background.life, id) }
	stopped := func(m *Manager, id string) error {
		return errors.Join(m.Start(m.background.life, id), m.Stop(m.background.life, id, container.StopOptions{}))
	}
	renamed := func(m *Manager, id string) error {
		return errors.Join(stopped(m, id), m.Rename(m.background.life, id, "other"))
	}
	again := func(m *Manager, id string) error { return errors.Join(stopped(m, id), m.Start(m.background.life, id)) }
	restarted := func(m *Manager, id string) error {
		return errors.Join(started(m, id), m.Restart(m.background.life, id, container.StopOptions{}))
	}
	killed := func(m *Manager, id string) error {
		return errors.Join(m.Start(m.background.life, id), m.Kill(m.background.life, id, ""))
	}
	refused := func(m *Manager, id string) error {
		c, err := m.index.find(id)
		return errors.Join(err, c.saveRecord(false)) // of a start that failed, for instance
	}
	for _, tc := range []struct {
		name, policy string
		before       func(*Manager, string) error
		want         container.State
	}{
		{"created", "always", func(*Manager, string) error { return nil }, container.Created},
		{"never started", "always", refused, container.Created},
		{"running", "no", started, container.Exited},
		{"running, always", "always", started, container.Running},
		{"running, unless-stopped", "unless-stopped", started, container.Running},
		{"running, on-failure", "on-failure", started, container.Running},
		{"stopped", "no", stopped, container.Exited},
		{"stopped, always", "always", stopped, container.Running},
		{"stopped, unless-stopped", "unless-stopped", stopped, container.Exited},
		{"stopped, on-failure", "on-failure", stopped, container.Exited},
		{"killed, unless-stopped", "unless-stopped", killed, container.Exited},
		{"stopped and renamed", "unless-stopped", renamed, container.Exited},
		{"stopped and started", "unless-stopped", again, container.Running},
		{"restarted, unless-stopped", "unless-stopped", restarted, container.Running},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int { <-p.Done; return 0 }
				m := w.engine()
				id := w.create(m, "web", policy(tc.policy, 0))
				w.must(tc.before(m, id))
				name := m.index.newestFirst()[0].record().Name
				w.powerCut(m, id)
				next := w.engine()
				synctest.Wait()
				r, err := next.inventory.Get(id)
				w.must(err)
				if r.State != tc.want || r.Name != name {
					t.Errorf("after the power cut: %s, name %s; want %s, %s", r.State, r.Name, tc.want, name)
				}
				if r.State == container.Exited && tc.policy == "no" && tc.name == "running" && r.ExitCode != lostCode {
					t.Errorf("exit code %d, want %d", r.ExitCode, lostCode)
				}
				next.Shutdown(next.background.life)
			})
		})
	}
}

// TestPowerCutDuringRemoval: a removal that had begun goes on, since parts may be gone.
func TestPowerCutDuringRemoval(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web", always)
	w.must(m.Start(t.Context(), id))
	w.must(m.Kill(t.Context(), id, ""))
	w.layers.fail = map[string]error{"remove": errors.New("the power goes")}
	if err := m.Remove(t.Context(), id, container.RemoveOptions{}); err == nil {
		t.Fatal("Remove: no error")
	}
	c, err := m.index.find(id)
	w.must(err)
	c.update(func(r *container.Record) { r.State = container.Removing })
	w.must(c.saveRecord(false))
	w.powerCut(m, id)
	w.layers.fail = nil
	next := w.engine()
	if _, err := next.inventory.Get(id); err == nil {
		t.Error("the container is there still")
	}
	if len(w.layers.made) != 0 {
		t.Errorf("layers %v are left", w.layers.made)
	}
}

// TestLayerAndVolumeMadeAnew: what a container was given at its create is there, whenever the power went.
func TestLayerAndVolumeMadeAnew(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web", func(_ *container.Config, h *container.HostConfig) { h.Binds = []string{"data:/data"} })
	w.powerCut(m, id)
	delete(w.layers.made, id)
	w.must(os.RemoveAll(filepath.Join(w.root, "volumes", "data")))
	next := w.engine()
	if !w.layers.made[id] {
		t.Error("the container has no writable layer")
	}
	if v, err := next.opt.Volumes.Join(t.Context(), "data", id); err != nil {
		t.Errorf("volume = %v, %v; want it to be there", v, err)
	}
}

// TestLayerMadeAnewOfOneThatEnded: the file system went down and the folders of the boot did not: the exit is known.
func TestLayerMadeAnewOfOneThatEnded(t *testing.T) {
	w := newWorld(t)
	first := w.engine()
	id := w.create(first, "web")
	w.must(first.Start(t.Context(), id))
	first.Close()
	w.tasks.Task(id).End(task.Exit{Code: 3})
	delete(w.layers.made, id)
	next := w.engine()
	if code, err := next.inventory.Wait(t.Context(), id); err != nil || code != 3 {
		t.Errorf("Wait = %d, %v; want 3", code, err)
	}
	if ids, err := w.layers.Containers(t.Context()); err != nil || !slices.Contains(ids, id) {
		t.Errorf("layers = %v, %v; want that of the container", ids, err)
	}
}

// TestRecordsStayApart: what changes often is never put in the place of what must stay.
func TestRecordsStayApart(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web")
	path := filepath.Join(m.folders.dataDir(id), recordName)
	before, err := os.Stat(path)
	w.must(err)
	w.must(m.Start(t.Context(), id))
	w.must(m.Kill(t.Context(), id, ""))
	after, err := os.Stat(path)
	w.must(err)
	if !os.SameFile(before, after) {
		t.Error("a start or an end replaced the record")
	}
	w.must(m.Rename(t.Context(), id, "other"))
	entries, err := os.ReadDir(m.folders.dataDir(id))
	w.must(err)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for _, want := range []string{recordName, stateName, string(phaseStopped)} {
		if !slices.Contains(names, want) {
			t.Errorf("the folder holds %q, want %s in it", names, want)
		}
	}
	if r, _, err := m.records.readRecord(id); err != nil || r.Name != "other" || r.State != container.Exited {
		t.Errorf("record = %+v, %v; want the newest", r, err)
	}
}

// TestWhatCannotBeSavedIsNotDone: a verb that answers an error since the disk is full, or cannot sync a folder, has changed
// nothing, neither now nor for the next engine.
func TestWhatCannotBeSavedIsNotDone(t *testing.T) {
	for name, fail := range map[string]func(c *ctr, verb func() error) error{
		"written": func(c *ctr, verb func() error) error {
			dir := c.dir
			defer func() { c.dir = dir }()
			c.dir = dir + "/full"
			return verb()
		},
		"synced": func(c *ctr, verb func() error) error {
			err := os.Chmod(c.dir, 0o300) // files are replaced, the folder is not opened
			if err == nil {
				err = verb()
			}
			return errors.Join(err, os.Chmod(c.dir, 0o700)) //nolint:gosec // a folder
		},
	} {
		t.Run(name, func(t *testing.T) { refuseVerbs(t, fail) })
	}
}

// refuseVerbs has verbs fail by fail.
func refuseVerbs(t *testing.T, fail func(c *ctr, verb func() error) error) {
	w := newWorld(t)
	m := w.engine()
	n := w.nets.add("n", 10)
	id := w.create(m, "web", policy("no", 0))
	c := must(m.index.find(id))
	before := must(json.Marshal(c.record()))
	for name, verb := range map[string]func() error{
		"rename": func() error { return m.Rename(t.Context(), id, "other") },
		"update": func() error {
			_, err := m.Update(t.Context(), id, container.HostConfig{RestartPolicy: container.RestartPolicy{Name: "always"}})
			return err
		},
		"connect": func() error { return m.Networks().ConnectNetwork(t.Context(), id, n, container.EndpointConfig{}) },
		"reconfigure": func() error {
			return m.Reconfigure(t.Context(), id, container.HostConfig{Binds: []string{"/srv:/data"}})
		},
	} {
		if err := fail(c, verb); err == nil {
			t.Errorf("%s: no error", name)
		}
		if after := must(json.Marshal(c.record())); string(after) != string(before) {
			t.Errorf("%s changed the record to\n%s, want\n%s", name, after, before)
		}
	}
	if _, err := m.index.find("other"); err == nil {
		t.Error("the container has the name that it could not get")
	}
	w.create(m, "other") // the name is free
	m.Close()
	next := w.engine()
	if r, err := next.inventory.Get(id); err != nil || r.Name != "web" || r.Host.RestartPolicy.Name != "no" || len(r.Mounts) != 0 {
		t.Errorf("the next engine has %+v, %v; want what was before", r, err)
	}
}
