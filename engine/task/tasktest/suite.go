// Package tasktest holds the suite that every task.Runner must pass, and a Runner in memory for the tests of whoever
// drives one.
package tasktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/stdio"
	"moss/engine/task"
)

// Program is what the suite lets a task run. A harness brings it in the form that its Runner understands.
type Program string

// The programs.
const (
	Exit3         Program = "exit3"         // ends at once with code 3
	Hello         Program = "hello"         // writes "out\n" to stdout and "err\n" to stderr and ends with code 0
	Prompt        Program = "prompt"        // writes what Hello does, waits for a line on stdin and ends with code 0
	Cat           Program = "cat"           // copies stdin to stdout until its end, then ends with code 0
	Trap          Program = "trap"          // writes "ready\n"; at SIGTERM it ends with code 7; it ignores SIGWINCH
	Missing       Program = "missing"       // a command that does not exist
	NotExecutable Program = "notexecutable" // a file that is no program
)

// Harness is a Runner with what the suite needs to use it.
type Harness struct {
	Runner task.Runner
	// Spec returns a valid spec that runs the program in a folder of its own, without terminal and stdin.
	Spec func(t *testing.T, p Program) task.Spec
	// Hang stops the monitor of a running task until the returned function is called.
	Hang func(t *testing.T, tk task.Task, spec task.Spec) (goOn func())
	// Process returns the process object of an added process that runs the program.
	Process func(t *testing.T, p Program, terminal bool) json.RawMessage
}

// patience is how long the suite waits for anything. Only a broken Runner takes so long.
const patience = 2 * time.Minute

// Run puts a Runner through the whole contract of package task. New is called once per subtest.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	for _, tc := range append(execTests(), []subtest{
		{"life of a task", testLife},
		{"attached before start", testAttachFirst},
		{"terminal", testTerminal},
		{"terminal without resize", testNoTerminal},
		{"two viewers", testTwoViewers},
		{"one stream only", testOneStream},
		{"stdin", testStdin},
		{"stdin stays open", testStdinStaysOpen},
		{"no stdin", testNoStdin},
		{"viewer that leaves", testLeave},
		{"signal", testSignal},
		{"kill", testKill},
		{"command not found", func(t *testing.T, s *suite) { testRefused(t, s, Missing, fault.NotFound, 127) }},
		{"command not executable", func(t *testing.T, s *suite) { testRefused(t, s, NotExecutable, fault.Forbidden, 126) }},
		{"never started", testNeverStarted},
		{"delete while running", testDeleteRunning},
		{"adopt", testAdopt},
		{"cancelled", testCancelled},
		{"silent monitor", testSilent},
		{"silent monitor, signal", testSilentSignal},
		{"silent monitor, kill", testSilentKill},
		{"destroy", testDestroy},
	}...) {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			tc.test(t, &suite{Harness: newHarness(t), ctx: ctx})
		})
	}
}

type subtest struct {
	name string
	test func(*testing.T, *suite)
}

type suite struct {
	Harness
	execs int             // made so far
	ctx   context.Context //nolint:containedctx // bounds one subtest
}

// prepareTask makes a task and sees to its end.
func (s *suite) prepareTask(t *testing.T, p Program, change func(*task.Spec)) (task.Task, task.Spec) {
	t.Helper()
	spec := s.Spec(t, p)
	if change != nil {
		change(&spec)
	}
	tk, err := s.Runner.Prepare(s.ctx, spec)
	if err != nil {
		t.Fatalf("Prepare = %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), patience)
		defer cancel()
		_ = tk.Delete(ctx) // ends one that was never started
		_ = tk.Signal(ctx, int(syscall.SIGKILL))
		_, _ = tk.Wait(ctx)
		_ = tk.Delete(ctx)
	})
	return tk, spec
}

func (s *suite) startProcess(t *testing.T, tk task.Process) int {
	t.Helper()
	pid, err := tk.Start(s.ctx)
	if err != nil || pid <= 0 {
		t.Fatalf("Start = %d, %v, want a pid", pid, err)
	}
	return pid
}

func (s *suite) attachView(t *testing.T, tk task.Process, req task.Attach) task.Streams {
	t.Helper()
	view, _, err := tk.Attach(s.ctx, req)
	if err != nil {
		t.Fatalf("Attach(%+v) = %v", req, err)
	}
	t.Cleanup(func() { _ = view.Close() })
	return view
}

// waitExit expects the end with a code.
func (s *suite) waitExit(t *testing.T, tk task.Process, code int) task.Exit {
	t.Helper()
	exit, err := tk.Wait(s.ctx)
	if err != nil || exit.Code != code {
		t.Fatalf("Wait = %+v, %v, want code %d", exit, err, code)
	}
	return exit
}

// readAll takes a view to its end.
func (s *suite) readAll(t *testing.T, view task.Streams) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- stdio.Demux(view, &out, &errs) }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("reading the view = %v", err)
		}
	case <-s.ctx.Done():
		t.Fatal("the view does not end")
	}
	return out.String(), errs.String()
}

// expectOutput reads frames until stdout has the text.
func (s *suite) expectOutput(t *testing.T, view task.Streams, want string) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		var got []byte
		for {
			_, payload, err := stdio.ReadFrame(view, nil)
			if got = append(got, payload...); string(got) == want || err != nil {
				if string(got) != want {
					err = errors.Join(err, errors.New("got "+string(got)))
				}
				done <- err
				return
			}
		}
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("reading %q: %v", want, err)
		}
	case <-s.ctx.Done():
		t.Fatalf("%q does not come", want)
	}
}

var (
	output       = task.Attach{Stdout: true, Stderr: true}
	conversation = task.Attach{Stdin: true, Stdout: true, Stderr: true}
)

// answerPrompt expects what Prompt writes to a terminal, and answers. What a process writes to its terminal just before it
// ends may get lost: the kernel drops what the terminal has not passed on.
func (s *suite) answerPrompt(t *testing.T, view task.Streams) {
	t.Helper()
	const want = "out\r\nerr\r\n"
	got := make([]byte, len(want))
	n, err := io.ReadFull(view, got)
	if string(got[:n]) != want || err != nil {
		t.Fatalf("view of a terminal = %q, %v, want %q without frames", got[:n], err, want)
	}
	if _, err := io.WriteString(view, "\n"); err != nil {
		t.Fatalf("Write = %v", err)
	}
	if _, err := io.Copy(io.Discard, view); err != nil {
		t.Errorf("the view ends with %v", err)
	}
}

func testLife(t *testing.T, s *suite) {
	before := time.Now().Add(-time.Second)
	tk, spec := s.prepareTask(t, Exit3, nil)
	if st, err := tk.Status(s.ctx); err != nil || st.Pid != 0 || st.Exit != nil || !st.StartedAt.IsZero() {
		t.Errorf("Status before the start = %+v, %v, want nothing", st, err)
	}
	s.startProcess(t, tk)
	exit := s.waitExit(t, tk, 3)
	if exit.At.Before(before) || exit.At.After(time.Now().Add(time.Second)) || exit.Error != "" || exit.OOMKilled {
		t.Errorf("Wait = %+v, want an end just now without error", exit)
	}
	s.waitExit(t, tk, 3)
	st, err := tk.Status(s.ctx)
	if err != nil || st.Exit == nil || st.Exit.Code != 3 || st.Pid != 0 || st.StartedAt.Before(before) {
		t.Errorf("Status after the end = %+v, %v, want the exit, no pid and the time of the start", st, err)
	}
	if _, err := tk.Start(s.ctx); !fault.Is(err, fault.Conflict) {
		t.Errorf("second Start = %v, want a conflict", err)
	}
	if _, _, err := tk.Attach(s.ctx, output); !fault.Is(err, fault.Conflict) {
		t.Errorf("Attach after the end = %v, want a conflict", err)
	}
	for range 2 {
		if err := tk.Delete(s.ctx); err != nil {
			t.Errorf("Delete = %v", err)
		}
	}
	if _, err := s.Runner.Adopt(s.ctx, spec.ID, spec.Dir); !fault.Is(err, fault.NotFound) {
		t.Errorf("Adopt after Delete = %v, want not found", err)
	}
}

func testAttachFirst(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Hello, nil)
	view := s.attachView(t, tk, output)
	s.startProcess(t, tk)
	s.waitExit(t, tk, 0)
	if out, errs := s.readAll(t, view); out != "out\n" || errs != "err\n" {
		t.Errorf("view = %q, %q, want %q, %q", out, errs, "out\n", "err\n")
	}
}

func testTerminal(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Prompt, func(spec *task.Spec) { spec.Terminal, spec.OpenStdin = true, true })
	view := s.attachView(t, tk, conversation)
	if err := tk.Resize(s.ctx, 100, 30); err != nil {
		t.Errorf("Resize before the start = %v", err)
	}
	s.startProcess(t, tk)
	s.answerPrompt(t, view)
	s.waitExit(t, tk, 0)
	if err := tk.Resize(s.ctx, 100, 30); !fault.Is(err, fault.Conflict) {
		t.Errorf("Resize after the end = %v, want a conflict", err)
	}
}

func testNoTerminal(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Trap, nil)
	s.startProcess(t, tk)
	if err := tk.Resize(s.ctx, 100, 30); !fault.Is(err, fault.Conflict) {
		t.Errorf("Resize without a terminal = %v, want a conflict", err)
	}
}

func testTwoViewers(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Hello, nil)
	one, two := s.attachView(t, tk, output), s.attachView(t, tk, output)
	s.startProcess(t, tk)
	for name, view := range map[string]task.Streams{"first": one, "second": two} {
		if out, errs := s.readAll(t, view); out != "out\n" || errs != "err\n" {
			t.Errorf("%s view = %q, %q, want %q, %q", name, out, errs, "out\n", "err\n")
		}
	}
	s.waitExit(t, tk, 0)
}

func testOneStream(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Hello, nil)
	one, two := s.attachView(t, tk, task.Attach{Stdout: true}), s.attachView(t, tk, task.Attach{Stderr: true})
	s.startProcess(t, tk)
	if out, errs := s.readAll(t, one); out != "out\n" || errs != "" {
		t.Errorf("view of stdout = %q, %q, want %q and nothing", out, errs, "out\n")
	}
	if out, errs := s.readAll(t, two); out != "" || errs != "err\n" {
		t.Errorf("view of stderr = %q, %q, want nothing and %q", out, errs, "err\n")
	}
}

func testStdin(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Cat, func(spec *task.Spec) { spec.OpenStdin, spec.StdinOnce = true, true })
	view := s.attachView(t, tk, task.Attach{Stdin: true, Stdout: true, Stderr: true})
	if _, err := io.WriteString(view, "early "); err != nil {
		t.Fatalf("Write before the start = %v", err)
	}
	s.startProcess(t, tk)
	if _, err := io.WriteString(view, "late"); err != nil {
		t.Fatalf("Write = %v", err)
	}
	if err := view.CloseWrite(); err != nil {
		t.Fatalf("CloseWrite = %v", err)
	}
	if out, errs := s.readAll(t, view); out != "early late" || errs != "" {
		t.Errorf("view = %q, %q, want %q and nothing", out, errs, "early late")
	}
	s.waitExit(t, tk, 0)
}

func testStdinStaysOpen(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Cat, func(spec *task.Spec) { spec.OpenStdin = true })
	s.startProcess(t, tk)
	for _, text := range []string{"one", "two"} {
		view := s.attachView(t, tk, task.Attach{Stdin: true, Stdout: true})
		if _, err := io.WriteString(view, text); err != nil {
			t.Fatalf("Write = %v", err)
		}
		if err := view.CloseWrite(); err != nil {
			t.Fatalf("CloseWrite = %v", err)
		}
		s.expectOutput(t, view, text)
		if err := view.Close(); err != nil {
			t.Fatalf("Close = %v", err)
		}
	}
	if st, err := tk.Status(s.ctx); err != nil || st.Exit != nil {
		t.Errorf("Status = %+v, %v, want a task that runs on", st, err)
	}
}

func testNoStdin(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Cat, nil)
	view := s.attachView(t, tk, task.Attach{Stdin: true, Stdout: true})
	_, _ = io.WriteString(view, "nobody reads this")
	s.startProcess(t, tk)
	s.waitExit(t, tk, 0)
	if out, _ := s.readAll(t, view); out != "" {
		t.Errorf("view = %q, want nothing", out)
	}
}

func testLeave(t *testing.T, s *suite) {
	tk, _ := s.prepareTask(t, Cat, func(spec *task.Spec) { spec.OpenStdin, spec.StdinOnce = true, true })
	gone := s.attachView(t, tk, output)
	stays := s.attachView(t, tk, task.Attach{Stdin: true, Stdout: true})
	if err := gone.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	s.startProcess(t, tk)
	if _, err := io.WriteString(stays, "text"); err != nil {
		t.Fatalf("Write = %v", err)
	}
	if err := stays.CloseWrite(); err != nil {
		t.Fatalf("CloseWrite = %v", err)
	}
	if out, _ := s.readAll(t, stays); out != "text" {
		t.Errorf("view that stays = %q, want %q", out, "text")
	}
	s.waitExit(t, tk, 0)
}
