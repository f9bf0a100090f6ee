package tasktest

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/task"
)

func execTests() []subtest {
	return []subtest{
		{"exec: life", testExecLife},
		{"exec: attached before start", testExecAttachFirst},
		{"exec: terminal", testExecTerminal},
		{"exec: stdin", testExecStdin},
		{"exec: no stdin", testExecNoStdin},
		{"exec: signal", testExecSignal},
		{"exec: command not found", func(t *testing.T, s *suite) { testExecRefused(t, s, Missing, fault.NotFound, 127) }},
		{"exec: command not executable", func(t *testing.T, s *suite) { testExecRefused(t, s, NotExecutable, fault.Forbidden, 126) }},
		{"exec: never started", testExecNeverStarted},
		{"exec: delete while running", testExecDeleteRunning},
		{"exec: the container ends", testExecContainerEnds},
		{"exec: adopt", testExecAdopt},
		{"exec: id taken", testExecTaken},
		{"pause", testPause},
		{"processes", testPids},
		{"nothing to do it to", testGroupWithoutContainer},
	}
}

// digits make ids of processes.
const digits = "0123456789abcdef"

// prepareExec makes an added process and sees to its end.
func (s *suite) prepareExec(t *testing.T, tk task.Task, p Program, change func(*task.ExecSpec)) (task.Process, task.ExecSpec) {
	t.Helper()
	s.execs++
	spec := task.ExecSpec{ID: strings.Repeat(digits[s.execs:s.execs+1], 64)}
	if change != nil {
		change(&spec)
	}
	spec.Process = s.Process(t, p, spec.Terminal)
	added, err := tk.Exec(s.ctx, spec)
	if err != nil {
		t.Fatalf("Exec = %v", err)
	}
	return added, spec
}

// runningTask starts a task that runs until it is told otherwise.
func (s *suite) runningTask(t *testing.T) (task.Task, task.Spec) {
	t.Helper()
	tk, spec := s.prepareTask(t, Trap, nil)
	s.startProcess(t, tk)
	return tk, spec
}

func testExecLife(t *testing.T, s *suite) {
	tk, _ := s.runningTask(t)
	before := time.Now().Add(-time.Second)
	p, spec := s.prepareExec(t, tk, Exit3, nil)
	if st, err := p.Status(s.ctx); err != nil || st.Pid != 0 || st.Exit != nil || !st.StartedAt.IsZero() {
		t.Errorf("Status before the start = %+v, %v, want nothing", st, err)
	}
	s.startProcess(t, p)
	exit := s.waitExit(t, p, 3)
	if exit.At.Before(before) || exit.At.After(time.Now().Add(time.Second)) || exit.Error != "" {
		t.Errorf("Wait = %+v, want an end just now without error", exit)
	}
	s.waitExit(t, p, 3)
	st, err := p.Status(s.ctx)
	if err != nil || st.Exit == nil || st.Exit.Code != 3 || st.Pid != 0 || st.StartedAt.Before(before) {
		t.Errorf("Status after the end = %+v, %v, want the exit, no pid and the time of the start", st, err)
	}
	if _, err := p.Start(s.ctx); !fault.Is(err, fault.Conflict) {
		t.Errorf("second Start = %v, want a conflict", err)
	}
	if _, _, err := p.Attach(s.ctx, output); !fault.Is(err, fault.Conflict) {
		t.Errorf("Attach after the end = %v, want a conflict", err)
	}
	for range 2 {
		if err := p.Delete(s.ctx); err != nil {
			t.Errorf("Delete = %v", err)
		}
	}
	if _, err := tk.AdoptExec(s.ctx, spec.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("AdoptExec after Delete = %v, want not found", err)
	}
	if st, err := tk.Status(s.ctx); err != nil || st.Exit != nil {
		t.Errorf("Status of the task = %+v, %v, want one that runs on", st, err)
	}
}

func testExecAttachFirst(t *testing.T, s *suite) {
	tk, _ := s.runningTask(t)
	p, _ := s.prepareExec(t, tk, Hello, nil)
	first := s.attachView(t, tk, output)
	one, two := s.attachView(t, p, output), s.attachView(t, p, task.Attach{Stderr: true})
	s.startProcess(t, p)
	s.waitExit(t, p, 0)
	if out, errs := s.readAll(t, one); out != "out\n" || errs != "err\n" {
		t.Errorf("view = %q, %q, want %q, %q", out, errs, "out\n", "err\n")
	}
	if out, errs := s.readAll(t, two); out != "" || errs != "err\n" {
		t.Errorf("view of stderr = %q, %q, want nothing and %q", out, errs, "err\n")
	}
	if err := tk.Signal(s.ctx, int(syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	if out, errs := s.readAll(t, first); strings.Contains(out+errs, "out") || strings.Contains(out+errs, "err") {
		t.Errorf("view of the task = %q, %q, want nothing of the added process", out, errs)
	}
}

func testExecTerminal(t *testing.T, s *suite) {
	tk, _ := s.runningTask(t)
	p, _ := s.prepareExec(t, tk, Prompt, func(spec *task.ExecSpec) {
		spec.Terminal, spec.OpenStdin, spec.Width, spec.Height = true, true, 80, 25
	})
	view := s.attachView(t, p, conversation)
	if err := p.Resize(s.ctx, 100, 30); err != nil {
		t.Errorf("Resize before the start = %v", err)
	}
	s.startProcess(t, p)
	s.answerPrompt(t, view)
	s.waitExit(t, p, 0)
	if err := p.Resize(s.ctx, 100, 30); !fault.Is(err, fault.Conflict) {
		t.Errorf("Resize after the end = %v, want a conflict", err)
	}
	plain, _ := s.prepareExec(t, tk, Trap, nil)
	s.startProcess(t, plain)
	if err := plain.Resize(s.ctx, 100, 30); !fault.Is(err, fault.Conflict) {
		t.Errorf("Resize without a terminal = %v, want a conflict", err)
	}
}

func testExecStdin(t *testing.T, s *suite) {
	tk, _ := s.runningTask(t)
	p, _ := s.prepareExec(t, tk, Cat, func(spec *task.ExecSpec) { spec.OpenStdin = true })
	view := s.attachView(t, p, task.Attach{Stdin: true, Stdout: true, Stderr: true})
	if _, err := io.WriteString(view, "early "); err != nil {
		t.Fatalf("Write before the start = %v", err)
	}
	s.startProcess(t, p)
	if _, err := io.WriteString(view, "late"); err != nil {
		t.Fatalf("Write = %v", err)
	}
	if err := view.CloseWrite(); err != nil {
		t.Fatalf("CloseWrite = %v", err)
	}
	if out, errs := s.readAll(t, view); out != "early late" || errs != "" {
		t.Errorf("view = %q, %q, want %q and nothing", out, errs, "early late")
	}
	s.waitExit(t, p, 0)
}

func testExecNoStdin(t *testing.T, s *suite) {
	tk, _ := s.runningTask(t)
	p, _ := s.prepareExec(t, tk, Cat, nil)
	view := s.attachView(t, p, task.Attach{Stdin: true, Stdout: true})
	_, _ = io.WriteString(view, "nobody reads this")
	s.startProcess(t, p)
	s.waitExit(t, p, 0)
	if out, _ := s.readAll(t, view); out != "" {
		t.Errorf("view = %q, want nothing", out)
	}
}

func testExecSignal(t *testing.T, s *suite) {
	tk, _ := s.runningTask(t)
	p, _ := s.prepareExec(t, tk, Trap, nil)
	if err := p.Signal(s.ctx, int(syscall.SIGTERM)); !fault.Is(err, fault.Conflict) {
		t.Errorf("Signal before the start = %v, want a conflict", err)
	}
	view := s.attachView(t, p, output)
	s.startProcess(t, p)
	s.expectOutput(t, view, "ready\n")
	if err := p.Signal(s.ctx, 0); err != nil {
		t.Errorf("Signal 0 to a living process = %v", err)
	}
	if err := p.Signal(s.ctx, int(syscall.SIGTERM)); err != nil {
		t.Fatalf("Signal = %v", err)
	}
	s.readAll(t, view)
	if err := p.Signal(s.ctx, 0); !fault.Is(err, fault.Conflict) {
		t.Errorf("Signal 0 after the end of the output = %v, want a conflict", err)
	}
	s.waitExit(t, p, 7)
	if err := p.Signal(s.ctx, int(syscall.SIGTERM)); !fault.Is(err, fault.Conflict) {
		t.Errorf("Signal after the end = %v, want a conflict", err)
	}
	killed, _ := s.prepareExec(t, tk, Trap, nil)
	s.startProcess(t, killed)
	if err := killed.Signal(s.ctx, int(syscall.SIGKILL)); err != nil {
		t.Fatalf("Signal = %v", err)
	}
	s.waitExit(t, killed, 128+int(syscall.SIGKILL))
}

func testExecRefused(t *testing.T, s *suite, program Program, kind fault.Constructor, code int) {
	tk, _ := s.runningTask(t)
	p, spec := s.prepareExec(t, tk, program, nil)
	view := s.attachView(t, p, output)
	if pid, err := p.Start(s.ctx); !fault.Is(err, kind) {
		t.Errorf("Start(%s) = %d, %v, want a fault like %v", program, pid, err, kind("this"))
	}
	if out, errs := s.readAll(t, view); out+errs != "" {
		t.Errorf("view = %q, %q, want only its end", out, errs)
	}
	if exit := s.waitExit(t, p, code); exit.Error == "" {
		t.Errorf("Wait = %+v, want an error text", exit)
	}
	adopted, err := tk.AdoptExec(s.ctx, spec.ID)
	if err != nil {
		t.Fatalf("AdoptExec = %v", err)
	}
	s.waitExit(t, adopted, code)
	if err := adopted.Delete(s.ctx); err != nil {
		t.Errorf("Delete = %v", err)
	}
	if st, err := tk.Status(s.ctx); err != nil || st.Exit != nil {
		t.Errorf("Status of the task = %+v, %v, want one that runs on", st, err)
	}
}

func testExecNeverStarted(t *testing.T, s *suite) {
	tk, _ := s.runningTask(t)
	p, spec := s.prepareExec(t, tk, Exit3, nil)
	view := s.attachView(t, p, output)
	if err := p.Delete(s.ctx); err != nil {
		t.Fatalf("Delete = %v", err)
	}
	if got, err := io.ReadAll(view); len(got) != 0 || err != nil {
		t.Errorf("view of a deleted process = %q, %v, want its end", got, err)
	}
	if _, err := tk.AdoptExec(s.ctx, spec.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("AdoptExec = %v, want not found", err)
	}
	if _, err := p.Start(s.ctx); !fault.Is(err, fault.Conflict) {
		t.Errorf("Start = %v, want a conflict", err)
	}
	again, err := tk.Exec(s.ctx, spec)
	if err != nil {
		t.Fatalf("Exec with the same id = %v", err)
	}
	s.startProcess(t, again)
	s.waitExit(t, again, 3)
}

func testExecDeleteRunning(t *testing.T, s *suite) {
	tk, _ := s.runningTask(t)
	p, _ := s.prepareExec(t, tk, Trap, nil)
	s.startProcess(t, p)
	if err := p.Delete(s.ctx); !fault.Is(err, fault.Conflict) {
		t.Errorf("Delete = %v, want a conflict", err)
	}
	if st, err := p.Status(s.ctx); err != nil || st.Exit != nil || st.Pid == 0 {
		t.Errorf("Status = %+v, %v, want a process that runs on", st, err)
	}
}

func testExecContainerEnds(t *testing.T, s *suite) {
	tk, spec := s.runningTask(t)
	p, pspec := s.prepareExec(t, tk, Trap, nil)
	view := s.attachView(t, p, output)
	s.startProcess(t, p)
	s.expectOutput(t, view, "ready\n")
	idle, _ := s.prepareExec(t, tk, Exit3, nil)
	waited := make(chan error, 1)
	go func() {
		exit, err := idle.Wait(s.ctx)
		if err == nil && exit.Code != 137 {
			err = errors.New("it did not end with 137")
		}
		waited <- err
	}()
	if err := tk.Signal(s.ctx, int(syscall.SIGKILL)); err != nil {
		t.Fatalf("Signal = %v", err)
	}
	s.waitExit(t, p, 137)
	if out, _ := s.readAll(t, view); out != "" {
		t.Errorf("the rest of the view = %q, want its end", out)
	}
	if err := <-waited; err != nil {
		t.Errorf("Wait for one that was never started = %v", err)
	}
	if _, err := idle.Start(s.ctx); !fault.Is(err, fault.Conflict) {
		t.Errorf("Start after the end = %v, want a conflict", err)
	}
	s.waitExit(t, tk, 137)
	next, err := s.Runner.Adopt(s.ctx, spec.ID, spec.Dir)
	if err != nil {
		t.Fatalf("Adopt = %v", err)
	}
	adopted, err := next.AdoptExec(s.ctx, pspec.ID)
	if err != nil {
		t.Fatalf("AdoptExec after the container's end = %v", err)
	}
	s.waitExit(t, adopted, 137)
	for _, each := range []task.Process{adopted, idle, tk} {
		if err := each.Delete(s.ctx); err != nil {
			t.Errorf("Delete = %v", err)
		}
	}
}

func testExecAdopt(t *testing.T, s *suite) {
	tk, spec := s.runningTask(t)
	p, pspec := s.prepareExec(t, tk, Trap, func(spec *task.ExecSpec) { spec.OpenStdin = true })
	done, dspec := s.prepareExec(t, tk, Exit3, nil)
	view := s.attachView(t, p, output)
	pid := s.startProcess(t, p)
	s.startProcess(t, done)
	s.expectOutput(t, view, "ready\n")
	first := s.waitExit(t, done, 3)

	next, err := s.Runner.Adopt(s.ctx, spec.ID, spec.Dir)
	if err != nil {
		t.Fatalf("Adopt = %v", err)
	}
	ended, err := next.AdoptExec(s.ctx, dspec.ID)
	if err != nil {
		t.Fatalf("AdoptExec of an ended process = %v", err)
	}
	if exit := s.waitExit(t, ended, 3); !exit.At.Equal(first.At) {
		t.Errorf("Wait = %+v, want %+v", exit, first)
	}
	alive, err := next.AdoptExec(s.ctx, pspec.ID)
	if err != nil {
		t.Fatalf("AdoptExec = %v", err)
	}
	if st, err := alive.Status(s.ctx); err != nil || st.Pid != pid || st.StartedAt.IsZero() {
		t.Errorf("Status = %+v, %v, want pid %d", st, err, pid)
	}
	s.attachView(t, alive, output)
	if err := alive.Signal(s.ctx, int(syscall.SIGTERM)); err != nil {
		t.Errorf("Signal = %v", err)
	}
	s.waitExit(t, alive, 7)
	s.waitExit(t, p, 7)
	if _, err := next.AdoptExec(s.ctx, strings.Repeat("f", 64)); !fault.Is(err, fault.NotFound) {
		t.Errorf("AdoptExec of nothing = %v, want not found", err)
	}
}

func testExecTaken(t *testing.T, s *suite) {
	tk, _ := s.runningTask(t)
	p, spec := s.prepareExec(t, tk, Exit3, nil)
	if _, err := tk.Exec(s.ctx, spec); !fault.Is(err, fault.Conflict) {
		t.Errorf("Exec with an id that is taken = %v, want a conflict", err)
	}
	s.startProcess(t, p)
	s.waitExit(t, p, 3)
}
