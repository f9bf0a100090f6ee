package tasktest

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"

	"moss/engine/fault"
	"moss/engine/task"
)

func testSignal(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Trap, nil)
	if err := tk.Signal(s.ctx, int(syscall.SIGTERM)); !fault.Is(err, fault.Conflict) {
		t.Errorf("Signal before the start = %v, want a conflict", err)
	}
	view := s.attachView(t, tk, output)
	s.startProcess(t, tk)
	s.expectOutput(t, view, "ready\n")
	if err := tk.Signal(s.ctx, 0); err != nil {
		t.Errorf("Signal 0 to a living process = %v", err)
	}
	if err := tk.Signal(s.ctx, int(syscall.SIGTERM)); err != nil {
		t.Fatalf("Signal = %v", err)
	}
	s.readAll(t, view)
	if err := tk.Signal(s.ctx, 0); !fault.Is(err, fault.Conflict) {
		t.Errorf("Signal 0 after the end of the output = %v, want a conflict", err)
	}
	s.waitExit(t, tk, 7)
	if err := tk.Signal(s.ctx, int(syscall.SIGTERM)); !fault.Is(err, fault.Conflict) {
		t.Errorf("Signal after the end = %v, want a conflict", err)
	}
}

func testKill(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Trap, nil)
	s.startProcess(t, tk)
	if err := tk.Signal(s.ctx, int(syscall.SIGKILL)); err != nil {
		t.Fatalf("Signal = %v", err)
	}
	s.waitExit(t, tk, 128+int(syscall.SIGKILL))
}

func testRefused(t *testing.T, s *suite, p Program, kind fault.Constructor, code int) {
	tk, spec := s.prepareTask(t, p, nil)
	view := s.attachView(t, tk, output)
	if pid, err := tk.Start(s.ctx); !fault.Is(err, kind) {
		t.Errorf("Start(%s) = %d, %v, want a fault like %v", p, pid, err, kind("this"))
	}
	if out, errs := s.readAll(t, view); out+errs != "" {
		t.Errorf("view = %q, %q, want only its end", out, errs)
	}
	if exit := s.waitExit(t, tk, code); exit.Error == "" {
		t.Errorf("Wait = %+v, want an error text", exit)
	}
	adopted, err := s.Runner.Adopt(s.ctx, spec.ID, spec.Dir)
	if err != nil {
		t.Fatalf("Adopt = %v", err)
	}
	s.waitExit(t, adopted, code)
	if err := adopted.Delete(s.ctx); err != nil {
		t.Errorf("Delete = %v", err)
	}
}

func testNeverStarted(t *testing.T, s *suite) {
	tk, spec := s.prepareTask(t, Exit3, nil)
	view := s.attachView(t, tk, output)
	if err := tk.Delete(s.ctx); err != nil {
		t.Fatalf("Delete = %v", err)
	}
	if got, err := io.ReadAll(view); len(got) != 0 || err != nil {
		t.Errorf("view of a deleted task = %q, %v, want its end", got, err)
	}
	if _, err := s.Runner.Adopt(s.ctx, spec.ID, spec.Dir); !fault.Is(err, fault.NotFound) {
		t.Errorf("Adopt = %v, want not found", err)
	}
	if _, err := tk.Start(s.ctx); !fault.Is(err, fault.Conflict) {
		t.Errorf("Start = %v, want a conflict", err)
	}
	again, err := s.Runner.Prepare(s.ctx, spec)
	if err != nil {
		t.Fatalf("Prepare in the same folder = %v", err)
	}
	s.startProcess(t, again)
	s.waitExit(t, again, 3)
	if err := again.Delete(s.ctx); err != nil {
		t.Errorf("Delete = %v", err)
	}
}

func testDeleteRunning(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Trap, nil)
	s.startProcess(t, tk)
	if err := tk.Delete(s.ctx); !fault.Is(err, fault.Conflict) {
		t.Errorf("Delete = %v, want a conflict", err)
	}
	if st, err := tk.Status(s.ctx); err != nil || st.Exit != nil || st.Pid == 0 {
		t.Errorf("Status = %+v, %v, want a task that runs on", st, err)
	}
}

func testAdopt(t *testing.T, s *suite) {
	tk, spec := s.prepareTask(t, Trap, nil)
	view := s.attachView(t, tk, output)
	pid := s.startProcess(t, tk)
	s.expectOutput(t, view, "ready\n")
	adopted, err := s.Runner.Adopt(s.ctx, spec.ID, spec.Dir)
	if err != nil {
		t.Fatalf("Adopt = %v", err)
	}
	if st, err := adopted.Status(s.ctx); err != nil || st.Pid != pid || st.StartedAt.IsZero() {
		t.Errorf("Status = %+v, %v, want pid %d", st, err, pid)
	}
	second := s.attachView(t, adopted, output)
	if err := adopted.Signal(s.ctx, int(syscall.SIGTERM)); err != nil {
		t.Errorf("Signal = %v", err)
	}
	first := s.waitExit(t, tk, 7)
	if other := s.waitExit(t, adopted, 7); !other.At.Equal(first.At) {
		t.Errorf("Wait of the adopted = %+v, want %+v", other, first)
	}
	if out, _ := s.readAll(t, second); out != "" {
		t.Errorf("second view = %q, want only what came after it joined", out)
	}
	if adopted, err = s.Runner.Adopt(s.ctx, spec.ID, spec.Dir); err != nil {
		t.Fatalf("Adopt after the end = %v", err)
	}
	if exit := s.waitExit(t, adopted, 7); !exit.At.Equal(first.At) {
		t.Errorf("Wait after the end = %+v, want %+v", exit, first)
	}
	if _, err := s.Runner.Adopt(s.ctx, "nobody", t.TempDir()); !fault.Is(err, fault.NotFound) {
		t.Errorf("Adopt of nothing = %v, want not found", err)
	}
}

func testCancelled(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	tk, _ := s.prepareTask(t, Trap, func(spec *task.Spec) { spec.OpenStdin = true })
	s.startProcess(t, tk)
	done := make(chan error, 1)
	go func() {
		_, err := tk.Wait(ctx)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled Wait = %v, want %v", err, context.Canceled)
	}
	spec := s.Spec(t, Exit3)
	if _, err := s.Runner.Prepare(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled Prepare = %v, want %v", err, context.Canceled)
	}
	if _, err := s.Runner.Adopt(s.ctx, spec.ID, spec.Dir); !fault.Is(err, fault.NotFound) {
		t.Errorf("Adopt after a cancelled Prepare = %v, want not found", err)
	}
}
