package lifecycle

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

func TestTheNextEngineTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.engine()
		running, ended, lost := w.create(first, "running"), w.create(first, "ended"), w.create(first, "lost")
		for _, id := range []string{running, ended, lost} {
			w.must(first.Start(t.Context(), id))
		}
		first.Close()
		w.tasks.Task(ended).End(task.Exit{Code: 42})
		vanished := w.tasks.Task(lost)
		w.tasks.Forget(lost)
		defer vanished.End(task.Exit{})

		second := w.engine() // what had ended has by then
		if got := w.state(second, "running"); got != container.Running {
			t.Errorf("running container is %s after the restart", got)
		}
		if len(w.nets.joined) != 1 || w.nets.joined[running].Endpoints["bridge"].IPAddress != "172.17.0.2" {
			t.Errorf("restored networks = %v, want that of the running container", w.nets.joined)
		}
		r, err := second.inventory.Get("ended")
		w.must(err)
		if r.State != container.Exited || r.ExitCode != 42 {
			t.Errorf("container that ended meanwhile: %s, code %d, want exited, 42", r.State, r.ExitCode)
		}
		if r, err = second.inventory.Get("lost"); err != nil || r.State != container.Exited || r.ExitCode != 137 || r.Error == "" {
			t.Errorf("lost container = %+v, %v, want exited with 137 and a reason", r, err)
		}
		w.must(second.Kill(t.Context(), "running", ""))
	})
}

func TestCrashBetweenEndAndSave(t *testing.T) {
	w := newWorld(t)
	first := w.engine()
	id := w.create(first, "web")
	w.must(first.Start(t.Context(), id))
	first.Close()
	c, err := first.index.find(id)
	w.must(err)
	c.update(func(r *container.Record) { r.End = &container.End{Code: 23, At: r.StartedAt.Add(1)} })
	w.must(c.saveRecord(false))
	w.tasks.Forget(id) // the task was deleted already

	r, err := w.engine().inventory.Get("web")
	w.must(err)
	if r.State != container.Exited || r.ExitCode != 23 || r.Error != "" || r.End != nil {
		t.Errorf("got %s, code %d, error %q, end %v; want exited with the code that was known, 23", r.State, r.ExitCode, r.Error, r.End)
	}
}

// TestCrashBetweenEndAndRestart: the restart that an end leads to is one of those that the policy allows, also when another
// engine has read that end.
func TestCrashBetweenEndAndRestart(t *testing.T) {
	for restarts, want := range map[int]container.State{1: container.Restarting, 2: container.Exited} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			first := w.engine()
			id := w.create(first, "web", policy("on-failure", 2))
			w.must(first.Start(t.Context(), id))
			first.Close()
			c, err := first.index.find(id)
			w.must(err)
			c.update(func(r *container.Record) {
				r.RestartCount, r.End = restarts, &container.End{Code: 23, At: r.StartedAt.Add(1)}
			})
			w.must(c.saveRecord(false))
			w.tasks.Task(id).End(task.Exit{})
			w.tasks.Forget(id)
			second := w.engine()
			r, err := second.inventory.Get("web")
			w.must(err)
			if r.State != want || r.RestartCount != 2 || r.ExitCode != 23 {
				t.Errorf("after %d restarts: %s, %d restarts, code %d; want %s, 2, 23", restarts, r.State, r.RestartCount, r.ExitCode, want)
			}
			if want == container.Restarting {
				time.Sleep(life.FirstDelay)
				synctest.Wait()
				if state := w.state(second, id); state != container.Running {
					t.Errorf("after the delay: %s, want it running", state)
				}
				w.must(second.Kill(t.Context(), "web", ""))
			}
		})
	}
}

// slowStart is a task in the middle of its start: it cannot be deleted, and runs after some looks at it.
type slowStart struct {
	task.Task

	looks int
	end   task.Status
}

func (s *slowStart) Adopt(context.Context, string, string) (task.Task, error) { return s, nil }

func (s *slowStart) Prepare(context.Context, task.Spec) (task.Task, error) { return s, nil }

func (s *slowStart) Delete(context.Context) error { return fault.Conflict("task is running") }

func (s *slowStart) Status(context.Context) (task.Status, error) {
	if s.looks--; s.looks >= 0 {
		return task.Status{}, nil
	}
	return s.end, nil
}

func TestTheNextEngineMeetsAStart(t *testing.T) {
	for _, tc := range []struct {
		name    string
		looks   int
		end     task.Status
		running bool
		fails   bool
	}{
		{"it runs then", 20, task.Status{Pid: 7, StartedAt: time.Now()}, true, false},
		{"it fails then", 20, task.Status{Exit: &task.Exit{Code: 127}}, false, false},
		{"it takes for ever", math.MaxInt, task.Status{}, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m := w.engine()
				id := w.create(m, "web")
				w.must(os.MkdirAll(m.folders.taskDir(id), 0o700))
				m.leftovers.tasks = &slowStart{looks: tc.looks, end: tc.end}
				c, err := m.index.find(id)
				w.must(err)
				soon, cancel := context.WithTimeout(t.Context(), adoptWait)
				defer cancel()
				_, running, err := m.takeover.adoptContainer(t.Context(), soon, c, m.leftovers.findTask(soon, id))
				if running != tc.running || (err != nil) != tc.fails {
					t.Errorf("adopt: running %t, %v; want %t, an error: %t", running, err, tc.running, tc.fails)
				}
				if pid := c.record().Pid; pid != tc.end.Pid {
					t.Errorf("the record has pid %d, want %d", pid, tc.end.Pid)
				}
			})
		})
	}
}

func TestAnotherBootIsTold(t *testing.T) {
	w := newWorld(t)
	first := w.engine()
	id := w.create(first, "web")
	w.must(first.Start(t.Context(), id))
	first.Close()
	w.tasks.Forget(id)
	w.boot = "boot-2"
	second := w.engine()
	r, err := second.inventory.Get("web")
	w.must(err)
	if r.State != container.Exited || !strings.Contains(r.Error, "machine was restarted") {
		t.Errorf("after a reboot: %s, %q", r.State, r.Error)
	}
}

func TestShutdownStopsAndAlwaysComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.engine()
		w.create(first, "once")
		w.create(first, "always", func(_ *container.Config, h *container.HostConfig) { h.RestartPolicy.Name = "always" })
		w.create(first, "unless", func(_ *container.Config, h *container.HostConfig) { h.RestartPolicy.Name = "unless-stopped" })
		w.create(first, "down", func(_ *container.Config, h *container.HostConfig) { h.RestartPolicy.Name = "unless-stopped" })
		for _, name := range []string{"once", "always", "unless", "down"} {
			w.must(first.Start(t.Context(), name))
		}
		w.must(first.Stop(t.Context(), "down", container.StopOptions{}))
		first.Shutdown(context.WithoutCancel(t.Context()))
		for _, name := range []string{"once", "always", "unless"} {
			if got := w.state(first, name); got != container.Exited {
				t.Errorf("%s is %s after the shutdown", name, got)
			}
		}
		first.Close()
		second := w.engine()
		synctest.Wait()
		for name, want := range map[string]container.State{
			"once": container.Exited, "always": container.Running, "unless": container.Running, "down": container.Exited,
		} {
			if got := w.state(second, name); got != want {
				t.Errorf("%s is %s with the next engine, want %s", name, got, want)
			}
		}
		second.Shutdown(context.WithoutCancel(t.Context()))
	})
}

func TestCrashBetweenStartAndSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.engine()
		id := w.create(first, "web")
		w.must(first.Start(t.Context(), "web"))
		first.Close()
		for _, name := range []string{stateName, string(phaseStarted)} { // as if the start had not been saved
			w.must(os.Remove(filepath.Join(first.folders.dataDir(id), name)))
		}
		second := w.engine()
		if got := w.state(second, "web"); got != container.Running {
			t.Errorf("state = %s, want running", got)
		}
		if len(w.nets.joined[id].Endpoints) == 0 {
			t.Error("the network of the running container was not restored")
		}
		w.must(second.Kill(t.Context(), "web", ""))
	})
}

func TestOrphansGo(t *testing.T) {
	w := newWorld(t)
	w.layers.made[strings.Repeat("0a", 32)] = true
	half := filepath.Join(w.root, "containers", strings.Repeat("0b", 32))
	w.must(os.MkdirAll(half, 0o700))
	w.engine()
	if len(w.layers.made) != 0 {
		t.Errorf("layers without container stayed: %v", w.layers.made)
	}
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder without record stayed: %v", err)
	}
}

// TestDamagedRecord: a person may mend the record; until then the container is there to be seen and removed, and its process
// goes on.
func TestDamagedRecord(t *testing.T) {
	link := func(to string) func(string) error {
		return func(path string) error { return errors.Join(os.Remove(path), os.Symlink(to, path)) }
	}
	text := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for name, spoil := range map[string]func(path string) error{
		"empty": text(""), "half": text(`{"ID":"x","Na`), "object": text("{}"), "list": text("[]"), "garbage": text("\x00\x01"),
		"another's": func(path string) error {
			raw, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, []byte(strings.Replace(string(raw), `"ID":"`, `"ID":"ff`, 1)), 0o600))
		},
		"without a name": func(path string) error {
			raw, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, []byte(strings.Replace(string(raw), `"Name":"web"`, `"Name":""`, 1)), 0o600))
		},
		"folder": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"link":   link("/dev/null"), "dangling link": link("nothing"),
		"folder of it": func(path string) error {
			dir := filepath.Dir(path)
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, []byte("x"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first := w.engine()
			id, other := w.create(first, "web"), w.create(first, "other")
			w.must(first.Start(t.Context(), id))
			first.Close()
			for _, name := range []string{stateName, recordName} {
				w.must(spoil(filepath.Join(first.folders.dataDir(id), name)))
			}
			for range 2 { // what stands in for the record lasts
				m := w.engine()
				list, err := m.inventory.List(t.Context(), container.ListOptions{All: true})
				if err != nil || len(list) != 2 {
					t.Fatalf("List = %v, %v; want both", list, err)
				}
				r, err := m.inventory.Get(id[:12])
				if err != nil || r.State != container.Dead || r.ID != id || !strings.Contains(r.Error, "damaged") {
					t.Fatalf("Get = %+v, %v; want a dead container of that id", r, err)
				}
				if fake := w.tasks.Task(id); fake == nil || len(fake.Signals()) != 0 {
					t.Error("the running task was ended")
				}
				if !w.layers.made[id] {
					t.Error("the writable layer was removed")
				}
				m.Close()
			}
			m := w.engine()
			fake := w.tasks.Task(id)
			go func() {
				for len(fake.Signals()) == 0 {
					time.Sleep(time.Millisecond)
				}
				fake.End(task.Exit{Code: 137})
			}()
			w.must(m.Remove(t.Context(), id, container.RemoveOptions{Force: true}))
			if w.layers.made[id] || !w.layers.made[other] {
				t.Errorf("layers %v, want that of %s alone", w.layers.made, other)
			}
			if _, err := os.Stat(w.run + "/tasks/" + id); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("folder of the task: %v", err)
			}
			w.must(m.Remove(t.Context(), other, container.RemoveOptions{}))
		})
	}
}

// TestCrashDuringStop: the stop that a user asked for holds with the next engine too.
func TestCrashDuringStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.engine()
		w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int { <-p.Done; return 0 }
		id := w.create(first, "web", always)
		w.must(first.Start(t.Context(), id))
		minute := time.Minute
		stopping := make(chan error, 1)
		go func() { stopping <- first.Stop(t.Context(), id, container.StopOptions{Timeout: &minute}) }()
		synctest.Wait()
		first.Close()
		second := w.engine()
		w.tasks.Task(id).End(task.Exit{Code: 143})
		time.Sleep(time.Second)
		if got := w.state(second, id); got != container.Exited {
			t.Errorf("state = %s, want exited: a user stopped it", got)
		}
		t.Logf("the stop of the engine that was gone: %v", <-stopping)
	})
}

func TestHalfWrittenRecordsGo(t *testing.T) {
	w := newWorld(t)
	first := w.engine()
	id := w.create(first, "web")
	first.Close()
	half := filepath.Join(first.folders.dataDir(id), ".record-1.tmp")
	w.must(os.WriteFile(half, []byte("{"), 0o600))
	second := w.engine()
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half-written record stayed: %v", err)
	}
	if got := w.state(second, "web"); got != container.Created {
		t.Errorf("state = %s, want created", got)
	}
}

// TestOneDamagedFileOfTwo: what is left of a container's record stands in for the file that is damaged.
func TestOneDamagedFileOfTwo(t *testing.T) {
	for _, name := range []string{recordName, stateName} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first := w.engine()
			id := w.create(first, "web")
			w.must(first.Start(t.Context(), id))
			first.Close()
			path := filepath.Join(first.folders.dataDir(id), name)
			w.must(os.WriteFile(path, []byte("{"), 0o600))
			for range 2 {
				m := w.engine()
				if r, err := m.inventory.Get("web"); err != nil || r.State != container.Running {
					t.Fatalf("Get = %+v, %v; want it running", r, err)
				}
				m.Close()
			}
			m := w.engine()
			if raw, err := os.ReadFile(path); string(raw) == "{" || errors.Is(err, os.ErrNotExist) && name == recordName {
				t.Errorf("%s holds %q, %v", name, raw, err)
			}
			w.tasks.Task(id).End(task.Exit{})
			w.must(m.Remove(t.Context(), id, container.RemoveOptions{Force: true}))
		})
	}
}
