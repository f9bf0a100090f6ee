package tasktest

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"moss/engine/fault"
	"moss/engine/task"
)

func testPause(t *testing.T, s *suite) {
	tk, spec := s.runningTask(t)
	p, _ := s.prepareExec(t, tk, Exit3, nil)
	for range 2 {
		if err := tk.Pause(s.ctx); err != nil {
			t.Fatalf("Pause = %v", err)
		}
	}
	if _, err := p.Start(s.ctx); !fault.Is(err, fault.Conflict) {
		t.Errorf("Start in a paused container = %v, want a conflict", err)
	}
	next, err := s.Runner.Adopt(s.ctx, spec.ID, spec.Dir)
	if err != nil {
		t.Fatalf("Adopt = %v", err)
	}
	if st, err := next.Status(s.ctx); err != nil || !st.Paused || st.Pid == 0 {
		t.Errorf("Status = %+v, %v, want a paused task", st, err)
	}
	for range 2 {
		if err := next.Resume(s.ctx); err != nil {
			t.Fatalf("Resume = %v", err)
		}
	}
	if st, err := tk.Status(s.ctx); err != nil || st.Paused {
		t.Errorf("Status = %+v, %v, want a task that is not paused", st, err)
	}
	s.startProcess(t, p)
	s.waitExit(t, p, 3)
	if err := tk.Pause(s.ctx); err != nil {
		t.Fatalf("Pause = %v", err)
	}
	if err := tk.Signal(s.ctx, int(syscall.SIGKILL)); err != nil {
		t.Fatalf("Signal to a paused task = %v", err)
	}
	s.waitExit(t, tk, 137)
	if st, err := tk.Status(s.ctx); err != nil || st.Paused {
		t.Errorf("Status after the end = %+v, %v, want no pause", st, err)
	}
}

func testPids(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Trap, nil)
	first := s.startProcess(t, tk)
	p, _ := s.prepareExec(t, tk, Trap, nil)
	view := s.attachView(t, p, output)
	added := s.startProcess(t, p)
	s.expectOutput(t, view, "ready\n")
	pids, err := tk.Pids(s.ctx)
	if err != nil || !slices.IsSorted(pids) || !slices.Contains(pids, first) || !slices.Contains(pids, added) {
		t.Errorf("Pids = %v, %v, want %d and %d among them, ascending", pids, err, first, added)
	}
	if err := p.Signal(s.ctx, int(syscall.SIGTERM)); err != nil {
		t.Fatalf("Signal = %v", err)
	}
	s.waitExit(t, p, 7)
	if pids, err = tk.Pids(s.ctx); err != nil || slices.Contains(pids, added) {
		t.Errorf("Pids = %v, %v, want %d to be gone", pids, err, added)
	}
}

func testGroupWithoutContainer(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Exit3, nil)
	check := func(when string) {
		_, execErr := tk.Exec(s.ctx, task.ExecSpec{ID: strings.Repeat("e", 64), Process: s.Process(t, Exit3, false)})
		_, pidsErr := tk.Pids(s.ctx)
		for verb, err := range map[string]error{
			"Exec": execErr, "Pids": pidsErr, "Pause": tk.Pause(s.ctx), "Resume": tk.Resume(s.ctx),
			"Update": tk.Update(s.ctx, []byte("{}")),
		} {
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("%s %s = %v, want a conflict", verb, when, err)
			}
		}
	}
	check("before the start")
	s.startProcess(t, tk)
	s.waitExit(t, tk, 3)
	check("after the end")
}
