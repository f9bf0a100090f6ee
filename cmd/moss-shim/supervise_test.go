package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"moss/engine/fdstore"
)

// The test binary plays moss-shim itself when it is told to, or an engine.
func TestMain(m *testing.M) {
	if os.Getenv("MOSS_TEST_ENGINE") != "" {
		os.Exit(engine())
	}
	if os.Getenv("MOSS_TEST_SHIM") != "" {
		main()
	}
	os.Exit(m.Run())
}

// shim returns moss-shim supervising a shell script.
func shim(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "supervise", "--", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "MOSS_TEST_SHIM=1", "COUNT="+filepath.Join(t.TempDir(), "count"))
	cmd.Stderr = os.Stderr
	return cmd
}

// counting is the beginning of a script that knows how often it was started.
const counting = `n=$(cat $COUNT 2>/dev/null || echo 0); n=$((n+1)); echo $n >$COUNT; `

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit == nil {
		return 0
	}
	return exit.ExitCode()
}

func TestSuperviseStatus(t *testing.T) {
	for _, tc := range []struct {
		name, script, out string
		code              int
	}{
		{"success", counting + `echo $n; exit 0`, "1\n", 0},
		{"plain failure", counting + `echo $n; exit 3`, "1\n", 3},
		{"restart asked", counting + `echo $n; [ $n = 3 ] && exit 4; exit 75`, "1\n2\n3\n", 4},
		{"panic", counting + `echo $n; [ $n = 2 ] && exit 0; exit 2`, "1\n2\n", 0},
		{"killed", counting + `echo $n; [ $n = 2 ] && exit 5; kill -9 $$`, "1\n2\n", 5},
		{"keeps stdin", `cat`, "input\n", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cmd := shim(t, tc.script)
			var out bytes.Buffer
			cmd.Stdin, cmd.Stdout = strings.NewReader("input\n"), &out
			code := exitCode(t, cmd.Run())
			if code != tc.code || out.String() != tc.out {
				t.Errorf("%q: status %d, output %q, want %d, %q", tc.script, code, out.String(), tc.code, tc.out)
			}
		})
	}
}

// startShim starts a supervised script and waits for its first line.
func startShim(t *testing.T, script string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := shim(t, script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the script says %q, %v", line, err)
	}
	return cmd, r
}

// TestSuperviseNames: the program gets the name that is asked for, and the supervisor is told from the monitors of containers.
func TestSuperviseNames(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "supervise", "--as", "another", "--",
		"sh", "-c", "tr '\\0' ' ' </proc/$$/cmdline; echo; cat /proc/$PPID/comm")
	cmd.Env = append(os.Environ(), "MOSS_TEST_SHIM=1")
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), "another -c ") || !strings.HasSuffix(string(out), "\nmoss-supervisor\n") {
		t.Errorf("output %q, %v, want a command line that begins with the name, and that of the supervisor", out, err)
	}
}

func TestSuperviseSignals(t *testing.T) {
	for _, tc := range []struct {
		name, script, out string
		signals           []os.Signal
		code              int
	}{
		{"terminate", `trap 'echo TERM; exit 75' TERM; echo ready; while :; do sleep 0.1; done`, "TERM\n", []os.Signal{syscall.SIGTERM}, 75},
		{"interrupt, dies of it", `echo ready; while :; do sleep 0.1; done`, "", []os.Signal{syscall.SIGINT}, 128 + 2},
		{"reload", counting + `[ $n = 2 ] && echo again && exit 6; trap 'echo HUP; exit 75' HUP; echo ready; while :; do sleep 0.1; done`, "HUP\nagain\n", []os.Signal{syscall.SIGHUP}, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cmd, out := startShim(t, tc.script)
			for _, s := range tc.signals {
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			var rest bytes.Buffer
			if _, err := rest.ReadFrom(out); err != nil {
				t.Fatal(err)
			}
			if code := exitCode(t, cmd.Wait()); code != tc.code || rest.String() != tc.out {
				t.Errorf("status %d, output %q, want %d, %q", code, rest.String(), tc.code, tc.out)
			}
		})
	}
}

// TestSuperviseDeath: the child does not outlive its supervisor, nor the supervisor its parent.
func TestSuperviseDeath(t *testing.T) {
	alive := func(pid int) bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && !strings.Contains(string(stat), ") Z ")
	}
	for name, wrap := range map[string]bool{"supervisor killed": false, "parent killed": true} {
		t.Run(name, func(t *testing.T) {
			script := `echo ready; echo $$; while :; do sleep 0.1; done`
			cmd, out := func() (*exec.Cmd, *bufio.Reader) {
				if !wrap {
					return startShim(t, script)
				}
				// A shell between the test and the supervisor is the parent that dies.
				cmd := exec.CommandContext(t.Context(), "sh", "-c", `"$0" supervise -- sh -c "$1"; true`, "/proc/"+strconv.Itoa(os.Getpid())+"/exe", script)
				cmd.Env = append(os.Environ(), "MOSS_TEST_SHIM=1")
				pipe, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				r := bufio.NewReader(pipe)
				if line, err := r.ReadString('\n'); err != nil || line != "ready\n" {
					t.Fatalf("the script says %q, %v", line, err)
				}
				return cmd, r
			}()
			line, err := out.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			if !alive(pid) {
				t.Fatalf("process %d is not there", pid)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); alive(pid); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("process %d outlived what supervised it", pid)
				}
			}
			_ = cmd.Wait()
		})
	}
}

// TestBackOff: one child that dies young makes the next ones wait, however many were killed at work before.
func TestBackOff(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name  string
		lived []time.Duration
		want  []time.Duration
	}{
		{"killed at work again and again", []time.Duration{3 * time.Second, 2 * time.Second, time.Second}, []time.Duration{0, 0, 0}},
		{"dies young again and again", []time.Duration{0, 10 * ms, 999 * ms, 0}, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms}},
		{"no longer than the last", make([]time.Duration, 8), []time.Duration{
			100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5 * time.Second, 5 * time.Second,
		}},
		{"once steady, all is forgotten", []time.Duration{0, 0, time.Second, 0}, []time.Duration{100 * ms, 200 * ms, 0, 100 * ms}},
	} {
		var wait time.Duration
		for i, lived := range tc.lived {
			if wait = backOff(wait, lived); wait != tc.want[i] {
				t.Errorf("%s: after life %d, of %s, the next waits %s, want %s", tc.name, i+1, lived, wait, tc.want[i])
			}
		}
	}
}

func TestInherited(t *testing.T) {
	gone := errors.New("gone")
	fetch := func(path string) ([]int, error) {
		if path != "/run/lent" {
			return nil, gone
		}
		return []int{7, 9}, nil
	}
	for _, tc := range []struct {
		name  string
		in    []string
		env   []string
		files []uintptr
		err   error
	}{
		{name: "none", in: []string{"A=1"}, env: []string{"A=1"}, files: []uintptr{0, 1, 2}},
		{
			name: "two", in: []string{"A=1", fdstore.LentEnv + "=/run/lent", "B=2"},
			env: []string{"A=1", "B=2", "MOSS_LISTEN_FDS=2"}, files: []uintptr{0, 1, 2, 7, 9},
		},
		{name: "what others left", in: []string{"LISTEN_PID=42", "LISTEN_FDS=1", "LISTEN_FDNAMES=x", "MOSS_LISTEN_FDS=9"}, files: []uintptr{0, 1, 2}},
		{name: "nobody lends", in: []string{fdstore.LentEnv + "=/nowhere"}, err: gone},
	} {
		env, files, err := takeLentSockets(tc.in, fetch)
		if !slices.Equal(env, tc.env) || !slices.Equal(files, tc.files) || !errors.Is(err, tc.err) {
			t.Errorf("%s: inherited(%q) = %q, %v, %v, want %q, %v, %v", tc.name, tc.in, env, files, err, tc.env, tc.files, tc.err)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		nil, {"run"}, {"supervise", "--"}, {"supervise", "sh"}, {"supervise", "--as", "x", "--"}, {"supervise", "--as", "x", "sh", "y"}, {"nonsense", "x"},
	} {
		if code, err := dispatchCommand(t.Context(), args); code != 2 || err == nil {
			t.Errorf("dispatch(%q) = %d, %v, want 2 and an error", args, code, err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "supervise", "--", "/no/such/program")
	cmd.Env = append(os.Environ(), "MOSS_TEST_SHIM=1")
	if code := exitCode(t, cmd.Run()); code != notExecuted {
		t.Errorf("supervise of a missing program ends with %d, want %d", code, notExecuted)
	}
}

// engine is a supervised program that keeps its standard input and dies of it.
func engine() int {
	store, err := fdstore.FromEnv()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var out bytes.Buffer
	defer func() { _, _ = out.WriteTo(os.Stdout) }()
	fmt.Fprintf(&out, "%q listen=%s", store.Names(), os.Getenv("MOSS_LISTEN_FDS"))
	if os.Getenv("MOSS_LISTEN_FDS") != "" {
		text, err := io.ReadAll(os.NewFile(3, "activated"))
		fmt.Fprintf(&out, " activated=%q %v", text, err)
	}
	fmt.Fprintln(&out)
	if f := store.Take("input"); f != nil {
		text, err := io.ReadAll(f)
		fmt.Fprintf(&out, "input=%q %v\n", text, err)
		return 0
	}
	if err := store.Put("input", 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = out.WriteTo(os.Stdout)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// TestSuperviseKeeps looks that the next program finds what the last one has put away, beside sockets that were lent.
func TestSuperviseKeeps(t *testing.T) {
	for name, tc := range map[string]struct {
		lent bool
		want string
	}{
		"plain": {false, "[] listen=\n[\"input\"] listen=\ninput=\"kept\" <nil>\n"},
		"lent":  {true, "[] listen=1 activated=\"socket\" <nil>\n[\"input\"] listen=1 activated=\"\" <nil>\ninput=\"kept\" <nil>\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "supervise", "--", "sh", "-c", "MOSS_TEST_ENGINE=1 exec /proc/$PPID/exe")
			cmd.Env = append(os.Environ(), "MOSS_TEST_SHIM=1")
			if tc.lent {
				path := filepath.Join(t.TempDir(), "lent")
				stop, err := fdstore.Lend(path, []*os.File{filled(t, "socket")})
				if err != nil {
					t.Fatal(err)
				}
				defer stop() //nolint:errcheck // the folder goes
				cmd.Env = append(cmd.Env, fdstore.LentEnv+"="+path)
			}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr, cmd.Stdin = &out, os.Stderr, filled(t, "kept")
			if err := cmd.Run(); err != nil || out.String() != tc.want {
				t.Errorf("output %q, %v, want %q", out.String(), err, tc.want)
			}
		})
	}
}

// filled returns a pipe with a text in it.
func filled(t *testing.T, text string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return r
}
