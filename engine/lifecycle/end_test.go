package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

// view attaches a client that sends nothing and returns what it is shown.
func (w *world) view(m *Manager, ref string, opt container.AttachOptions) (client *io.PipeReader, attached <-chan error) {
	client, server := newWire(strings.NewReader(""))
	over := make(chan error, 1)
	ctx := w.t.Context()
	go func() {
		over <- m.viewers.Attach(ctx, ref, opt, func() (io.ReadWriteCloser, error) { return server, nil })
	}()
	return client, over
}

// seeEnd reads a view to its end and tells what the container is then.
func seeEnd(m *Manager, ref string, client io.Reader) <-chan string {
	seen := make(chan string, 1)
	go func() {
		out, err := io.ReadAll(client)
		r, missing := m.inventory.Get(ref)
		if err = errors.Join(err, missing); err != nil {
			seen <- err.Error()
			return
		}
		seen <- fmt.Sprintf("%s %d after %q", r.State, r.ExitCode, out)
	}()
	return seen
}

// TestEndOfView: a client that has read to the end of a view finds the end of the container.
func TestEndOfView(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before bool // it attaches before the start
		logs   bool // it asks for the log as well
		policy string
		want   string
	}{
		{"attached before the start", true, false, "", `exited 7 after ""`},
		{"attached while it runs", false, false, "", `exited 7 after ""`},
		{"with the log", false, true, "", `exited 7 after ""`},
		{"with a restart policy", false, false, "always", `restarting 7 after ""`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m := w.engine()
				id := w.create(m, "web", policy(tc.policy, 0))
				if !tc.before {
					w.must(m.Start(t.Context(), id))
				}
				client, attached := w.view(m, id, container.AttachOptions{Stream: true, Stdout: true, Logs: tc.logs})
				synctest.Wait()
				if tc.before {
					w.must(m.Start(t.Context(), id))
				}
				w.nets.leave = make(chan struct{}) // keeps the exit from being recorded
				w.tasks.Task(id).End(task.Exit{Code: 7})
				seen := seeEnd(m, id, client)
				synctest.Wait()
				if len(seen) != 0 {
					t.Error("the view ends before the end is recorded")
				}
				close(w.nets.leave)
				if got := <-seen; got != tc.want {
					t.Errorf("client sees %s, want %s", got, tc.want)
				}
				w.must(<-attached)
				m.Close()
			})
		})
	}
}

// TestEndOfViewOfFailedStart: the view of a client that attached before a start that fails ends once the failure is recorded.
func TestEndOfViewOfFailedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tasks.StartErr = func(task.Spec) error { return fault.NotFound("no such command") }
		m := w.engine()
		id := w.create(m, "web")
		client, attached := w.view(m, id, container.AttachOptions{Stream: true, Stdout: true})
		seen := seeEnd(m, id, client)
		synctest.Wait()
		if err := m.Start(t.Context(), id); !fault.Is(err, fault.NotFound) {
			t.Errorf("Start = %v, want not found", err)
		}
		if got, want := <-seen, `created 127 after ""`; got != want {
			t.Errorf("client sees %s, want %s", got, want)
		}
		w.must(<-attached)
		if code, err := m.inventory.Wait(t.Context(), id); code != 127 || err != nil {
			t.Errorf("Wait after a failed start = %d, %v, want 127", code, err)
		}
		m.Close()
	})
}

// TestEndOfViewBeforeTheEnd: a view that ends while the process lives on holds nobody up, nor does one of a closed engine.
func TestEndOfViewBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		id := w.create(m, "web")
		w.must(m.Start(t.Context(), id))
		c, err := m.index.find(id)
		w.must(err)
		now := run{w.tasks.Task(id), c.nextEnd()}
		c.update(func(r *container.Record) { r.Pid, r.PidStart = 0, 0 })
		over := make(chan struct{})
		go func() { m.viewers.awaitEnd(context.WithoutCancel(t.Context()), c, now); close(over) }()
		synctest.Wait()
		select {
		case <-over:
			t.Error("the end of a process that cannot be found is not waited for")
		default:
		}
		m.Close()
		<-over

		self := identifyProcess(os.Getpid())
		c.update(func(r *container.Record) { r.Pid, r.PidStart = self.Pid, self.Start })
		m.viewers.closing = nil
		m.viewers.awaitEnd(t.Context(), c, now)
		if got := now.task.(*tasktest.FakeTask).Signals(); len(got) != 0 {
			t.Errorf("process got signals %v", got)
		}
		w.tasks.Task(id).End(task.Exit{})
	})
}

// TestWaitUnderRestartPolicy: whoever waits hears of each end, also when the policy restarts the container.
func TestWaitUnderRestartPolicy(t *testing.T) {
	for _, name := range []string{"always", "unless-stopped", "on-failure"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				codes := make(chan int)
				w.tasks.Script = func(_ task.Spec, p *tasktest.Proc) int {
					select {
					case code := <-codes:
						return code
					case <-p.Done:
						return 0
					}
				}
				m := w.engine()
				id := w.create(m, "web", policy(name, 0))
				w.must(m.Start(t.Context(), id))
				wait := func() <-chan string {
					heard := make(chan string, 1)
					go func() {
						code, err := m.inventory.Wait(t.Context(), id)
						heard <- fmt.Sprint(code, err)
					}()
					synctest.Wait()
					return heard
				}
				first := wait()
				codes <- 3
				if got := <-first; got != "3 <nil>" {
					t.Errorf("Wait while it runs = %s, want 3", got)
				}
				if got := w.state(m, id); got != container.Restarting {
					t.Fatalf("state %s, want restarting", got)
				}
				second := wait() // between two runs
				codes <- 4
				if got := <-second; got != "4 <nil>" {
					t.Errorf("Wait between two runs = %s, want 4", got)
				}
				third := wait()
				w.must(m.Stop(t.Context(), id, container.StopOptions{}))
				if got := <-third; got != "4 <nil>" {
					t.Errorf("Wait of a stop between two runs = %s, want the last code", got)
				}
				if got := <-wait(); got != "4 <nil>" {
					t.Errorf("Wait at rest = %s, want 4", got)
				}
				time.Sleep(time.Minute)
				m.Close()
			})
		})
	}
}

// TestHalfCloseOnTerminal: the end of a client's input ends its view of a terminal, and no other.
func TestHalfCloseOnTerminal(t *testing.T) {
	for _, tc := range []struct {
		name             string
		tty, open, stdin bool
		ends             bool
	}{
		{"terminal", true, true, true, true},
		{"terminal without its input", true, true, false, false},
		{"terminal that takes no input", true, false, true, false},
		{"pipes", false, true, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				m := w.engine()
				id := w.create(m, "web", func(c *container.Config, _ *container.HostConfig) { c.Tty, c.OpenStdin = tc.tty, tc.open })
				w.must(m.Start(t.Context(), id))
				client, attached := w.view(m, id, container.AttachOptions{Stream: true, Stdin: tc.stdin, Stdout: true})
				seen := seeEnd(m, id, client)
				synctest.Wait()
				select {
				case got := <-seen:
					if want := `running 0 after ""`; !tc.ends || got != want {
						t.Errorf("client sees %s", got)
					}
				default:
					if tc.ends {
						t.Error("the view goes on")
					}
				}
				w.must(m.Kill(t.Context(), id, ""))
				w.must(<-attached)
				m.Close()
			})
		})
	}
}
