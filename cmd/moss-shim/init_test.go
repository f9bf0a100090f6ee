package main

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// initCommand returns moss-shim as the first process of a container that runs a command, here without a container.
func initCommand(t *testing.T, command ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = append([]string{"/dev/init", "--"}, command...)
	cmd.Env = append(os.Environ(), "MOSS_TEST_SHIM=1")
	return cmd
}

// startReady starts a command, waits until its child says that it is ready, and returns what the child says from then on.
func startReady(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("child says %q, %v", line, err)
	}
	return lines
}

func TestInitCode(t *testing.T) {
	for _, tc := range []struct {
		command []string
		code    int
	}{
		{[]string{"true"}, 0},
		{[]string{"sh", "-c", "exit 7"}, 7},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137},
		{[]string{"no-such-command"}, 127},
		{[]string{"/no/such/file"}, 127},
		{[]string{"/etc/passwd"}, 126},
	} {
		if code := exitCode(t, initCommand(t, tc.command...).Run()); code != tc.code {
			t.Errorf("init %q = %d, want %d", tc.command, code, tc.code)
		}
	}
}

// TestInitPassesAllSignalsOn: the child gets every signal but those that Go's runtime keeps, and those that nobody can catch.
func TestInitPassesAllSignalsOn(t *testing.T) {
	kept := []int{9, 17, 19, int(unix.SIGURG), int(unix.SIGPROF), 32, 33, 34}
	cmd := initCommand(t, "sh", "-c", `for i in $(seq 64); do trap "echo $i" $i; done 2>/dev/null; trap - CHLD; echo ready
		while kill -0 $PPID; do sleep 0.01; done`) // it ends with its parent
	lines := startReady(t, cmd)
	for i := 1; i <= 64; i++ {
		if slices.Contains(kept, i) {
			continue
		}
		if err := cmd.Process.Signal(syscall.Signal(i)); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || line != strconv.Itoa(i)+"\n" {
			t.Fatalf("after signal %d the child says %q, %v", i, line, err)
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// TestInitPassesSignalsOn: the child gets what its parent gets, and its end is the parent's.
func TestInitPassesSignalsOn(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{unix.SIGUSR1: 5, unix.SIGTERM: 128 + 15, unix.SIGHUP: 128 + 1, unix.SIGWINCH: 6} {
		cmd := initCommand(t, "sh", "-c", "trap 'exit 5' USR1; trap 'exit 6' WINCH; echo ready; while :; do sleep 0.01; done")
		startReady(t, cmd)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if got := exitCode(t, cmd.Wait()); got != code {
			t.Errorf("after %v: code %d, want %d", signal, got, code)
		}
	}
}
