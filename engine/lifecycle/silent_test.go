package lifecycle

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/pidfd"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

// hung makes a container that runs, whose monitor no longer answers.
func (w *world) hung(m *Manager, name string, change ...func(*container.Config, *container.HostConfig)) (id string, goOn func()) {
	w.t.Helper()
	id = w.create(m, name, change...)
	w.must(m.Start(w.t.Context(), id))
	return id, w.tasks.Task(id).Hang()
}

// says returns what clients are told of a container.
func (w *world) says(m *Manager, ref string) (state container.State, err, status string) {
	w.t.Helper()
	r, gerr := m.inventory.Get(ref)
	w.must(gerr)
	list, lerr := m.inventory.List(w.t.Context(), container.ListOptions{All: true, Filters: map[string][]string{"id": {r.ID}}})
	w.must(lerr)
	return r.State, r.Error, container.Status(list[0], time.Now())
}

// TestSilentMonitor: a monitor that stops answering is told of, nothing else changes, and all is well when it answers.
func TestSilentMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		id, goOn := w.hung(m, "web", always)
		if err := m.Pause(t.Context(), id); !errors.Is(err, task.ErrSilent) {
			t.Errorf("pause: %v, want %v", err, task.ErrSilent)
		}
		time.Sleep(time.Hour)
		if state, err, status := w.says(m, id); state != container.Running || err != task.ErrSilent.Error() || !strings.Contains(status, "monitor does not answer") {
			t.Errorf("an hour later: %s, error %q, %q; want it running and the reason", state, err, status)
		}
		goOn()
		synctest.Wait()
		if state, err, status := w.says(m, id); state != container.Running || err != "" || strings.Contains(status, "monitor") {
			t.Errorf("when it answers: %s, error %q, %q; want it running", state, err, status)
		}
		w.tasks.Task(id).End(task.Exit{Code: 3})
		synctest.Wait()
		if r, err := m.inventory.Get(id); err != nil || r.ExitCode != 3 {
			t.Errorf("exit code %d, %v, want 3", r.ExitCode, err)
		}
		w.must(m.Remove(t.Context(), id, container.RemoveOptions{Force: true}))
	})
}

// TestTheNextEngineMeetsSilentMonitors: it is ready in two seconds; containers keep the states of their records, and are
// taken over when their monitors answer.
func TestTheNextEngineMeetsSilentMonitors(t *testing.T) {
	for _, tc := range []struct {
		name  string
		state container.State // in the record
		after container.State // when the monitor answers
		set   func(*container.Record)
		held  bool
	}{
		{"running", container.Running, container.Running, func(*container.Record) {}, false},
		{"paused", container.Paused, container.Paused, func(*container.Record) {}, true},
		{"frozen for a moment", container.Running, container.Running, func(r *container.Record) { r.Thaw = true }, true},
		{"unpause not saved", container.Paused, container.Running, func(*container.Record) {}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				first := w.engine()
				id := w.create(first, "web", always)
				w.must(first.Start(t.Context(), id))
				first.Close()
				c, err := first.index.find(id)
				w.must(err)
				c.update(func(r *container.Record) { r.State = tc.state; tc.set(r) })
				w.must(c.saveRecord(false))
				if tc.held {
					w.must(w.tasks.Task(id).Pause(t.Context()))
				}
				goOn := w.tasks.Task(id).Hang()
				began := time.Now()
				m := w.engine()
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("ready after %s, want 2 s at most", took)
				}
				time.Sleep(time.Hour)
				if state, err, _ := w.says(m, id); state != tc.state || err != task.ErrSilent.Error() {
					t.Errorf("an hour later: %s, error %q; want %s and the reason", state, err, tc.state)
				}
				if len(w.nets.joined) != 1 {
					t.Errorf("networks %v, want that of the container", w.nets.joined)
				}
				if err := m.Start(t.Context(), id); err == nil {
					t.Error("it was started beside its process")
				}
				if err := m.Remove(t.Context(), id, container.RemoveOptions{}); !fault.Is(err, fault.Conflict) {
					t.Errorf("remove: %v, want a conflict", err)
				}
				goOn()
				synctest.Wait()
				if state, err, _ := w.says(m, id); state != tc.after || err != "" || w.frozen(id) != (tc.after == container.Paused) {
					t.Errorf("when it answers: %s, frozen %t, error %q; want %s", state, w.frozen(id), err, tc.after)
				}
				w.tasks.Task(id).End(task.Exit{Code: 9})
				synctest.Wait()
				if r, err := m.inventory.Get(id); err != nil || r.ExitCode != 9 || r.State != container.Restarting {
					t.Errorf("at its end: %s, code %d, %v; want its own code, and its policy at work", r.State, r.ExitCode, err)
				}
				w.must(m.Remove(t.Context(), id, container.RemoveOptions{Force: true}))
			})
		})
	}
}

// TestEndsWithoutMonitor: what ends a container works without its monitor.
func TestEndsWithoutMonitor(t *testing.T) {
	second := time.Second
	for name, end := range map[string]func(m *Manager, id string) error{
		"kill": func(m *Manager, id string) error { return m.Kill(m.background.life, id, "") },
		"stop": func(m *Manager, id string) error {
			return m.Stop(m.background.life, id, container.StopOptions{Timeout: &second})
		},
		"remove": func(m *Manager, id string) error {
			return m.Remove(m.background.life, id, container.RemoveOptions{Force: true})
		},
		"shutdown": func(m *Manager, _ string) error { m.Shutdown(m.background.life); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int { <-p.Done; return 0 } // deaf to other signals
				first := w.engine()
				id, _ := w.hung(first, "web", always)
				first.Close()
				m := w.engine()
				fake := w.tasks.Task(id)
				w.must(end(m, id))
				synctest.Wait()
				if signals := fake.Signals(); !slices.Contains(signals, int(unix.SIGKILL)) {
					t.Errorf("signals %v, want SIGKILL among them", signals)
				}
				r, err := m.inventory.Get(id)
				if name == "remove" {
					if !fault.Is(err, fault.NotFound) {
						t.Errorf("afterwards: %v, want none", err)
					}
					return
				}
				if err != nil || r.State != container.Exited || r.ExitCode != 137 || r.MonitorSilent {
					t.Errorf("afterwards: %s, code %d, silent %t, %v; want it exited with 137", r.State, r.ExitCode, r.MonitorSilent, err)
				}
			})
		})
	}
}

// endless is a task whose monitor answers but never tells of the end: its log is on a disk that does not answer.
type endless struct {
	*tasktest.FakeTask

	destroyed chan struct{}
}

func (e endless) Signal(context.Context, int) error { return nil }

func (e endless) Destroy(ctx context.Context) error {
	close(e.destroyed)
	return e.FakeTask.Destroy(ctx)
}

func TestMonitorThatDoesNotTellOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		id := w.create(m, "web")
		w.must(m.Start(t.Context(), id))
		c, err := m.index.find(id)
		w.must(err)
		stuck := endless{w.tasks.Task(id), make(chan struct{})}
		c.setTask(stuck)
		w.must(m.Remove(t.Context(), id, container.RemoveOptions{Force: true}))
		<-stuck.destroyed
	})
}

// TestInterruptedStartWithoutMonitor: a start that no client was told of is taken back before anything else happens to the
// container.
func TestInterruptedStartWithoutMonitor(t *testing.T) {
	for name, policy := range map[string]func(*container.Config, *container.HostConfig){
		"no policy": func(*container.Config, *container.HostConfig) {}, "always": always,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				first := w.engine()
				id := w.create(first, "web", policy)
				w.must(first.Start(t.Context(), id))
				first.Close()
				for _, name := range []string{stateName, string(phaseStarted)} { // as if the start had not been saved
					w.must(os.Remove(filepath.Join(first.folders.dataDir(id), name)))
				}
				old := w.tasks.Task(id)
				old.Hang()
				m := w.engine()
				synctest.Wait()
				if signals := old.Signals(); !slices.Equal(signals, []int{int(unix.SIGKILL)}) {
					t.Errorf("signals %v, want SIGKILL", signals)
				}
				if got := w.state(m, id); got != container.Created {
					t.Errorf("state %s, want created as recorded", got)
				}
				w.must(m.Start(t.Context(), id))
				w.must(m.Remove(t.Context(), id, container.RemoveOptions{Force: true}))
			})
		})
	}
}

// TestOrphansWithoutMonitor: what belongs to no container goes also when its monitor does not answer, and nobody waits.
func TestOrphansWithoutMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.engine()
		id, _ := w.hung(first, "web")
		first.Close()
		w.must(os.RemoveAll(first.folders.dataDir(id)))
		began := time.Now()
		m := w.engine()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("ready after %s, want 2 s at most", took)
		}
		synctest.Wait()
		if w.tasks.Task(id) != nil {
			t.Error("the task is still there")
		}
		if _, err := os.Stat(m.folders.taskDir(id)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("task folder: %v, want none", err)
		}
		if w.layers.made[id] {
			t.Error("its layer is still there")
		}
	})
}

// lateFolder is a runner whose task is found after some looks: its monitor writes its folder again.
type lateFolder struct {
	task.Runner

	looks int
}

func (l *lateFolder) Adopt(ctx context.Context, id, dir string) (task.Task, error) {
	if l.looks--; l.looks >= 0 {
		return nil, fault.NotFound("no task %s", id)
	}
	return l.Runner.Adopt(ctx, id, dir)
}

// TestTheNextEngineWaitsForFolders: a container whose process lives is not taken for ended while its monitor writes the
// task's folder again.
func TestTheNextEngineWaitsForFolders(t *testing.T) {
	self, err := pidfd.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		start uint64
		boot  string
		looks int
		found bool
	}{
		{"soon", self.Start, "boot-1", 20, true},
		{"never", self.Start, "boot-1", math.MaxInt, false},
		{"the process has ended", self.Start + 1, "boot-1", 1, false},
		{"another boot", self.Start, "boot-0", 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m := w.engine()
				id := w.create(m, "web")
				w.must(m.Start(t.Context(), id))
				c, err := m.index.find(id)
				w.must(err)
				c.update(func(r *container.Record) { r.Pid, r.PidStart, r.BootID = self.Pid, tc.start, tc.boot })
				m.leftovers.tasks = &lateFolder{w.tasks, tc.looks}
				soon, cancel := context.WithTimeout(t.Context(), adoptWait)
				defer cancel()
				if f := m.leftovers.findTask(soon, id); (f.err == nil) != tc.found || f.err != nil && !fault.Is(f.err, fault.NotFound) {
					t.Errorf("findTask: %v, want it found: %t", f.err, tc.found)
				}
				w.must(m.Kill(t.Context(), id, ""))
			})
		})
	}
}
