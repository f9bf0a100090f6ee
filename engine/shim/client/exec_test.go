package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/shim/proto"
	"moss/engine/stdio"
	"moss/engine/task"
)

var execs atomic.Int64 //nolint:gochecknoglobals // counts for execID

// execID returns an id that no other call returns.
func execID() string { return fmt.Sprintf("%064x", execs.Add(1)) }

// idle starts a container that does nothing.
func idle(tb testing.TB) (task.Task, task.Spec) {
	tb.Helper()
	spec := newSpec(tb, bundle{args: []string{"sleep", "1000"}})
	tk := prepare(tb, newRunner(tb), spec)
	start(tb, tk)
	return tk, spec
}

// add makes an added process of a shell script.
func add(tb testing.TB, tk task.Task, script string, change func(*task.ExecSpec)) task.Process {
	tb.Helper()
	spec := task.ExecSpec{ID: execID()}
	if change != nil {
		change(&spec)
	}
	spec.Process = process(tb, sh(script), spec.Terminal)
	p, err := tk.Exec(tb.Context(), spec)
	if err != nil {
		tb.Fatalf("Exec = %v", err)
	}
	return p
}

// run adds a process, runs it to its end and returns what it wrote.
func run(tb testing.TB, tk task.Task, script string, code int) (stdout, stderr string) {
	tb.Helper()
	p := add(tb, tk, script, nil)
	view := attach(tb, p, task.Attach{Stdout: true, Stderr: true})
	start(tb, p)
	var out, errs bytes.Buffer
	if err := stdio.Demux(view, &out, &errs); err != nil {
		tb.Fatalf("Demux = %v", err)
	}
	wait(tb, p, code)
	if err := p.Delete(tb.Context()); err != nil {
		tb.Fatalf("Delete = %v", err)
	}
	_ = view.Close()
	return out.String(), errs.String()
}

// shimState is what the shim of a container holds.
type shimState struct{ fds, threads, zombies, kib int }

func stateOf(tb testing.TB, shim int) (s shimState) {
	tb.Helper()
	proc := "/proc/" + strconv.Itoa(shim)
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		tb.Fatal(err)
	}
	threads, err := os.ReadDir(proc + "/task")
	if err != nil {
		tb.Fatal(err)
	}
	for _, thread := range threads {
		children, _ := os.ReadFile(filepath.Join(proc, "task", thread.Name(), "children"))
		for child := range strings.FieldsSeq(string(children)) {
			stat, _ := os.ReadFile("/proc/" + child + "/stat")
			if strings.Contains(string(stat), ") Z ") {
				s.zombies++
			}
		}
	}
	s.fds, s.threads, s.kib = len(fds), len(threads), pss(tb, shim)
	return s
}

// TestExecsLeaveNothing: a thousand processes of every kind leave the shim as it was.
func TestExecsLeaveNothing(t *testing.T) {
	tk, spec := idle(t)
	st, err := tk.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shim := shimOf(t, st.Pid)
	kinds := []func(){
		func() { run(t, tk, "exit 0", 0) },
		func() { run(t, tk, "echo out; echo err >&2; exit 1", 1) },
		func() { // with a terminal that nobody looks at
			p := add(t, tk, "echo", func(spec *task.ExecSpec) { spec.Terminal, spec.OpenStdin, spec.Width = true, true, 80 })
			start(t, p)
			wait(t, p, 0)
			_ = p.Delete(t.Context())
		},
		func() { // with input
			p := add(t, tk, "cat", func(spec *task.ExecSpec) { spec.OpenStdin = true })
			view := attach(t, p, task.Attach{Stdin: true, Stdout: true})
			start(t, p)
			_ = view.CloseWrite()
			wait(t, p, 0)
			_ = p.Delete(t.Context())
			_ = view.Close()
		},
		func() { // refused
			p, err := tk.Exec(t.Context(), task.ExecSpec{ID: execID(), Process: process(t, bundle{args: []string{"nope"}}, false)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Start(t.Context()); !fault.Is(err, fault.NotFound) {
				t.Fatalf("Start = %v, want not found", err)
			}
			_ = p.Delete(t.Context())
		},
		func() { // never started
			p := add(t, tk, "exit 0", nil)
			_ = p.Delete(t.Context())
		},
	}
	round := func(n int) {
		for i := range n {
			kinds[i%len(kinds)]()
		}
	}
	round(120) // the shim's heap grows to its usual size
	before := stateOf(t, shim)
	const slack = 700 // in KiB: garbage not collected yet
	count := 1000
	if raceDetector { // which makes all of it ten times slower
		count = 200
	}
	round(count)
	var after shimState
	eventually(t, "the shim's state is as before", func() bool {
		after = stateOf(t, shim)
		return after.fds <= before.fds && after.zombies == 0
	})
	t.Logf("before %+v, after %+v", before, after)
	if after.threads > before.threads+10 { // a busy machine makes the Go runtime start one more now and then
		t.Errorf("%d threads, want about %d", after.threads, before.threads)
	}
	if !raceDetector && after.kib > before.kib+slack {
		t.Errorf("the shim takes %d KiB, want about %d", after.kib, before.kib)
	}
	if left, err := os.ReadDir(filepath.Join(spec.Dir, proto.ExecFolder)); err != nil || len(left) > 0 {
		t.Errorf("folders %v, %v, want none", left, err)
	}
}

// TestExecEndIsBounded: whoever holds the streams, the end of the process is that of the view, a bounded time later.
func TestExecEndIsBounded(t *testing.T) {
	for name, script := range map[string]string{
		"holds the pipe":       "sleep 1000 & echo done; read x",
		"keeps writing":        "echo done; yes >&2 & read x",
		"holds another's pipe": "setsid sleep 1000 <&- & echo done; read x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, terminal := range []bool{false, true} {
				tk, _ := idle(t)
				p := add(t, tk, script, func(spec *task.ExecSpec) { spec.Terminal, spec.OpenStdin = terminal, true })
				view := attach(t, p, task.Attach{Stdin: true, Stdout: true})
				stalled := attach(t, p, task.Attach{Stdout: true, Stderr: true})
				start(t, p)
				if _, err := io.ReadFull(view, make([]byte, len("done"))); err != nil { // it is there, and so is who goes on
					t.Fatal(err)
				}
				if _, err := io.WriteString(view, "\n"); err != nil {
					t.Fatal(err)
				}
				wait(t, p, 0) // however long those who hold the streams go on
				if _, err := io.Copy(io.Discard, view); err != nil {
					t.Errorf("the view ends with %v", err)
				}
				rest, err := io.ReadAll(stalled)
				if err != nil || len(rest) > 4<<20 {
					t.Errorf("the viewer that did not read got %d bytes, %v, want what a pipe holds", len(rest), err)
				}
				if st, err := tk.Status(t.Context()); err != nil || st.Exit != nil {
					t.Errorf("Status = %+v, %v, want a container that runs on", st, err)
				}
			}
		})
	}
}

// TestExecStalledViewer: who does not read gets all the same what the process wrote, and holds up its end for a bounded
// time only.
func TestExecStalledViewer(t *testing.T) {
	tk, _ := idle(t)
	for name, script := range map[string]string{"ends": "seq 1 60000; echo done", "leaves a child": "seq 1 60000; sleep 1000 & echo done"} {
		p := add(t, tk, script, nil)
		stalled := attach(t, p, task.Attach{Stdout: true})
		start(t, p)
		wait(t, p, 0)
		var out bytes.Buffer
		if err := stdio.Demux(stalled, &out, nil); err != nil || out.String() != counted(60000)+"done\n" {
			t.Errorf("%s: the view has %d bytes, %v, want %d", name, out.Len(), err, len(counted(60000))+5)
		}
	}
}

// TestExecInheritsNothing: an added process has its streams and nothing else of the shim's.
func TestExecInheritsNothing(t *testing.T) {
	tk, _ := idle(t)
	waiting := add(t, tk, "read x", func(spec *task.ExecSpec) { spec.OpenStdin = true })
	start(t, waiting) // the shim holds the pipes of another process
	out, _ := run(t, tk, "ls=$(echo /proc/self/fd/*); echo $ls", 0)
	if strings.Contains(out, "/fd/4") {
		t.Errorf("the process has %q, want its streams and the shell's own folder at most", out)
	}
}

// TestExecRefusals: the words for what cannot be executed are those that clients look for.
func TestExecRefusals(t *testing.T) {
	tk, _ := idle(t)
	for _, tc := range []struct{ command, want string }{
		{"nope", `OCI runtime exec failed: crun: exec: "nope": executable file not found in $PATH`},
		{"/nope", `OCI runtime exec failed: crun: exec: "/nope": stat /nope: no such file or directory`},
		{"/bin/plainfile", `OCI runtime exec failed: crun: exec: "/bin/plainfile": permission denied`},
		{"/proc", `OCI runtime exec failed: crun: exec: "/proc": permission denied`},
	} {
		p, err := tk.Exec(t.Context(), task.ExecSpec{ID: execID(), Process: process(t, bundle{args: []string{tc.command}}, false)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Start(t.Context()); err == nil || err.Error() != tc.want {
			t.Errorf("Start(%s) = %v, want %s", tc.command, err, tc.want)
		}
	}
	broken, err := tk.Exec(t.Context(), task.ExecSpec{ID: execID(), Process: []byte(`{"args":`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := broken.Start(t.Context()); err == nil || fault.KindOf(err) != fault.KindInternal {
		t.Errorf("Start of what is no process = %v, want a plain error", err)
	}
	wait(t, broken, 128)
	for _, id := range []string{"", "..", "../../x", strings.Repeat("g", 64), strings.Repeat("a", 63)} {
		if _, err := tk.Exec(t.Context(), task.ExecSpec{ID: id, Process: []byte("{}")}); !fault.Is(err, fault.Invalid) {
			t.Errorf("Exec(%q) = %v, want invalid", id, err)
		}
		if _, err := tk.AdoptExec(t.Context(), id); !fault.Is(err, fault.NotFound) {
			t.Errorf("AdoptExec(%q) = %v, want not found", id, err)
		}
	}
}

// TestExecWithoutFolder: the container ends and its task is deleted while a process is about to be added.
func TestExecWithoutFolder(t *testing.T) {
	tk, spec := idle(t)
	aside := spec.Dir + ".aside"
	if err := os.Rename(spec.Dir, aside); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Rename(aside, spec.Dir); err != nil {
			t.Error(err)
		}
	}()
	if _, err := tk.Exec(t.Context(), task.ExecSpec{ID: execID(), Process: []byte("{}")}); !fault.Is(err, fault.Conflict) {
		t.Errorf("Exec = %v, want a conflict: it does not run", err)
	}
}

// TestExecsAtOnce: they do not disturb each other, nor does a pause.
func TestExecsAtOnce(t *testing.T) {
	tk, _ := idle(t)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 10 {
				want := fmt.Sprintf("%d-%d\n", worker, i)
				p := add(t, tk, "echo "+want+"exit "+strconv.Itoa(worker), nil)
				view := attach(t, p, task.Attach{Stdout: true})
				_, err := p.Start(t.Context())
				for ; fault.Is(err, fault.Conflict); _, err = p.Start(t.Context()) {
					time.Sleep(time.Millisecond) // it is paused
				}
				if err != nil {
					t.Errorf("Start = %v", err)
				}
				var out bytes.Buffer
				if err := stdio.Demux(view, &out, nil); err != nil || out.String() != want {
					t.Errorf("view = %q, %v, want %q", out.String(), err, want)
				}
				if exit, err := p.Wait(t.Context()); err != nil || exit.Code != worker {
					t.Errorf("Wait = %+v, %v, want code %d", exit, err, worker)
				}
				if err := p.Delete(t.Context()); err != nil {
					t.Errorf("Delete = %v", err)
				}
			}
		})
	}
	for range 10 {
		if err := errors.Join(tk.Pause(t.Context()), tk.Resume(t.Context())); err != nil {
			t.Errorf("Pause, Resume = %v", err)
		}
	}
	wg.Wait()
}

// TestExecMeetsTheEnd: the container is killed while processes are being added. Nothing hangs and nothing is left.
func TestExecMeetsTheEnd(t *testing.T) {
	for name, b := range map[string]bundle{
		"own pid namespace": {args: []string{"sleep", "1000"}}, "host pid namespace": {args: []string{"sleep", "1000"}, hostPID: true},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range 12 {
				spec := newSpec(t, b)
				tk := prepare(t, newRunner(t), spec)
				start(t, tk)
				marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
				ps := make([]task.Process, 3)
				for j := range ps {
					ps[j] = add(t, tk, "while :; do sleep 1; done # "+marker, nil)
				}
				var wg sync.WaitGroup
				for _, p := range ps {
					wg.Go(func() { _, _ = p.Start(t.Context()) }) // it succeeds or fails, depending on the moment
				}
				time.Sleep(time.Duration(i) * time.Millisecond) // the moment is what the test is about
				if err := tk.Signal(t.Context(), int(syscall.SIGKILL)); err != nil {
					t.Fatal(err)
				}
				wg.Wait()
				wait(t, tk, 137)
				for _, p := range ps {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					if exit, err := p.Wait(ctx); err != nil || exit.Code != 137 && exit.Code != 128 {
						t.Errorf("Wait = %+v, %v, want 137, or 128 if the runtime failed", exit, err)
					}
					cancel()
				}
				eventually(t, "nothing is left", func() bool { return len(processes(t, marker)) == 0 })
				if err := tk.Delete(t.Context()); err != nil {
					t.Errorf("Delete = %v", err)
				}
				eventually(t, "end of the shim", func() bool { return len(processes(t, spec.Dir)) == 0 })
			}
		})
	}
}
