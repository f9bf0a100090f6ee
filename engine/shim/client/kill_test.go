package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/shim/client"
	"moss/engine/shim/proto"
	"moss/engine/stdio"
	"moss/engine/task"
)

// The helper process "engine" prepares the task whose spec it reads from stdin, starts it when the spec says so, says
// "ready" and waits for its death.
type order struct {
	Spec  task.Spec
	Start bool
	Exec  *task.ExecSpec // started as well
}

func playEngine() error {
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return err
	}
	r, err := client.New(client.Options{Path: filepath.Join(os.Getenv(envLab), "bin", "moss-shim")})
	if err != nil {
		return err
	}
	r.SetLimits(patience, time.Second, patience)
	ctx := context.Background()
	tk, err := r.Prepare(ctx, o.Spec)
	if err != nil {
		return err
	}
	if o.Start {
		if _, err := tk.Start(ctx); err != nil {
			return err
		}
	}
	if o.Exec != nil {
		p, err := tk.Exec(ctx, *o.Exec)
		if err != nil {
			return err
		}
		if _, err := p.Start(ctx); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(os.Stdout, "ready\n"); err != nil {
		return err
	}
	_, err = tk.Wait(ctx)
	return err
}

// startEngine runs the helper and returns what kills it by SIGKILL.
func startEngine(t *testing.T, o order) (kill func()) {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), envStage+"=engine")
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(data)), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("engine says %q, %v", line, err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

func jsonLog(spec *task.Spec) string {
	spec.Log = task.Log{Driver: "json-file", Path: filepath.Join(spec.Dir, "json.log"), MaxFiles: 1}
	return spec.Log.Path
}

// logText returns what a json-file log holds of one stream, up to limit bytes of the file.
func logText(t *testing.T, path, stream string, limit int64) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var text strings.Builder
	for dec := json.NewDecoder(io.LimitReader(f, limit)); ; {
		var line struct{ Log, Stream string }
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			return text.String()
		} else if err != nil {
			t.Fatalf("log %s: %v", path, err)
		}
		if line.Stream == stream {
			text.WriteString(line.Log)
		}
	}
}

// counted returns the lines 1 to n.
func counted(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func TestEngineKilled(t *testing.T) {
	spec := newSpec(t, sh("i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo $i; done; read line; echo $line; exit 5"))
	spec.OpenStdin = true
	log := jsonLog(&spec)
	startEngine(t, order{Spec: spec, Start: true})()

	tk, err := newRunner(t).Adopt(t.Context(), spec.ID, spec.Dir)
	if err != nil {
		t.Fatalf("Adopt = %v", err)
	}
	t.Cleanup(func() { _ = tk.Delete(context.WithoutCancel(t.Context())) })
	if st, err := tk.Status(t.Context()); err != nil || st.Pid <= 0 {
		t.Fatalf("Status = %+v, %v, want a running task", st, err)
	}
	view := attach(t, tk, task.Attach{Stdin: true, Stdout: true})
	if _, err := io.WriteString(view, "from the next engine\n"); err != nil {
		t.Fatal(err)
	}
	wait(t, tk, 5)
	want := counted(2000) + "from the next engine\n"
	if got := logText(t, log, "stdout", 1<<30); got != want {
		t.Errorf("log has %d bytes, want %d without a gap", len(got), len(want))
	}
}

func TestEndWhileNoEngine(t *testing.T) {
	spec := newSpec(t, sh("sleep 0.2; exit 9"))
	startEngine(t, order{Spec: spec, Start: true})()
	eventually(t, "exit record", func() bool {
		_, err := os.Stat(filepath.Join(spec.Dir, proto.ExitFile))
		return err == nil
	})
	tk, err := newRunner(t).Adopt(t.Context(), spec.ID, spec.Dir)
	if err != nil {
		t.Fatalf("Adopt = %v", err)
	}
	wait(t, tk, 9)
	if err := tk.Delete(t.Context()); err != nil {
		t.Errorf("Delete = %v", err)
	}
}

func TestEngineKilledBeforeStart(t *testing.T) {
	left, adopted := newSpec(t, sh("exit 1")), newSpec(t, sh("exit 4"))
	startEngine(t, order{Spec: left, Start: false})()
	startEngine(t, order{Spec: adopted, Start: false})()
	tk, err := newRunner(t).Adopt(t.Context(), adopted.ID, adopted.Dir)
	if err != nil {
		t.Fatalf("Adopt = %v", err)
	}
	eventually(t, "end of the shim that nobody adopted", func() bool { return len(processes(t, left.Dir)) == 0 })
	if _, err := newRunner(t).Adopt(t.Context(), left.ID, left.Dir); !fault.Is(err, fault.NotFound) {
		t.Errorf("Adopt of the other = %v, want not found", err)
	}
	start(t, tk)
	wait(t, tk, 4)
	if err := tk.Delete(t.Context()); err != nil {
		t.Errorf("Delete = %v", err)
	}
}

// shimOf returns the pid of the shim of a container's first process.
func shimOf(tb testing.TB, pid int) (shim int) {
	tb.Helper()
	eventually(tb, "the shim is the parent", func() bool { // crun's own parent process goes last
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, rest, _ := strings.Cut(string(status), "PPid:")
		_, _ = fmt.Sscan(rest, &shim)
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", shim))
		return string(comm) == "moss-shim\n"
	})
	return shim
}

func TestShimKilled(t *testing.T) {
	spec := newSpec(t, sh("while :; do sleep 1; done"))
	tk := prepare(t, newRunner(t), spec)
	pid := start(t, tk)
	shim := shimOf(t, pid)
	if err := syscall.Kill(shim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit := wait(t, tk, 137); exit.Error == "" {
		t.Errorf("Wait = %+v, want an error text", exit)
	}
	eventually(t, "end of the container", func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(state), ") Z ")
	})
	if err := tk.Delete(t.Context()); err != nil {
		t.Errorf("Delete = %v", err)
	}
}

// pidOf returns the pid of the one process with a command line.
func pidOf(tb testing.TB, line string) int {
	tb.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		tb.Fatal(err)
	}
	for _, file := range files {
		data, _ := os.ReadFile(file) // it may have ended
		if strings.TrimSuffix(strings.ReplaceAll(string(data), "\x00", " "), " ") == line {
			pid, err := strconv.Atoi(strings.Split(file, "/")[2])
			if err != nil {
				tb.Fatal(err)
			}
			return pid
		}
	}
	tb.Fatalf("no process %q", line)
	return 0
}

// TestShimKilledDuringStart kills the shim at several moments of a start: before, in and after the call of the runtime.
func TestShimKilledDuringStart(t *testing.T) {
	slow := func(t *testing.T, spec *task.Spec, script string) {
		crun := filepath.Join(spec.Dir, "crun")
		if err := os.WriteFile(crun, []byte("#!/bin/sh\n"+strings.NewReplacer(
			"CRUN", spec.Runtime.Path+` "$@"`, "$ROOT", spec.Runtime.Root, "$ID", spec.ID, "REACHED", spec.Dir+"/reached").Replace(script)), 0o700); err != nil {
			t.Fatal(err)
		}
		spec.Runtime.Path = crun
	}
	for _, tc := range []struct {
		name, runtime string        // the runtime tells REACHED where it is, and goes on half a second later
		delay         time.Duration // without one: the moment is what the test is about
	}{
		{"runtime is about to start", `case "$*" in *" run "*) >REACHED; sleep 0.5;; esac; exec CRUN`, 0},
		{
			"runtime goes on in a session of its own", // as crun does, which no signal of its parent's end reaches
			`case "$*" in *" run "*) setsid sh -c '>REACHED; sleep 0.5; exec CRUN' crun "$@" & wait;; *) exec CRUN;; esac`, 0,
		},
		{"runtime has started it", `CRUN; case "$*" in *" run "*) >REACHED; sleep 0.5;; esac`, 0},
		{"runtime has started it and not noted so", `CRUN; case "$*" in *" run "*) rm -rf "$ROOT/$ID"; >REACHED; sleep 0.5;; esac`, 0},
		{"somewhere", "", 0},
		{"somewhere", "", 5 * time.Millisecond},
		{"somewhere", "", 10 * time.Millisecond},
		{"somewhere", "", 15 * time.Millisecond},
		{"somewhere", "", 20 * time.Millisecond},
		{"somewhere", "", 30 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
			spec := newSpec(t, sh("while :; do sleep 1; done # "+marker))
			if tc.runtime != "" {
				slow(t, &spec, tc.runtime)
			}
			tk := prepare(t, newRunner(t), spec)
			shim := pidOf(t, "moss-shim run "+spec.Dir)
			started := make(chan struct{})
			go func() {
				defer close(started)
				tk.Start(t.Context()) //nolint:errcheck // it succeeds or fails, depending on the moment
			}()
			if tc.runtime != "" {
				eventually(t, "the runtime gets there", func() bool {
					_, err := os.Stat(filepath.Join(spec.Dir, "reached"))
					return err == nil
				})
			}
			time.Sleep(tc.delay)
			if err := syscall.Kill(shim, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-started
			if err := tk.Delete(t.Context()); err != nil {
				t.Errorf("Delete = %v", err)
			}
			eventually(t, "end of a runtime that goes on without its shim", func() bool {
				return len(processes(t, spec.Dir))+len(processes(t, spec.ID)) == 0
			})
			eventually(t, "nothing is left", func() bool { return len(processes(t, marker)) == 0 })
			eventually(t, "the runtime forgets the container", func() bool {
				_, err := os.Stat(filepath.Join(spec.Runtime.Root, spec.ID))
				return errors.Is(err, os.ErrNotExist)
			})
		})
	}
}

// TestCrashWhileDeleting: the engine dies when the files of an ended task are half removed.
func TestCrashWhileDeleting(t *testing.T) {
	spec := newSpec(t, sh("exit 3"))
	tk := prepare(t, newRunner(t), spec)
	start(t, tk)
	wait(t, tk, 3)
	for _, name := range client.Files() {
		if err := os.Remove(filepath.Join(spec.Dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		next, err := newRunner(t).Adopt(t.Context(), spec.ID, spec.Dir)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			t.Fatalf("Adopt without %s = %v", name, err)
		}
		wait(t, next, 3)
	}
}

func TestKeepalive(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		code         int
		atLeast      time.Duration
	}{
		{"obeys the stop signal", "trap 'exit 3' USR1; echo; while :; do sleep 1 & wait $!; done", 3, 0},
		{"ignores the stop signal", "trap '' USR1; echo; while :; do sleep 1; done", 137, 2 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			spec := newSpec(t, sh(tc.script))
			spec.StopSignal = int(syscall.SIGUSR1)
			spec.Keepalive = filepath.Join(spec.Dir, "alive")
			if err := syscall.Mkfifo(spec.Keepalive, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := newRunner(t).Prepare(t.Context(), spec); !fault.Is(err, fault.Unavailable) {
				t.Fatalf("Prepare without a writer = %v, want unavailable", err)
			}
			outer, err := os.OpenFile(spec.Keepalive, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			tk := prepare(t, newRunner(t), spec)
			view := attach(t, tk, task.Attach{Stdout: true})
			start(t, tk)
			if _, _, err := stdio.ReadFrame(view, nil); err != nil { // the trap is set
				t.Fatal(err)
			}
			begun := time.Now()
			_ = outer.Close()
			exit := wait(t, tk, tc.code)
			if want := "the engine's outer process ended"; exit.Error != want || time.Since(begun) < tc.atLeast {
				t.Errorf("Wait = %+v after %s, want error %q after %s at least", exit, time.Since(begun), want, tc.atLeast)
			}
		})
	}
}

func TestKeepaliveBeforeStart(t *testing.T) {
	spec := newSpec(t, sh("exit 0"))
	spec.Keepalive = filepath.Join(spec.Dir, "alive")
	if err := syscall.Mkfifo(spec.Keepalive, 0o600); err != nil {
		t.Fatal(err)
	}
	outer, err := os.OpenFile(spec.Keepalive, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	tk := prepare(t, newRunner(t), spec)
	_ = outer.Close()
	eventually(t, "end of the shim", func() bool { return len(processes(t, spec.Dir)) == 0 })
	if _, err := tk.Start(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("Start = %v, want a conflict", err)
	}
}
