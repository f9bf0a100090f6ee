package exec

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

func TestCommandThatCannotRun(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		code int
	}{
		{"missing", fault.NotFound("no such file: nope"), 127},
		{"not executable", fault.Forbidden("permission denied: nope"), 126},
		{"runtime", errors.New("the runtime says no: nope"), 126},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.ExecStartErr = func(task.Spec, task.ExecSpec) error { return tc.err }
			s := w.service()
			attached := mustCreate(t, s, Config{AttachStdout: true})
			c := newConn("")
			if err := s.Start(t.Context(), attached, StartOptions{}, c.open); err != nil || !strings.Contains(c.got.String(), "nope\n") {
				t.Errorf("attached Start = %v, client got %q, want the reason in the stream", err, c.got.String())
			}
			detached := mustCreate(t, s, Config{})
			err := s.Start(t.Context(), detached, StartOptions{Detach: true}, nil)
			if err == nil || fault.Is(err, fault.NotFound) || tc.code != 126 && !fault.Is(err, fault.Invalid) {
				t.Errorf("detached Start = %v, want an invalid fault", err)
			}
			for _, execID := range []string{attached, detached} {
				if info, err := s.Inspect(execID); err != nil || info.ExitCode == nil || *info.ExitCode != tc.code {
					t.Errorf("Inspect = %+v, %v, want exit code %d", info, err, tc.code)
				}
			}
			if n := len(w.task.(*tasktest.FakeTask).Execs()); n != 0 {
				t.Errorf("%d processes are left of it", n)
			}
		})
	}
}

// TestRunsFromTheAnswerOn: a client that asks for the exit code until the instance does not run any more begins with the
// answer to its start, and would take an instance that does not run yet for one that has ended.
func TestRunsFromTheAnswerOn(t *testing.T) {
	w := newWorld(t)
	s := w.service()
	execID := mustCreate(t, s, Config{Cmd: []string{"x"}, AttachStdin: true, AttachStdout: true, Tty: true, DetachKeys: "a,b"})
	c := newConn("ab")
	err := s.Start(t.Context(), execID, StartOptions{Raw: true}, func() (io.ReadWriteCloser, error) {
		info, err := s.Inspect(execID)
		if err != nil || !info.Running || info.ExitCode != nil {
			t.Errorf("Inspect when the client is answered = %+v, %v, want it to run", info, err)
		}
		return c.open()
	})
	if err != nil {
		t.Fatal(err)
	}
	if !c.opened {
		t.Error("the client was not answered")
	}
}

func TestDetachKeys(t *testing.T) {
	w := newWorld(t)
	s := w.service()
	execID := mustCreate(t, s, Config{AttachStdin: true, AttachStdout: true, Tty: true, DetachKeys: "a,b"})
	if err := s.Start(t.Context(), execID, StartOptions{Raw: true}, newConn("xab").open); err != nil {
		t.Fatal(err)
	}
	if info, err := s.Inspect(execID); err != nil || !info.Running || info.Pid == 0 {
		t.Errorf("Inspect after detaching = %+v, %v, want it to run on", info, err)
	}
	if !strings.HasSuffix(w.said(), "; exec_detach") {
		t.Errorf("events = %q, want exec_detach last", w.said())
	}
}

func TestResize(t *testing.T) {
	w := newWorld(t)
	s := w.service()
	plain, terminal := mustCreate(t, s, Config{}), mustCreate(t, s, Config{Tty: true})
	if err := s.Resize(t.Context(), "nope", 1, 1); !fault.Is(err, fault.NotFound) {
		t.Errorf("Resize of nothing = %v, want not found", err)
	}
	if err := s.Resize(t.Context(), plain, 1, 1); !fault.Is(err, fault.Conflict) {
		t.Errorf("Resize without a terminal = %v, want a conflict", err)
	}
	if err := s.Resize(t.Context(), terminal, 90, 40); err != nil {
		t.Errorf("Resize before the start = %v", err)
	}
	if err := s.Start(t.Context(), terminal, StartOptions{Detach: true}, nil); err != nil {
		t.Fatal(err)
	}
	process := w.task.(*tasktest.FakeTask).Execs()[0]
	if spec := process.ExecSpec(); spec.Width != 90 || spec.Height != 40 {
		t.Errorf("first size = %dx%d, want 90x40", spec.Width, spec.Height)
	}
	if err := s.Resize(t.Context(), terminal, 100, 50); err != nil {
		t.Errorf("Resize = %v", err)
	}
	if width, height := process.Size(); width != 100 || height != 50 {
		t.Errorf("size = %dx%d, want 100x50", width, height)
	}
	process.End(task.Exit{})
	in, err := s.findInstance(terminal)
	if err != nil {
		t.Fatal(err)
	}
	<-in.done
	if err := s.Resize(t.Context(), terminal, 1, 1); !fault.Is(err, fault.Conflict) {
		t.Errorf("Resize after the end = %v, want a conflict", err)
	}
}

func TestInstancesGoWithTheirContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		pending, begun := mustCreate(t, s, Config{}), mustCreate(t, s, Config{})
		if err := s.Start(t.Context(), begun, StartOptions{Detach: true}, nil); err != nil {
			t.Fatal(err)
		}
		want := []string{pending, begun}
		slices.Sort(want)
		if got := s.IDs(w.record.ID); !slices.Equal(got, want) {
			t.Errorf("IDs = %v, want %v", got, want)
		}
		w.endTask()
		w.set(func() { r := *w.record; r.State = container.Exited; w.record = &r })
		s.Ended(w.record.ID)
		synctest.Wait()
		if _, err := s.Inspect(pending); !fault.Is(err, fault.NotFound) {
			t.Errorf("Inspect of one that was not started = %v, want not found", err)
		}
		if err := s.Start(t.Context(), pending, StartOptions{}, nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("Start of it = %v, want not found", err)
		}
		if info, err := s.Inspect(begun); err != nil || info.ExitCode == nil || *info.ExitCode != 137 {
			t.Errorf("Inspect of one that ran = %+v, %v, want 137", info, err)
		}
		if got := s.IDs(w.record.ID); len(got) != 0 {
			t.Errorf("IDs = %v, want none", got)
		}
		if n := w.files(); n != 0 {
			t.Errorf("%d files are left", n)
		}
		w.set(func() { w.gone = true })
		if _, err := s.Inspect(begun); !fault.Is(err, fault.NotFound) {
			t.Errorf("Inspect after the removal = %v, want not found", err)
		}
		if len(s.byID)+len(s.byContainer) != 0 {
			t.Errorf("%d instances in %d containers are left", len(s.byID), len(s.byContainer))
		}
	})
}

func TestFinishedAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fake.ExecScript = echo
		s := w.service()
		first, last := "", ""
		for range keepMost + 1 {
			last = mustCreate(t, s, Config{})
			if first == "" {
				first = last
			}
			if err := s.Start(t.Context(), last, StartOptions{Detach: true}, nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if _, err := s.Inspect(first); !fault.Is(err, fault.NotFound) {
			t.Errorf("Inspect of the oldest = %v, want not found", err)
		}
		if _, err := s.Inspect(last); err != nil {
			t.Errorf("Inspect of the newest = %v", err)
		}
		if n := w.files(); n != 2*keepMost {
			t.Errorf("%d files, want two of each of %d", n, keepMost)
		}
		for range pendingMost + 1 {
			mustCreate(t, s, Config{})
		}
		if n := len(s.IDs(w.record.ID)); n != pendingMost {
			t.Errorf("%d wait for their start, want %d", n, pendingMost)
		}
		time.Sleep(keepFor + time.Second)
		if _, err := s.Inspect(last); !fault.Is(err, fault.NotFound) {
			t.Errorf("Inspect after %s = %v, want not found", keepFor, err)
		}
		w.endTask()
		w.set(func() { w.gone = true })
		s.Ended(w.record.ID)
		time.Sleep(keepFor + 2*time.Second)
		synctest.Wait()
		if len(s.byID)+len(s.byContainer)+w.files() != 0 {
			t.Errorf("%d instances, %d containers, %d files are left", len(s.byID), len(s.byContainer), w.files())
		}
	})
}

func TestTheNextEngineKnowsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fake.ExecScript = func(_ task.Spec, _ task.ExecSpec, p *tasktest.Proc) int {
			select {
			case n := <-p.Signals:
				return n
			case <-p.Done:
				return 0
			}
		}
		s := w.service()
		begun, ended, pending := mustCreate(t, s, Config{User: "www", Tty: true}), mustCreate(t, s, Config{}), mustCreate(t, s, Config{})
		for _, execID := range []string{begun, ended} {
			if err := s.Start(t.Context(), execID, StartOptions{Detach: true}, nil); err != nil {
				t.Fatal(err)
			}
		}
		in, err := s.findInstance(ended)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.process.Signal(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		<-in.done
		probe := make(chan error)
		go func() {
			_, _, err := s.Run(t.Context(), w.record.ID, []string{"probe"}, time.Minute, 10)
			probe <- err
		}()
		synctest.Wait() // until the probe runs
		if n, files := len(w.task.(*tasktest.FakeTask).Execs()), w.files(); n != 2 || files != 4 {
			t.Fatalf("%d processes and %d files, want the probe beside the running one", n, files)
		}
		s.end() // as a crash: nothing is undone
		s.background.Wait()

		next := w.service()
		if info, err := next.Inspect(begun); err != nil || !info.Running || info.Pid == 0 || info.Config.User != "www" || !info.Config.Tty {
			t.Errorf("Inspect of the running one = %+v, %v", info, err)
		}
		if info, err := next.Inspect(ended); err != nil || info.ExitCode == nil || *info.ExitCode != 5 {
			t.Errorf("Inspect of the finished one = %+v, %v, want 5", info, err)
		}
		if _, err := next.Inspect(pending); !fault.Is(err, fault.NotFound) {
			t.Errorf("Inspect of one that never ran = %v, want not found", err)
		}
		if err := <-probe; err != nil {
			t.Errorf("the probe of the last engine ended with %v, want its end by the next", err)
		}
		w.set(func() {
			if len(w.killed) != 1 {
				t.Errorf("killed the families of %v, want that of the probe", w.killed)
			}
		})
		if in, err = next.findInstance(begun); err != nil {
			t.Fatal(err)
		}
		if err := in.process.Signal(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
		<-in.done
		if info, err := next.Inspect(begun); err != nil || info.ExitCode == nil || *info.ExitCode != 6 {
			t.Errorf("Inspect after its end = %+v, %v, want 6", info, err)
		}
	})
}

// TestTheNextEngineMeetsSilence: the instances of a container whose monitor does not answer are known when it does.
func TestTheNextEngineMeetsSilence(t *testing.T) {
	for name, told := range map[string]bool{"nobody knows": false, "the container says so": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s := w.service()
				execID := mustCreate(t, s, Config{})
				if err := s.Start(t.Context(), execID, StartOptions{Detach: true}, nil); err != nil {
					t.Fatal(err)
				}
				s.end() // as a crash
				s.background.Wait()
				goOn := w.task.(*tasktest.FakeTask).Hang()
				silent := *w.record
				silent.MonitorSilent = told
				w.set(func() { w.record = &silent })

				began := time.Now()
				next := w.service()
				if took := time.Since(began); took > time.Second {
					t.Errorf("ready after %s", took)
				}
				time.Sleep(time.Hour)
				if _, err := next.Inspect(execID); !fault.Is(err, fault.NotFound) {
					t.Errorf("Inspect while the monitor is silent = %v, want not found", err)
				}
				goOn()
				synctest.Wait()
				if info, err := next.Inspect(execID); err != nil || !info.Running || info.Pid == 0 {
					t.Errorf("Inspect when it answers = %+v, %v, want it running", info, err)
				}
			})
		})
	}
}

func TestDamagedFilesGo(t *testing.T) {
	w := newWorld(t)
	name := filepath.Join(w.dir, strings.Repeat("a", 64)+".json")
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.service()
	if n := w.files(); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		w.fake.ExecScript = func(_ task.Spec, _ task.ExecSpec, p *tasktest.Proc) int {
			io.WriteString(p.Stdout, strings.Repeat("o", 6)) //nolint:errcheck // a pipe in memory
			io.WriteString(p.Stderr, strings.Repeat("e", 6)) //nolint:errcheck // likewise
			return 4
		}
		code, out, err := s.Run(t.Context(), w.record.ID, []string{"x"}, time.Second, 10)
		if code != 4 || string(out) != "ooooooeeee" || err != nil {
			t.Errorf("Run = %d, %q, %v, want 4 and the first 10 bytes", code, out, err)
		}
		w.fake.ExecScript = func(_ task.Spec, _ task.ExecSpec, p *tasktest.Proc) int {
			io.WriteString(p.Stdout, "so far") //nolint:errcheck // a pipe in memory
			<-p.Done
			return 0
		}
		before := time.Now()
		code, out, err = s.Run(t.Context(), w.record.ID, []string{"x"}, 3*time.Second, 10)
		if code != -1 || string(out) != "so far" || !errors.Is(err, context.DeadlineExceeded) || time.Since(before) != 3*time.Second {
			t.Errorf("Run = %d, %q, %v after %s, want its end after 3s", code, out, err, time.Since(before))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, _, err = s.Run(ctx, w.record.ID, []string{"x"}, time.Minute, 10); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled Run = %v", err)
		}
		w.fake.ExecStartErr = func(task.Spec, task.ExecSpec) error { return fault.NotFound("no file x") }
		if code, out, err = s.Run(t.Context(), w.record.ID, []string{"x"}, time.Second, 10); code != 127 || string(out) != "no file x" || err != nil {
			t.Errorf("Run of nothing = %d, %q, %v, want 127", code, out, err)
		}
		if n := len(w.task.(*tasktest.FakeTask).Execs()); n+w.files() != 0 {
			t.Errorf("%d processes and %d files are left", n, w.files())
		}
		if want := []int{1003, 1004}; !slices.Equal(w.killed, want) { // as the fake numbers them
			t.Errorf("killed the families of %v, want %v", w.killed, want)
		}
		if w.said() != "" {
			t.Errorf("events = %q, want none", w.said())
		}
	})
}

// TestLongCommandInEvents: a bus remembers events, and with them must not remember megabytes of arguments.
func TestLongCommandInEvents(t *testing.T) {
	w := newWorld(t)
	if _, err := w.service().Create(t.Context(), "web", Config{Cmd: []string{"echo", strings.Repeat("é", maxShown)}}); err != nil {
		t.Fatal(err)
	}
	got := w.said()
	if len(got) > maxShown+100 || !strings.HasPrefix(got, "exec_create: echo éé") || !strings.HasSuffix(got, "é...") {
		t.Errorf("%d bytes of event: %.40q…%.20q, want the beginning of the command", len(got), got, got[max(0, len(got)-20):])
	}
}
