package lifecycle

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
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

func always(_ *container.Config, host *container.HostConfig) { host.RestartPolicy.Name = "always" }

// TestKillDuringPolicyRestart: the kill finds the container Restarting while its next process is being started.
func TestKillDuringPolicyRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		id := w.create(m, "web", always)
		w.must(m.Start(t.Context(), id))
		killed := make(chan error, 1)
		w.tasks.StartErr = func(task.Spec) error {
			killed <- m.Kill(t.Context(), id, "KILL")
			return nil
		}
		w.tasks.Task(id).End(task.Exit{Code: 1})
		w.must(<-killed)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.state(m, id); got != container.Exited {
			t.Errorf("state: got %s, want exited", got)
		}
		if w.tasks.Task(id) != nil {
			t.Error("the process that was started meanwhile runs on")
		}
		if len(w.layers.mounted) != 0 || len(w.nets.joined) != 0 {
			t.Errorf("left: mounts %v, networks %v", w.layers.mounted, w.nets.joined)
		}
		m.Close()
	})
}

// TestKillOfWhatHasJustEnded: who is told that the container does not run finds it at rest.
func TestKillOfWhatHasJustEnded(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web")
	for range 100 {
		w.must(m.Start(t.Context(), id))
		w.tasks.Task(id).End(task.Exit{})
		err := m.Kill(t.Context(), id, "TERM")
		if got := w.state(m, id); got != container.Exited || err != nil && !fault.Is(err, fault.Conflict) {
			t.Fatalf("kill = %v, and the state is %s, want a conflict if anything, and exited", err, got)
		}
	}
}

// TestKillOfALoopThatHasJustEnded: the process ends by itself just before the signal. The kill keeps the policy from starting
// the next one, so it has done what was asked.
func TestKillOfALoopThatHasJustEnded(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web", always)
	for range 100 {
		w.must(m.Start(t.Context(), id))
		w.tasks.Task(id).End(task.Exit{Code: 1})
		w.must(m.Kill(t.Context(), id, "KILL"))
		if got := w.state(m, id); got != container.Exited {
			t.Fatalf("state: got %s, want exited", got)
		}
	}
}

// TestRemovalDuringTheLastSave: who waits for the end of a process may remove the container while the watcher writes the
// record of that end.
func TestRemovalDuringTheLastSave(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	for range 100 {
		id := w.create(m, "web")
		w.must(m.Start(t.Context(), id))
		w.must(m.Remove(t.Context(), id, container.RemoveOptions{Force: true}))
	}
}

// TestSignalToWhatIsStartedAgain: a signal that is not meant to end the container does not wait for it to come to rest, and
// does not keep its policy from starting it again, whether it comes before the end is known or after.
func TestSignalToWhatIsStartedAgain(t *testing.T) {
	for _, tc := range []struct {
		name  string
		known bool
	}{{"the end is not known yet", false}, {"it waits for its restart", true}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m := w.engine()
				id := w.create(m, "web", always)
				w.must(m.Start(t.Context(), id))
				w.tasks.Task(id).End(task.Exit{Code: 1})
				if tc.known {
					synctest.Wait()
				}
				began := time.Now()
				err := m.Kill(t.Context(), id, "HUP")
				if took := time.Since(began); took > 0 || err != nil && !fault.Is(err, fault.Conflict) {
					t.Errorf("kill = %v after %s, want an answer at once", err, took)
				}
				time.Sleep(time.Second)
				if got := w.state(m, id); got != container.Running {
					t.Errorf("state: got %s, want running again", got)
				}
				w.must(m.Kill(t.Context(), id, "KILL"))
				m.Close()
			})
		})
	}
}

func TestRenameAfterRemove(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "old")
	c, err := m.index.find(id)
	w.must(err)
	w.must(c.acquire(t.Context()))
	renamed := make(chan error, 1)
	go func() { renamed <- m.Rename(t.Context(), id, "new") }()
	w.must(m.remover.removeContainer(t.Context(), c))
	c.release()
	if err := <-renamed; !fault.Is(err, fault.NotFound) {
		t.Errorf("rename of a container that was removed meanwhile: got %v, want not found", err)
	}
	w.create(m, "new")
	w.create(m, "old")
}

// TestAttachDuringStart: the viewers that waited are joined already, the container is not yet Running.
func TestAttachDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		id := w.create(m, "web")
		client, server := newWire(strings.NewReader(""))
		attached := make(chan error, 1)
		w.tasks.StartErr = func(task.Spec) error {
			go func() {
				attached <- m.viewers.Attach(context.WithoutCancel(t.Context()), id, container.AttachOptions{Stream: true, Stdout: true},
					func() (io.ReadWriteCloser, error) { return server, nil })
			}()
			synctest.Wait()
			return nil
		}
		w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int {
			io.WriteString(p.Stdout, "hello\n") //nolint:errcheck // read below
			return 0
		}
		w.must(m.Start(t.Context(), id))
		got, err := io.ReadAll(client)
		if err != nil || !strings.Contains(string(got), "hello") {
			t.Errorf("viewer got %q, %v; want what the process wrote", got, err)
		}
		w.must(<-attached)
		m.Close()
	})
}

// TestAttachDuringRemoval: who attaches while a removal is at work is not left waiting for a start that never comes.
func TestAttachDuringRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		c := w.beginRemoval(m, "web")
		c.dropViewers() // remove has come so far
		_, server := newWire(strings.NewReader(""))
		attached := make(chan error, 1)
		go func() {
			attached <- m.viewers.Attach(t.Context(), c.id, container.AttachOptions{Stream: true, Stdout: true},
				func() (io.ReadWriteCloser, error) { return server, nil })
		}()
		synctest.Wait()
		select {
		case err := <-attached:
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("attach: got %v, want not found", err)
			}
		default:
			t.Error("the viewer waits for a start that will not come")
			c.dropViewers()
			w.must(<-attached)
		}
		m.Close()
	})
}

// TestAttachAtTheVeryEnd: the process has ended and the state does not say so yet. Clients look at it before they attach, and
// take the container for one that runs. They look again at the end of the view, and find it ended.
func TestAttachAtTheVeryEnd(t *testing.T) {
	for _, tc := range []struct {
		name     string
		released bool // the task is given back already
	}{{"ended", false}, {"released", true}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m := w.engine()
				id := w.create(m, "web")
				w.must(m.Start(t.Context(), id))
				c, err := m.index.find(id)
				w.must(err)
				lived := w.tasks.Task(id)
				w.nets.leave = make(chan struct{}) // keeps the exit from being recorded
				lived.End(task.Exit{Code: 3})
				if tc.released {
					synctest.Wait()
					c.setTask(nil)
				}
				client, server := newWire(strings.NewReader(""))
				attached := make(chan error, 1)
				go func() {
					attached <- m.viewers.Attach(t.Context(), id, container.AttachOptions{Stream: true, Stdout: true},
						func() (io.ReadWriteCloser, error) { return server, nil })
				}()
				seen := seeEnd(m, id, client)
				synctest.Wait()
				close(w.nets.leave)
				if got, want := <-seen, "exited 3 after \"\""; got != want {
					t.Errorf("viewer sees %s, want %s", got, want)
				}
				w.must(<-attached)
				m.Close()
			})
		})
	}
}

// TestShutdownMeetsStart: a start under way when the engine ends is finished and stopped, a later one is refused.
func TestShutdownMeetsStart(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id, late := w.create(m, "web"), w.create(m, "late")
	down := make(chan struct{})
	w.tasks.StartErr = func(task.Spec) error {
		go func() { m.Shutdown(context.WithoutCancel(t.Context())); close(down) }()
		for m.starting.TryRLock() { // until the shutdown waits for this start
			m.starting.RUnlock()
			runtime.Gosched()
		}
		return nil
	}
	w.must(m.Start(t.Context(), id))
	<-down
	if got := w.state(m, id); got != container.Exited {
		t.Errorf("state after the shutdown: got %s, want exited", got)
	}
	w.tasks.StartErr = nil
	if err := m.Start(t.Context(), late); !fault.Is(err, fault.Unavailable) {
		t.Errorf("start after the shutdown: got %v, want unavailable", err)
	}
	if got := w.state(m, late); got != container.Created {
		t.Errorf("state of the refused one: got %s, want created", got)
	}
}

// slowDeath is a runner whose processes take a while to end, as real ones do.
type slowDeath struct{ task.Runner }

func (s slowDeath) Adopt(ctx context.Context, id, dir string) (task.Task, error) {
	t, err := s.Runner.Adopt(ctx, id, dir)
	return slowTask{t}, err
}

type slowTask struct{ task.Task }

func (s slowTask) Signal(ctx context.Context, signal int) error {
	time.AfterFunc(100*time.Millisecond, func() { s.Task.Signal(ctx, signal) }) //nolint:errcheck // it ends or the test fails
	return nil
}

// TestOrphanTaskEnds: a task whose container is gone ends with all it holds.
func TestOrphanTaskEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		id := w.create(m, "web")
		w.must(m.Start(t.Context(), id))
		dir := m.folders.taskDir(id)
		m.Close()
		m.leftovers.tasks = slowDeath{w.tasks}
		w.must(m.leftovers.endOrphan(t.Context(), id, m.leftovers.findTask(t.Context(), id)))
		if w.tasks.Task(id) != nil {
			t.Error("the task is still there")
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("task folder: got %v, want none", err)
		}
		time.Sleep(time.Second)
	})
}

// TestEndedContainerWantsNoNetwork: the host ports of a container that ended without an engine may be taken by now.
func TestEndedContainerWantsNoNetwork(t *testing.T) {
	w := newWorld(t)
	first := w.engine()
	id, runs := w.create(first, "web"), w.create(first, "db")
	w.must(first.Start(t.Context(), id))
	w.must(first.Start(t.Context(), runs))
	first.Close()
	w.tasks.Task(id).End(task.Exit{Code: 3})
	m := w.engine()
	if len(w.nets.asked) != 1 || w.nets.asked[0] != runs {
		t.Errorf("networks asked for: %q, want that of the running container %s only", w.nets.asked, runs)
	}
	if code, err := m.inventory.Wait(t.Context(), id); code != 3 || err != nil {
		t.Errorf("Wait = %d, %v, want 3", code, err)
	}
	w.must(m.Kill(t.Context(), runs, "KILL"))
}

// unadoptable is a runner that cannot tell what has become of one task.
type unadoptable struct {
	task.Runner
	id string
}

func (u unadoptable) Adopt(ctx context.Context, id, dir string) (task.Task, error) {
	t, err := u.Runner.Adopt(ctx, id, dir)
	if id == u.id {
		err = errors.Join(err, errors.New("too many open files"))
	}
	return t, err
}

// TestTroubleOfOneContainer: neither a task that cannot be taken over nor a network keeps the engine from starting.
func TestTroubleOfOneContainer(t *testing.T) {
	w := newWorld(t)
	first := w.engine()
	id, other := w.create(first, "web"), w.create(first, "db")
	w.must(first.Start(t.Context(), id))
	w.must(first.Start(t.Context(), other))
	first.Close()
	w.nets.fail = errors.New("address already in use")
	opt := first.opt
	opt.Tasks = unadoptable{w.tasks, id}
	m, err := New(t.Context(), opt)
	w.must(err)
	m.Run()
	t.Cleanup(m.Close)
	for _, id := range []string{id, other} { // an error tells nothing of the container: its process may run
		if got := w.state(m, id); got != container.Running || len(w.tasks.Task(id).Signals()) != 0 {
			t.Errorf("state %s, signals %v; want it running, left alone", got, w.tasks.Task(id).Signals())
		}
		w.must(m.Kill(t.Context(), id, "KILL"))
	}
}

// TestStopMeetsPolicyRestart: the process ends by itself just before the stop signals it. Its policy does not restart it.
func TestStopMeetsPolicyRestart(t *testing.T) {
	for name, patience := range map[string]time.Duration{"stop": 10 * time.Second, "kill": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m := w.engine()
				id := w.create(m, "web", always)
				w.must(m.Start(t.Context(), id))
				c, err := m.index.find(id)
				w.must(err)
				w.must(c.acquire(t.Context()))
				asked, err := m.lives.applyEvent(c, life.EndAsked{Op: container.OpStop})
				w.must(err)
				w.tasks.Task(id).End(task.Exit{Code: 1})
				synctest.Wait()
				begun := time.Now()
				w.must(m.stopper.endProcess(t.Context(), c, asked, ending{int(unix.SIGTERM), patience}))
				c.release()
				if got := c.record(); got.State != container.Exited || time.Since(begun) > 0 {
					t.Errorf("got %s after %s, want exited at once", got.State, time.Since(begun))
				}
				time.Sleep(time.Minute)
				if got := w.state(m, id); got != container.Exited {
					t.Errorf("a minute later: got %s, want exited", got)
				}
				m.Close()
			})
		})
	}
}
