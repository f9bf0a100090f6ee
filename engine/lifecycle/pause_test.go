package lifecycle

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

// paused makes a container that is paused.
func (w *world) paused(m *Manager, name string, change ...func(*container.Config, *container.HostConfig)) string {
	w.t.Helper()
	id := w.create(m, name, change...)
	w.must(m.Start(w.t.Context(), id))
	w.must(m.Pause(w.t.Context(), id))
	return id
}

// frozen says what the task's own word on it is.
func (w *world) frozen(id string) bool {
	w.t.Helper()
	s, err := w.tasks.Task(id).Status(w.t.Context())
	w.must(err)
	return s.Paused
}

func TestPauseAndUnpause(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web")
	for verb, do := range map[string]func(context.Context, string) error{"pause": m.Pause, "unpause": m.Unpause} {
		if err := do(t.Context(), "nope"); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s of none: %v, want not found", verb, err)
		}
		if err := do(t.Context(), "web"); !fault.Is(err, fault.Conflict) {
			t.Errorf("%s of what never ran: %v, want a conflict", verb, err)
		}
	}
	w.must(m.Start(t.Context(), id))
	if err := m.Unpause(t.Context(), id); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "is not paused") {
		t.Errorf("unpause of a running one: %v, want a conflict that says so", err)
	}
	w.must(m.Pause(t.Context(), id))
	if got := w.state(m, id); got != container.Paused || !w.frozen(id) {
		t.Errorf("state after a pause: %s, frozen %t", got, w.frozen(id))
	}
	if err := m.Pause(t.Context(), id); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "already paused") {
		t.Errorf("second pause: %v, want a conflict that says so", err)
	}
	if err := m.Start(t.Context(), id); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "unpause") {
		t.Errorf("start of a paused one: %v, want a conflict that tells what to do", err)
	}
	if err := m.Remove(t.Context(), id, container.RemoveOptions{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("remove of a paused one: %v, want a conflict", err)
	}
	err := m.viewers.Attach(t.Context(), id, container.AttachOptions{Stream: true, Stdout: true}, func() (io.ReadWriteCloser, error) {
		t.Error("attach to a paused container was answered")
		return nil, errors.New("no")
	})
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("attach to a paused one: %v, want a conflict", err)
	}
	w.must(m.Unpause(t.Context(), id))
	if got := w.state(m, id); got != container.Running || w.frozen(id) {
		t.Errorf("state after an unpause: %s, frozen %t", got, w.frozen(id))
	}
	if got, want := w.log.actions(), []string{"create", "start", "pause", "unpause"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	w.must(m.Kill(t.Context(), id, ""))
}

// TestEndsOfAPausedContainer: every verb that ends a paused container thaws it, or its processes would never hear.
func TestEndsOfAPausedContainer(t *testing.T) {
	second := time.Second
	for _, tc := range []struct {
		name    string
		do      func(m *Manager, id string) error
		signals []int
		state   container.State
		actions []string // after the pause
	}{
		{
			"stop", func(m *Manager, id string) error {
				return m.Stop(m.background.life, id, container.StopOptions{Timeout: &second})
			},
			[]int{int(unix.SIGTERM)},
			container.Exited,
			[]string{"kill", "die", "stop"},
		},
		{
			"kill", func(m *Manager, id string) error { return m.Kill(m.background.life, id, "") },
			[]int{int(unix.SIGKILL)},
			container.Exited,
			[]string{"kill", "die"},
		},
		{
			"kill with its stop signal", func(m *Manager, id string) error { return m.Kill(m.background.life, id, "TERM") },
			[]int{int(unix.SIGTERM)},
			container.Exited,
			[]string{"kill", "die"},
		},
		{
			"restart", func(m *Manager, id string) error {
				return m.Restart(m.background.life, id, container.StopOptions{Timeout: &second})
			},
			nil, container.Running,
			[]string{"kill", "die", "stop", "start", "restart"},
		},
		{
			"shutdown", func(m *Manager, _ string) error { m.Shutdown(m.background.life); return nil },
			[]int{int(unix.SIGTERM)},
			container.Exited,
			[]string{"kill", "die"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				// As frozen processes do, the script hears of a signal once it is thawed.
				thawed := make(chan struct{})
				thaw := sync.OnceFunc(func() { close(thawed) })
				w.tasks.GroupErr = func(_ task.Spec, verb string) error {
					if verb == "resume" {
						thaw()
					}
					return nil
				}
				w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int {
					select {
					case <-p.Done:
						return 0
					case <-p.Signals:
					}
					<-thawed
					return 0
				}
				m := w.engine()
				id := w.paused(m, "web")
				process := w.tasks.Task(id)
				w.must(tc.do(m, id))
				synctest.Wait()
				if got := w.state(m, id); got != tc.state {
					t.Errorf("state: got %s, want %s", got, tc.state)
				}
				if got := process.Signals(); tc.signals != nil && !slices.Equal(got, tc.signals) {
					t.Errorf("signals: got %v, want %v", got, tc.signals)
				}
				// Whether it is told that the container was thawed depends on how soon that ends.
				got := slices.DeleteFunc(w.actionsAfter("pause"), func(a string) bool { return a == "unpause" })
				if !slices.Equal(got, tc.actions) {
					t.Errorf("events after the pause: got %q, want %q", got, tc.actions)
				}
				if tc.state == container.Running {
					w.must(m.Kill(t.Context(), id, ""))
				}
			})
		})
	}
}

// actionsAfter returns what happened to containers after an action.
func (w *world) actionsAfter(action string) []string {
	all := w.log.actions()
	return all[slices.Index(all, action)+1:]
}

func TestSignalsReachAPausedContainerAsItIs(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int { <-p.Done; return 0 }
	id := w.paused(m, "web")
	w.must(m.Kill(t.Context(), id, "HUP"))
	if got := w.state(m, id); got != container.Paused || !w.frozen(id) {
		t.Errorf("after SIGHUP: %s, frozen %t, want it paused", got, w.frozen(id))
	}
	if got := w.tasks.Task(id).Signals(); !slices.Equal(got, []int{int(unix.SIGHUP)}) {
		t.Errorf("signals %v, want SIGHUP", got)
	}
	w.must(m.Kill(t.Context(), id, "TERM")) // the stop signal thaws: it is meant to end it
	if got := w.state(m, id); got != container.Running || w.frozen(id) {
		t.Errorf("after SIGTERM: %s, frozen %t, want it thawed", got, w.frozen(id))
	}
	w.must(m.Remove(t.Context(), id, container.RemoveOptions{Force: true}))
}

func TestForcedRemovalOfAPausedContainer(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.paused(m, "web")
	w.must(m.Remove(t.Context(), id, container.RemoveOptions{Force: true}))
	if _, err := m.inventory.Get(id); !fault.Is(err, fault.NotFound) {
		t.Errorf("after the removal: %v, want not found", err)
	}
}

func TestPauseThatFails(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web")
	w.must(m.Start(t.Context(), id))
	w.tasks.GroupErr = func(_ task.Spec, verb string) error {
		if verb == "pause" {
			return errors.New("device or resource busy")
		}
		return nil
	}
	if err := m.Pause(t.Context(), id); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("pause: %v, want the runtime's reason", err)
	}
	if r, err := m.inventory.Get(id); err != nil || r.State != container.Running || r.Thaw {
		t.Errorf("after a failed pause: %s, thaw %t, want running as before", r.State, r.Thaw)
	}
	w.must(m.Kill(t.Context(), id, ""))
}

func TestExitWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		id, again := w.paused(m, "web"), w.paused(m, "again", always)
		w.tasks.Task(id).End(task.Exit{Code: 137, OOMKilled: true})
		w.tasks.Task(again).End(task.Exit{Code: 1})
		time.Sleep(time.Second)
		synctest.Wait()
		if r, err := m.inventory.Get(id); err != nil || r.State != container.Exited || !r.OOMKilled {
			t.Errorf("paused container that ended: %s, oom %t", r.State, r.OOMKilled)
		}
		if got := w.state(m, again); got != container.Running {
			t.Errorf("paused container with a policy that ended: %s, want running", got)
		}
		w.must(m.Kill(t.Context(), again, ""))
	})
}

// TestEndOfAPausedContainerThatNobodyHasTold: whoever finds that the process has ended is told so, and from then on nobody
// sees the container paused. Its events pair the pause with the end.
func TestEndOfAPausedContainerThatNobodyHasTold(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before []string // what happens to it first
		do     func(m *Manager, id string) error
		fails  bool
		events []string
	}{
		{"unpause", []string{"pause"}, func(m *Manager, id string) error { return m.Unpause(m.background.life, id) }, true, []string{"pause", "die"}},
		{"commit", nil, func(m *Manager, id string) error {
			_, err := m.commits.Commit(m.background.life, id, container.CommitOptions{Pause: true})
			return err
		}, false, []string{"pause", "commit", "die"}},
		{"signal to end it", []string{"pause"}, func(m *Manager, id string) error { return m.Kill(m.background.life, id, "TERM") }, false, []string{"pause", "kill", "die"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int { <-p.Done; return 0 }
				m := w.engine()
				id := w.create(m, "web")
				w.must(m.Start(t.Context(), id))
				if len(tc.before) > 0 {
					w.must(m.Pause(t.Context(), id))
				}
				w.tasks.GroupErr = func(spec task.Spec, verb string) error {
					if verb == "resume" {
						return fault.Conflict("task %s is not running", spec.ID)
					}
					return nil
				}
				err := tc.do(m, id)
				if tc.fails && (!fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "is not running")) || !tc.fails && err != nil {
					t.Errorf("%s: %v, want a conflict that says why: %t", tc.name, err, tc.fails)
				}
				if got := w.state(m, id); got != container.Running {
					t.Errorf("state: %s, want running until its end is handled", got)
				}
				w.tasks.Task(id).End(task.Exit{Code: 5})
				synctest.Wait()
				if r, err := m.inventory.Get(id); err != nil || r.State != container.Exited || r.ExitCode != 5 {
					t.Errorf("afterwards: %s, code %d, %v; want exited with 5", r.State, r.ExitCode, err)
				}
				if got := w.actionsAfter("start"); !slices.Equal(got, tc.events) {
					t.Errorf("events %q, want %q", got, tc.events)
				}
			})
		})
	}
}

// ender asks what is seen of a container just before it is seen at rest.
type ender struct {
	m     *Manager
	state container.State
	pause error
}

func (*ender) Began(*container.Record) {}

func (e *ender) Ended(containerID string) {
	if r, err := e.m.inventory.Get(containerID); err == nil {
		e.state = r.State
	}
	e.pause = e.m.Pause(e.m.background.life, containerID)
}

// TestNobodyIsPausedWhoHasEnded: while what a process has held is being released the container is not paused, and cannot be.
func TestNobodyIsPausedWhoHasEnded(t *testing.T) {
	for name, paused := range map[string]bool{"paused": true, "running": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m := w.open()
				e := &ender{m: m}
				m.Run(e)
				id := w.create(m, "web")
				w.must(m.Start(t.Context(), id))
				if paused {
					w.must(m.Pause(t.Context(), id))
				}
				w.tasks.Task(id).End(task.Exit{Code: 5})
				synctest.Wait()
				if e.state != container.Running || !fault.Is(e.pause, fault.Conflict) {
					t.Errorf("while it was released: %s, pause: %v; want running, and a conflict", e.state, e.pause)
				}
			})
		})
	}
}

// TestPauseMeetsKill: the kill has sent its signal before the freeze and must not wait for an unpause.
func TestPauseMeetsKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		id := w.create(m, "web")
		w.must(m.Start(t.Context(), id))
		c, err := m.index.find(id)
		w.must(err)
		_, err = m.lives.applyEvent(c, life.EndAsked{Op: container.OpKill}) // a kill is under way
		w.must(err)
		w.must(m.Pause(t.Context(), id))
		synctest.Wait()
		_, err = m.lives.applyEvent(c, life.GaveUp{})
		w.must(err)
		if got := w.state(m, id); got != container.Running || w.frozen(id) {
			t.Errorf("state: %s, frozen %t, want it thawed for the kill", got, w.frozen(id))
		}
		w.must(m.Kill(t.Context(), id, ""))
	})
}

// TestTheNextEngineKnowsWhoIsPaused: what the record says counts unless the freeze was not finished.
func TestTheNextEngineKnowsWhoIsPaused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		state container.State // in the record
		thaw  bool
		held  bool // the task is frozen
		want  container.State
	}{
		{"paused", container.Paused, false, true, container.Paused},
		{"pause not finished", container.Running, true, true, container.Running},
		{"pause not begun", container.Running, true, false, container.Running},
		{"frozen for a moment", container.Paused, true, true, container.Running},
		{"unpause not saved", container.Paused, false, false, container.Running},
		{"pause not saved", container.Running, false, true, container.Paused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			first := w.engine()
			id := w.create(first, "web")
			w.must(first.Start(t.Context(), id))
			first.Close()
			c, err := first.index.find(id)
			w.must(err)
			c.update(func(r *container.Record) { r.State, r.Thaw = tc.state, tc.thaw })
			w.must(c.saveRecord(false))
			if tc.held {
				w.must(w.tasks.Task(id).Pause(t.Context()))
			}
			m := w.engine()
			r, err := m.inventory.Get(id)
			w.must(err)
			if r.State != tc.want || r.Thaw || w.frozen(id) != (tc.want == container.Paused) {
				t.Errorf("got %s, thaw %t, frozen %t; want %s", r.State, r.Thaw, w.frozen(id), tc.want)
			}
			if tc.want == container.Paused {
				w.must(m.Unpause(t.Context(), id))
			}
			w.must(m.Kill(t.Context(), id, ""))
		})
	}
}
