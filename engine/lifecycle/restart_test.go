package lifecycle

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/container"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

func policy(name string, most int) func(*container.Config, *container.HostConfig) {
	return func(_ *container.Config, h *container.HostConfig) {
		h.RestartPolicy = container.RestartPolicy{Name: name, MaximumRetryCount: most}
	}
}

// TestRestartDelays: the delay doubles from 100 ms up to a minute with each quick exit, and begins anew after a run of ten
// seconds.
func TestRestartDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		runs := [14]time.Duration{11: 10 * time.Second, 12: 9999 * time.Millisecond} // how long each run takes
		var begun, ended []time.Time
		w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int {
			n := len(begun)
			begun = append(begun, time.Now())
			if n >= len(runs) {
				<-p.Done
				return 0
			}
			time.Sleep(runs[n])
			ended = append(ended, time.Now())
			return 1
		}
		m := w.engine()
		id := w.create(m, "web", always)
		w.must(m.Start(t.Context(), id))
		time.Sleep(time.Hour)
		synctest.Wait()
		want := []time.Duration{
			100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond,
			1600 * time.Millisecond, 3200 * time.Millisecond, 6400 * time.Millisecond, 12800 * time.Millisecond,
			25600 * time.Millisecond, 51200 * time.Millisecond, time.Minute,
			100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond,
		}
		got := make([]time.Duration, 0, len(ended))
		for i, end := range ended {
			got = append(got, begun[i+1].Sub(end))
		}
		if !slices.Equal(got, want) {
			t.Errorf("delays\n%v, want\n%v", got, want)
		}
		if r, err := m.inventory.Get(id); err != nil || r.RestartCount != len(want) {
			t.Errorf("RestartCount %d, want %d", r.RestartCount, len(want))
		}
		w.must(m.Restart(t.Context(), id, container.StopOptions{}))
		if r, err := m.inventory.Get(id); err != nil || r.RestartCount != 0 {
			t.Errorf("RestartCount after a user's restart %d, want 0", r.RestartCount)
		}
		w.must(m.Kill(t.Context(), id, ""))
	})
}

// TestRetriesAreCountedAcrossEngines: another engine does not give a container its retries anew.
func TestRetriesAreCountedAcrossEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.engine()
		id := w.create(first, "web", policy("on-failure", 2))
		w.must(first.Start(t.Context(), id))
		w.tasks.Task(id).End(task.Exit{Code: 1})
		time.Sleep(time.Second)
		synctest.Wait()
		first.Close()

		second := w.engine()
		for i, want := range []container.State{container.Running, container.Exited} {
			w.tasks.Task(id).End(task.Exit{Code: 1})
			time.Sleep(time.Second)
			synctest.Wait()
			r, err := second.inventory.Get(id)
			w.must(err)
			if r.State != want || r.RestartCount != 2 {
				t.Errorf("after end %d: %s with %d restarts, want %s with 2", i+2, r.State, r.RestartCount, want)
			}
		}
	})
}

// TestWhoStartsWithTheEngine: each policy, by how the container came to rest.
func TestWhoStartsWithTheEngine(t *testing.T) {
	stop := func(m *Manager, id string) error { return m.Stop(m.background.life, id, container.StopOptions{}) }
	kill := func(m *Manager, id string) error { return m.Kill(m.background.life, id, "") }
	shutdown := func(m *Manager, _ string) error { m.Shutdown(m.background.life); return nil }
	term := func(m *Manager, id string) error { return m.Kill(m.background.life, id, "TERM") }
	for _, tc := range []struct {
		name   string
		policy string
		end    func(*Manager, string) error
		reboot bool
		starts bool
	}{
		{"no, engine's end", "no", shutdown, false, false},
		{"no, reboot", "no", nil, true, false},
		{"always, stopped", "always", stop, false, true},
		{"always, killed", "always", kill, false, true},
		{"always, engine's end", "always", shutdown, false, true},
		{"always, reboot", "always", nil, true, true},
		{"always, stopped and reboot", "always", stop, true, true},
		{"unless-stopped, stopped", "unless-stopped", stop, false, false},
		{"unless-stopped, killed", "unless-stopped", kill, false, false},
		{"unless-stopped, killed by its stop signal", "unless-stopped", term, false, false},
		{"unless-stopped, engine's end", "unless-stopped", shutdown, false, true},
		{"unless-stopped, reboot", "unless-stopped", nil, true, true},
		{"unless-stopped, stopped and reboot", "unless-stopped", stop, true, false},
		{"on-failure, stopped", "on-failure", stop, false, false},
		{"on-failure, engine's end", "on-failure", shutdown, false, true},
		{"on-failure, reboot", "on-failure", nil, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				first := w.engine()
				id, never := w.create(first, "web", policy(tc.policy, 0)), w.create(first, "never", policy(tc.policy, 0))
				w.must(first.Start(t.Context(), id))
				if tc.end != nil {
					w.must(tc.end(first, id))
				}
				synctest.Wait()
				first.Close()
				if tc.reboot {
					w.boot = "boot-2"
					if process := w.tasks.Task(id); process != nil {
						w.tasks.Forget(id)
						defer process.End(task.Exit{})
					}
				}
				second := w.engine()
				time.Sleep(time.Minute)
				synctest.Wait()
				want := container.Exited
				if tc.starts {
					want = container.Running
				}
				if got := w.state(second, id); got != want {
					t.Errorf("with the next engine: %s, want %s", got, want)
				}
				if got := w.state(second, never); got != container.Created {
					t.Errorf("one that never ran: %s, want created", got)
				}
				second.Shutdown(context.WithoutCancel(t.Context()))
			})
		})
	}
}

// TestEndsOfARestartLoop: whatever a user does to a container that waits for its restart counts at once and for good.
func TestEndsOfARestartLoop(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(m *Manager, id string) error
		want container.State
		gone bool
	}{
		"stop": {func(m *Manager, id string) error { return m.Stop(m.background.life, id, container.StopOptions{}) }, container.Exited, false},
		"kill": {func(m *Manager, id string) error { return m.Kill(m.background.life, id, "") }, container.Exited, false},
		"rm -f": {func(m *Manager, id string) error {
			return m.Remove(m.background.life, id, container.RemoveOptions{Force: true})
		}, 0, true},
		"remove": {func(m *Manager, id string) error {
			return ignoreEnd(m.Remove(m.background.life, id, container.RemoveOptions{}))
		}, container.Running, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m := w.engine()
				id := w.create(m, "web", always)
				w.must(m.Start(t.Context(), id))
				w.tasks.Task(id).End(task.Exit{Code: 1})
				time.Sleep(50 * time.Millisecond)
				if got := w.state(m, id); got != container.Restarting {
					t.Fatalf("between two runs: %s", got)
				}
				w.must(tc.do(m, id))
				time.Sleep(time.Minute)
				synctest.Wait()
				r, err := m.inventory.Get(id)
				if tc.gone {
					if err == nil {
						t.Errorf("it is still there: %s", r.State)
					}
					return
				}
				w.must(err)
				if r.State != tc.want {
					t.Errorf("a minute later: %s, want %s", r.State, tc.want)
				}
				m.Shutdown(context.WithoutCancel(t.Context()))
			})
		})
	}
}

// TestFailedPolicyRestart: a restart that does not come to a process ends the loop, and says why.
func TestFailedPolicyRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		id := w.create(m, "web", policy("unless-stopped", 0))
		w.must(m.Start(t.Context(), id))
		w.nets.fail = errors.New("port is already allocated")
		w.tasks.Task(id).End(task.Exit{Code: 1})
		time.Sleep(time.Minute)
		synctest.Wait()
		if r, err := m.inventory.Get(id); err != nil || r.State != container.Exited || r.ExitCode != 128 || r.Error == "" {
			t.Errorf("got %s, code %d, error %q", r.State, r.ExitCode, r.Error)
		}
		m.Close()
		w.nets.fail = nil
		second := w.engine() // nobody stopped it
		synctest.Wait()
		if got := w.state(second, id); got != container.Running {
			t.Errorf("with the next engine: %s, want running", got)
		}
		w.must(second.Kill(t.Context(), id, ""))
	})
}
