package tasktest

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"moss/engine/fault"
	"moss/engine/task"
)

// testSilent: nothing that is asked of a hung monitor takes for ever, nothing of it is done later, and all is as before
// when the monitor goes on.
func testSilent(t *testing.T, s *suite) {
	tk, spec := s.prepareTask(t, Trap, nil)
	view := s.attachView(t, tk, output)
	s.startProcess(t, tk)
	s.expectOutput(t, view, "ready\n")
	waiting := make(chan error, 1)
	go func() {
		_, err := tk.Wait(s.ctx)
		waiting <- err
	}()
	goOn := s.Hang(t, tk, spec)
	added := task.ExecSpec{ID: strings.Repeat("f", 64), Process: s.Process(t, Trap, false)}
	for verb, ask := range map[string]func(context.Context) error{
		"Status": func(ctx context.Context) error { _, err := tk.Status(ctx); return err },
		"Attach": func(ctx context.Context) error { _, _, err := tk.Attach(ctx, output); return err },
		"Resize": func(ctx context.Context) error { return tk.Resize(ctx, 80, 25) },
		"Exec":   func(ctx context.Context) error { _, err := tk.Exec(ctx, added); return err },
		"Pids":   func(ctx context.Context) error { _, err := tk.Pids(ctx); return err },
		"Pause":  tk.Pause,
		"Resume": tk.Resume,
		"Delete": tk.Delete,
		"Adopt": func(ctx context.Context) error {
			again, err := s.Runner.Adopt(ctx, spec.ID, spec.Dir)
			if again == nil {
				t.Errorf("Adopt of a task whose monitor hangs gives none, and %v", err)
			}
			return err
		},
	} {
		if err := ask(s.ctx); !errors.Is(err, task.ErrSilent) {
			t.Errorf("%s of a task whose monitor hangs = %v, want %v", verb, err, task.ErrSilent)
		}
	}
	if err := <-waiting; !errors.Is(err, task.ErrSilent) {
		t.Errorf("Wait, when others have met the silence = %v, want %v", err, task.ErrSilent)
	}
	reached := make(chan error, 1)
	go func() {
		st, err := tk.Reach(s.ctx)
		if st.Pid == 0 || st.Paused {
			err = errors.Join(err, errors.New("it does not run as before"))
		}
		reached <- err
	}()
	goOn()
	if err := <-reached; err != nil {
		t.Errorf("Reach = %v", err)
	}
	// What was given up is not done: the id is free, and the process is not paused.
	p, err := tk.Exec(s.ctx, added)
	if err != nil {
		t.Fatalf("Exec afterwards = %v", err)
	}
	s.startProcess(t, p)
	if err := tk.Signal(s.ctx, int(syscall.SIGTERM)); err != nil {
		t.Fatalf("Signal = %v", err)
	}
	s.waitExit(t, tk, 7)
}

// testSilentSignal: a signal reaches the process without its monitor, once, and the monitor tells of the end later.
func testSilentSignal(t *testing.T, s *suite) {
	tk, spec := s.prepareTask(t, Trap, nil)
	view := s.attachView(t, tk, output)
	s.startProcess(t, tk)
	s.expectOutput(t, view, "ready\n")
	goOn := s.Hang(t, tk, spec)
	if err := tk.Signal(s.ctx, int(syscall.SIGTERM)); err != nil {
		t.Errorf("Signal = %v", err)
	}
	goOn()
	if _, err := tk.Reach(s.ctx); err != nil {
		t.Errorf("Reach = %v", err)
	}
	s.waitExit(t, tk, 7)
}

// testSilentKill: SIGKILL ends a task whose monitor hangs for good.
func testSilentKill(t *testing.T, s *suite) {
	tk, spec := s.prepareTask(t, Trap, nil)
	s.startProcess(t, tk)
	s.Hang(t, tk, spec)
	adopted, err := s.Runner.Adopt(s.ctx, spec.ID, spec.Dir) // all that this one knows is in the folder
	if !errors.Is(err, task.ErrSilent) {
		t.Fatalf("Adopt = %v, want %v", err, task.ErrSilent)
	}
	if err := adopted.Signal(s.ctx, int(syscall.SIGKILL)); err != nil {
		t.Fatalf("Signal = %v", err)
	}
	s.waitExit(t, adopted, 128+int(syscall.SIGKILL))
	s.waitExit(t, tk, 128+int(syscall.SIGKILL))
	if err := adopted.Delete(s.ctx); err != nil {
		t.Errorf("Delete = %v", err)
	}
	if _, err := s.Runner.Adopt(s.ctx, spec.ID, spec.Dir); !fault.Is(err, fault.NotFound) {
		t.Errorf("Adopt after Delete = %v, want not found", err)
	}
}

// testDestroy: a task can be ended without its monitor also when that answers, before the start and after the end.
func testDestroy(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Trap, nil)
	s.startProcess(t, tk)
	for range 2 {
		if err := tk.Destroy(s.ctx); err != nil {
			t.Fatalf("Destroy = %v", err)
		}
	}
	s.waitExit(t, tk, 128+int(syscall.SIGKILL))
	if err := tk.Delete(s.ctx); err != nil {
		t.Errorf("Delete = %v", err)
	}
}
