package tasktest_test

import (
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/fault"
	"moss/engine/task"
	"moss/engine/task/tasktest"
)

func TestFake(t *testing.T) {
	tasktest.Run(t, func(*testing.T) tasktest.Harness {
		var count atomic.Int32
		var programs sync.Map // of tasktest.Program by id
		program := func(spec task.Spec) tasktest.Program {
			p, _ := programs.Load(spec.ID)
			return p.(tasktest.Program) //nolint:forcetypeassert // stored below
		}
		f := &tasktest.Fake{
			Script:   func(spec task.Spec, p *tasktest.Proc) int { return play(program(spec), p) },
			StartErr: func(spec task.Spec) error { return refusal(program(spec)) },
			ExecScript: func(_ task.Spec, exec task.ExecSpec, p *tasktest.Proc) int {
				return play(tasktest.Program(exec.Process), p)
			},
			ExecStartErr: func(_ task.Spec, exec task.ExecSpec) error { return refusal(tasktest.Program(exec.Process)) },
		}
		return tasktest.Harness{
			Runner: f,
			Hang:   func(_ *testing.T, _ task.Task, spec task.Spec) func() { return f.Task(spec.ID).Hang() },
			Spec: func(t *testing.T, p tasktest.Program) task.Spec {
				t.Helper()
				id := "t" + strconv.Itoa(int(count.Add(1)))
				programs.Store(id, p)
				return task.Spec{ID: id, Dir: t.TempDir(), Log: task.Log{Driver: "none"}}
			},
			Process: func(_ *testing.T, p tasktest.Program, _ bool) json.RawMessage { return json.RawMessage(p) },
		}
	})
}

func refusal(program tasktest.Program) error {
	switch program {
	case tasktest.Missing:
		return fault.NotFound("no such command")
	case tasktest.NotExecutable:
		return fault.Forbidden("not executable")
	case tasktest.Exit3, tasktest.Hello, tasktest.Prompt, tasktest.Cat, tasktest.Trap:
	}
	return nil
}

func play(program tasktest.Program, p *tasktest.Proc) int {
	switch program {
	case tasktest.Exit3:
		return 3
	case tasktest.Hello:
		_, _ = io.WriteString(p.Stdout, "out\n")
		_, _ = io.WriteString(p.Stderr, "err\n")
	case tasktest.Prompt:
		_, _ = io.WriteString(p.Stdout, "out\n")
		_, _ = io.WriteString(p.Stderr, "err\n")
		_, _ = p.Stdin.Read(make([]byte, 1))
	case tasktest.Cat:
		_, _ = io.Copy(p.Stdout, p.Stdin)
	case tasktest.Trap:
		_, _ = io.WriteString(p.Stdout, "ready\n")
		for {
			select {
			case n := <-p.Signals:
				if n == int(syscall.SIGTERM) {
					return 7
				}
			case <-p.Done:
				return 0
			}
		}
	case tasktest.Missing, tasktest.NotExecutable:
	}
	return 0
}

func TestFakeWithoutScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &tasktest.Fake{}
		tk, err := f.Prepare(t.Context(), task.Spec{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tk.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Hour)
			f.Task("a").End(task.Exit{Code: 9, OOMKilled: true})
		}()
		begun := time.Now()
		exit, err := tk.Wait(t.Context())
		if err != nil || exit.Code != 9 || !exit.OOMKilled || exit.At.Sub(begun) != time.Hour {
			t.Errorf("Wait = %+v, %v, want code 9 after an hour", exit, err)
		}
		f.Forget("a")
		if _, err := f.Adopt(t.Context(), "a", ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("Adopt of a forgotten task = %v, want not found", err)
		}
	})
}
