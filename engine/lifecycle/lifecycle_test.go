package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
	"moss/engine/stdio"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

func TestWholeLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tasks.Script = func(task.Spec, *tasktest.Proc) int { return 3 }
		m := w.engine()
		id := w.create(m, "web")
		if code, err := m.inventory.Wait(t.Context(), "web"); code != 0 || err != nil {
			t.Errorf("Wait before the start = %d, %v, want 0 at once", code, err)
		}
		w.must(m.Start(t.Context(), id[:12]))
		code, err := m.inventory.Wait(t.Context(), "/web")
		if code != 3 || err != nil {
			t.Errorf("Wait = %d, %v, want 3", code, err)
		}
		r, err := m.inventory.Get("web")
		w.must(err)
		if r.State != container.Exited || r.ExitCode != 3 || r.Pid != 0 || r.FinishedAt.IsZero() {
			t.Errorf("record after the exit = %+v", r)
		}
		if len(w.nets.joined) != 0 || len(w.layers.mounted) != 0 || w.tasks.Task(id) != nil {
			t.Errorf("left after the exit: networks %v, mounts %v", w.nets.joined, w.layers.mounted)
		}
		gone := false
		w.must(m.Remove(t.Context(), "web", container.RemoveOptions{Gone: func() {
			gone = true
			if _, told := w.log.last("destroy"); told {
				t.Error("destroy was published before the caller knew")
			}
		}}))
		if _, err := m.inventory.Get(id); !fault.Is(err, fault.NotFound) || !gone {
			t.Errorf("Get after the removal: %v, want not found; the caller was told: %v", err, gone)
		}
		left, err := os.ReadDir(filepath.Join(w.root, "containers"))
		w.must(err)
		if len(left) != 0 || len(w.layers.made) != 0 {
			t.Errorf("left after the removal: folders %v, layers %v", left, w.layers.made)
		}
		want := []string{"create", "start", "die", "destroy"}
		if got := w.log.actions(); !slices.Equal(got, want) {
			t.Errorf("events = %q, want %q", got, want)
		}
		if e, _ := w.log.last("die"); e.Attributes["exitCode"] != "3" || e.Attributes["name"] != "web" {
			t.Errorf("die attributes = %v", e.Attributes)
		}
	})
}

func TestCreateRefusals(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	w.create(m, "taken")
	for _, tc := range []struct {
		name  string
		as    string
		cfg   container.Config
		host  container.HostConfig
		kind  fault.Constructor
		words string
	}{
		{"name taken", "taken", container.Config{Image: "busybox"}, container.HostConfig{}, fault.Conflict, `"/taken" is already in use`},
		{"no image", "a1", container.Config{Image: "nope"}, container.HostConfig{}, fault.NotFound, "No such image: nope:latest"},
		{"bad name", "a b", container.Config{Image: "busybox"}, container.HostConfig{}, fault.Invalid, "Invalid container name"},
		{"other runtime", "a2", container.Config{Image: "busybox"}, container.HostConfig{Runtime: "runc"}, fault.Invalid, "runc"},
		{"bad weight", "a3", container.Config{Image: "busybox"}, container.HostConfig{BlkioWeight: 5}, fault.Invalid, "BlkioWeight"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := m.Create(t.Context(), tc.as, tc.cfg, tc.host, nil)
			if !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.words) {
				t.Errorf("Create error = %v, want one that says %q", err, tc.words)
			}
		})
	}
	if n := len(w.layers.made); n != 1 {
		t.Errorf("%d layers after refused creates, want 1", n)
	}
}

func TestCreateUndoesAHalf(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	other := w.create(m, "other")
	w.layers.fail = map[string]error{"create": errors.New("no space left on device")}
	if _, _, err := m.Create(t.Context(), "web", container.Config{Image: "busybox"}, container.HostConfig{}, nil); err == nil ||
		!strings.Contains(err.Error(), "no space left") {
		t.Errorf("Create on a full disk: %v", err)
	}
	w.layers.fail = nil
	left, err := os.ReadDir(filepath.Join(w.root, "containers"))
	w.must(err)
	if len(left) != 1 || left[0].Name() != other {
		t.Errorf("folders after a failed create: %v, want only that of the other container", left)
	}
	w.create(m, "web") // the name is free again
}

func TestStartUndoesAHalf(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(w *world)
		code  int
	}{
		{"network", func(w *world) { w.nets.fail = errors.New("port is already allocated") }, 128},
		{"mount", func(w *world) { w.layers.fail = map[string]error{"mount": errors.New("no")} }, 128},
		{"monitor", func(w *world) { w.tasks.PrepareErr = func(task.Spec) error { return errors.New("no") } }, 128},
		{"command missing", func(w *world) { w.tasks.StartErr = func(task.Spec) error { return fault.NotFound("exec: nope") } }, 127},
		{"not executable", func(w *world) { w.tasks.StartErr = func(task.Spec) error { return fault.Forbidden("exec: nope") } }, 126},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			m := w.engine()
			id := w.create(m, "web")
			tc.spoil(w)
			if err := m.Start(t.Context(), "web"); err == nil || fault.Is(err, fault.Forbidden) {
				t.Errorf("Start error = %v", err)
			}
			r, err := m.inventory.Get("web")
			w.must(err)
			if r.State != container.Created || r.ExitCode != tc.code || r.Error == "" {
				t.Errorf("record after a failed start: state %s, code %d, error %q; want created, %d", r.State, r.ExitCode, r.Error, tc.code)
			}
			if code, err := m.inventory.Wait(t.Context(), "web"); code != tc.code || err != nil {
				t.Errorf("Wait = %d, %v, want %d", code, err, tc.code)
			}
			if len(w.nets.joined)+len(w.layers.mounted) != 0 || w.tasks.Task(id) != nil {
				t.Errorf("left after a failed start: %v %v", w.nets.joined, w.layers.mounted)
			}
			if _, ok := w.log.last("die"); !ok {
				t.Error("no die event: clients that wait for the end would hang")
			}
		})
	}
}

func TestStopSignalsThenKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int { <-p.Done; return 0 } // deaf
		m := w.engine()
		id := w.create(m, "web", func(c *container.Config, _ *container.HostConfig) { c.StopSignal = "SIGINT" })
		w.must(m.Start(t.Context(), "web"))
		fake := w.tasks.Task(id)
		patience := 3 * time.Second
		began := time.Now()
		w.must(m.Stop(t.Context(), "web", container.StopOptions{Timeout: &patience}))
		if took := time.Since(began); took != patience {
			t.Errorf("Stop took %s, want %s", took, patience)
		}
		if got := fake.Signals(); !slices.Equal(got, []int{2, 9}) {
			t.Errorf("signals = %v, want SIGINT then SIGKILL", got)
		}
		if err := m.Stop(t.Context(), "web", container.StopOptions{}); !fault.Is(err, fault.NotModified) {
			t.Errorf("second Stop = %v, want not modified", err)
		}
		w.must(m.Start(t.Context(), "web"))
		fake = w.tasks.Task(id)
		if err := m.Stop(t.Context(), "web", container.StopOptions{Signal: "SIGNONE"}); !fault.Is(err, fault.Invalid) || len(fake.Signals()) != 0 {
			t.Errorf("Stop with a signal that is none = %v with signals %v, want invalid and none", err, fake.Signals())
		}
		w.must(m.Restart(t.Context(), "web", container.StopOptions{Timeout: &patience, Signal: "USR1"}))
		if got := fake.Signals(); !slices.Equal(got, []int{10, 9}) {
			t.Errorf("signals = %v, want SIGUSR1 then SIGKILL", got)
		}
		w.must(m.Stop(t.Context(), "web", container.StopOptions{Timeout: new(time.Duration)}))
		if err := m.Kill(t.Context(), "web", ""); !fault.Is(err, fault.Conflict) {
			t.Errorf("Kill of a stopped container = %v, want a conflict", err)
		}
	})
}

// TestAnEndInLessTimeDoesNotWaitForALongStop: a stop or restart that gives less time than the stop under way, and a forced removal.
func TestAnEndInLessTimeDoesNotWaitForALongStop(t *testing.T) {
	soon := 2 * time.Second
	stop := func(ctx context.Context, m *Manager) error {
		if err := m.Stop(ctx, "web", container.StopOptions{Timeout: &soon}); !fault.Is(err, fault.NotModified) {
			return fmt.Errorf("stop: %w, want not modified", err)
		}
		return nil
	}
	restart := func(ctx context.Context, m *Manager) error {
		return errors.Join(m.Restart(ctx, "web", container.StopOptions{Timeout: &soon}), m.Kill(ctx, "web", ""))
	}
	remove := func(ctx context.Context, m *Manager) error {
		return m.Remove(ctx, "web", container.RemoveOptions{Force: true})
	}
	for _, tc := range []struct {
		name     string
		patience time.Duration // of the stop under way
		end      func(ctx context.Context, m *Manager) error
		want     time.Duration
	}{
		{"a stop beside a long one", time.Hour, stop, soon},
		{"a stop beside one without end", -1, stop, soon},
		{"a restart beside one without end", -1, restart, soon},
		{"a removal beside a long one", time.Hour, remove, 0},
		{"a removal beside one without end", -1, remove, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int { <-p.Done; return 0 } // deaf
				m := w.engine()
				id := w.create(m, "web")
				w.must(m.Start(t.Context(), "web"))
				fake := w.tasks.Task(id)
				stopped := make(chan error, 1)
				go func() { stopped <- m.Stop(t.Context(), "web", container.StopOptions{Timeout: &tc.patience}) }()
				synctest.Wait()
				began := time.Now()
				w.must(tc.end(t.Context(), m))
				if took := time.Since(began); took != tc.want {
					t.Errorf("it took %s, want %s", took, tc.want)
				}
				w.must(<-stopped)
				if got := fake.Signals(); !slices.Equal(got, []int{15, 9}) {
					t.Errorf("signals = %v, want SIGTERM and SIGKILL", got)
				}
			})
		})
	}
}

func TestReadersAnswerDuringAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int { <-p.Done; return 0 }
		m := w.engine()
		w.create(m, "web")
		w.must(m.Start(t.Context(), "web"))
		minute := time.Minute
		stopped := make(chan error, 1)
		go func() { stopped <- m.Stop(t.Context(), "web", container.StopOptions{Timeout: &minute}) }()
		synctest.Wait()
		began := time.Now()
		if got := w.state(m, "web"); got != container.Running {
			t.Errorf("state during a stop = %s", got)
		}
		w.must(m.Kill(t.Context(), "web", "KILL"))
		if took := time.Since(began); took != 0 {
			t.Errorf("inspect and kill waited %s for a stop", took)
		}
		w.must(<-stopped)
	})
}

func TestRemoveRefusesAndForces(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	w.create(m, "web")
	w.must(m.Start(t.Context(), "web"))
	if err := m.Remove(t.Context(), "web", container.RemoveOptions{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("Remove of a running container = %v, want a conflict", err)
	}
	w.must(m.Remove(t.Context(), "web", container.RemoveOptions{Force: true}))
	if list, err := m.inventory.List(t.Context(), container.ListOptions{All: true}); err != nil || len(list) != 0 {
		t.Errorf("list after a forced removal = %v, %v", list, err)
	}
}

func TestFailedRemovalIsDeadAndCanBeRepeated(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	w.create(m, "web")
	w.layers.fail = map[string]error{"remove": errors.New("device busy")}
	if err := m.Remove(t.Context(), "web", container.RemoveOptions{}); err == nil {
		t.Error("Remove with a busy layer succeeded")
	}
	if got := w.state(m, "web"); got != container.Dead {
		t.Errorf("state after a failed removal = %s, want dead", got)
	}
	w.layers.fail = nil
	w.must(m.Remove(t.Context(), "web", container.RemoveOptions{}))
}

func TestRestartPolicies(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy container.RestartPolicy
		code   int
		runs   int
	}{
		{"none", container.RestartPolicy{}, 1, 1},
		{"on-failure gives up", container.RestartPolicy{Name: "on-failure", MaximumRetryCount: 2}, 1, 3},
		{"on-failure after success", container.RestartPolicy{Name: "on-failure"}, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				runs := make(chan time.Time, 10)
				w.tasks.Script = func(task.Spec, *tasktest.Proc) int { runs <- time.Now(); return tc.code }
				m := w.engine()
				w.create(m, "web", func(_ *container.Config, h *container.HostConfig) { h.RestartPolicy = tc.policy })
				w.must(m.Start(t.Context(), "web"))
				code, err := m.inventory.Wait(t.Context(), "web")
				if code != tc.code || err != nil {
					t.Errorf("Wait = %d, %v", code, err)
				}
				time.Sleep(time.Minute) // for every restart there is
				synctest.Wait()
				if got := w.state(m, "web"); got != container.Exited {
					t.Errorf("state = %s, want exited", got)
				}
				if len(runs) != tc.runs {
					t.Fatalf("%d runs, want %d", len(runs), tc.runs)
				}
				last := <-runs
				for delay := life.FirstDelay; len(runs) > 0; delay *= 2 {
					next := <-runs
					if got := next.Sub(last); got != delay {
						t.Errorf("delay = %s, want %s", got, delay)
					}
					last = next
				}
			})
		})
	}
}

func TestStopEndsARestartLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tasks.Script = func(task.Spec, *tasktest.Proc) int { return 1 }
		m := w.engine()
		w.create(m, "web", func(_ *container.Config, h *container.HostConfig) { h.RestartPolicy.Name = "always" })
		w.must(m.Start(t.Context(), "web"))
		time.Sleep(50 * time.Millisecond)
		if got := w.state(m, "web"); got != container.Restarting {
			t.Fatalf("state between two runs = %s, want restarting", got)
		}
		w.must(m.Stop(t.Context(), "web", container.StopOptions{}))
		time.Sleep(time.Minute)
		if got := w.state(m, "web"); got != container.Exited {
			t.Errorf("state after a stop = %s, want exited", got)
		}
	})
}

func TestAttachBeforeStartSeesEveryByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int {
			io.Copy(p.Stdout, p.Stdin) //nolint:errcheck // the test looks at what arrives
			return 0
		}
		m := w.engine()
		w.create(m, "cat", func(c *container.Config, _ *container.HostConfig) { c.OpenStdin, c.StdinOnce = true, true })
		client, server := newWire(strings.NewReader("hello"))
		attached := make(chan error, 1)
		go func() {
			attached <- m.viewers.Attach(t.Context(), "cat", container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true},
				func() (io.ReadWriteCloser, error) { return server, nil })
		}()
		synctest.Wait()
		w.must(m.Start(t.Context(), "cat"))
		var out strings.Builder
		if err := stdio.Demux(client, &out, io.Discard); err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("Demux: %v", err)
		}
		if out.String() != "hello" {
			t.Errorf("output = %q, want %q", out.String(), "hello")
		}
		w.must(<-attached)
	})
}

func TestRemovalEndsWaitingViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		w.create(m, "web")
		_, server := newWire(strings.NewReader(""))
		attached := make(chan error, 1)
		go func() {
			attached <- m.viewers.Attach(t.Context(), "web", container.AttachOptions{Stream: true, Stdout: true},
				func() (io.ReadWriteCloser, error) { return server, nil })
		}()
		synctest.Wait()
		w.must(m.Remove(t.Context(), "web", container.RemoveOptions{}))
		w.must(<-attached)
		<-server.closed
	})
}

func TestAutoRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tasks.Script = func(task.Spec, *tasktest.Proc) int { return 7 }
		m := w.engine()
		w.create(m, "once", func(_ *container.Config, h *container.HostConfig) { h.AutoRemove = true })
		w.must(m.Start(t.Context(), "once"))
		synctest.Wait()
		if _, err := m.inventory.Get("once"); !fault.Is(err, fault.NotFound) {
			t.Errorf("container is still there: %v", err)
		}
	})
}

func TestReconfigure(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web")
	w.must(m.Reconfigure(t.Context(), "web", container.HostConfig{Binds: []string{"/srv:/data:ro"}, LogConfig: container.LogConfig{Type: "none"}}))
	again := w.engine() // what was saved counts
	r, err := again.inventory.Get(id)
	w.must(err)
	if len(r.Mounts) != 1 || r.Mounts[0].Destination != "/data" || r.LogPath != "" {
		t.Errorf("after Reconfigure: mounts %+v, log %q, want /data and none", r.Mounts, r.LogPath)
	}
	if err := again.Reconfigure(t.Context(), "web", container.HostConfig{BlkioWeight: 5}); !fault.Is(err, fault.Invalid) {
		t.Errorf("Reconfigure with a bad weight: %v, want invalid", err)
	}
	w.must(again.Start(t.Context(), "web"))
	w.must(again.Reconfigure(t.Context(), "web", container.HostConfig{}))
	if r, err := again.inventory.Get(id); err != nil || len(r.Mounts) != 1 {
		t.Errorf("a running container was changed: %+v, %v", r.Mounts, err)
	}
	w.must(again.Kill(t.Context(), "web", ""))
}
