package lifecycle

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/task"
)

// TestCrashAfterPolicyRestart: the engine dies after the restarted process runs and before its record says so.
func TestCrashAfterPolicyRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.engine()
		id := w.create(first, "web", always)
		w.must(first.Start(t.Context(), id))
		first.Close()
		c, err := first.index.find(id)
		w.must(err)
		c.update(func(r *container.Record) { r.State, r.Pid = container.Restarting, 0 })
		w.must(c.saveRecord(false))
		process := w.tasks.Task(id)

		m := w.engine()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.state(m, id); got != container.Running {
			t.Errorf("state: got %s, want running", got)
		}
		if got := w.tasks.Task(id); got != process {
			t.Error("a second process was started beside the first")
		}
		m.Close()
		w.tasks.Task(id).End(task.Exit{})
		process.End(task.Exit{})
	})
}

// TestCrashBeforePolicyRestart: the engine dies when the restart is prepared and no process runs.
func TestCrashBeforePolicyRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.engine()
		id := w.create(first, "web", always)
		first.Close()
		c, err := first.index.find(id)
		w.must(err)
		c.update(func(r *container.Record) { r.State = container.Restarting })
		w.must(c.saveRecord(false))
		w.must(os.MkdirAll(first.folders.taskDir(id), 0o700))
		w.layers.mounted[id] = true
		prepared, err := w.tasks.Prepare(t.Context(), task.Spec{ID: id, Dir: first.folders.taskDir(id)})
		w.must(err)

		m := w.engine()
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := prepared.Start(t.Context()); !fault.Is(err, fault.Conflict) {
			t.Errorf("what the dead engine prepared is still there: start gives %v", err)
		}
		if got := w.state(m, id); got != container.Running {
			t.Errorf("state: got %s, want running", got)
		}
		m.Close()
		w.tasks.Task(id).End(task.Exit{})
	})
}

// TestCrashAfterStart: what an earlier run left in the record is not told of the adopted process.
func TestCrashAfterStart(t *testing.T) {
	w := newWorld(t)
	first := w.engine()
	id := w.create(first, "web")
	w.must(first.Start(t.Context(), id))
	first.Close()
	c, err := first.index.find(id)
	w.must(err)
	c.update(func(r *container.Record) {
		r.State, r.Pid, r.ExitCode, r.Error, r.OOMKilled = container.Exited, 0, 3, "old", true
		r.StoppedByUser, r.RestartAtStart, r.RestartCount = true, true, 4
	})
	w.must(c.saveRecord(false))
	w.must(os.MkdirAll(first.folders.taskDir(id), 0o700))

	r, err := w.engine().inventory.Get(id)
	w.must(err)
	if r.State != container.Running || r.ExitCode != 0 || r.Error != "" || r.OOMKilled || r.StoppedByUser || r.RestartAtStart || r.RestartCount != 0 {
		t.Errorf("got %s, code %d, error %q, oom %t, by user %t, at start %t, restarts %d; want a fresh run", r.State, r.ExitCode,
			r.Error, r.OOMKilled, r.StoppedByUser, r.RestartAtStart, r.RestartCount)
	}
}

// TestCrashWhilePreparing: nothing runs, so nothing may stay mounted.
func TestCrashWhilePreparing(t *testing.T) {
	w := newWorld(t)
	first := w.engine()
	id := w.create(first, "web")
	first.Close()
	w.must(os.MkdirAll(first.folders.taskDir(id), 0o700))
	w.layers.mounted[id] = true

	m := w.engine()
	if w.layers.mounted[id] {
		t.Error("the layer of a container at rest is mounted")
	}
	if _, err := os.Stat(m.folders.taskDir(id)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("task folder: got %v, want none", err)
	}
}
