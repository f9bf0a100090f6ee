package client_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"moss/engine/task"
)

// readUntil reads a view until its text ends with what a process writes before it waits. A process on a terminal that ends
// instead may lose it: when the leader of a session ends, the kernel drops what its terminal has not passed on.
func readUntil(t *testing.T, view io.Reader, end string) string {
	t.Helper()
	var got []byte
	buf := make([]byte, 1024)
	for !strings.HasSuffix(string(got), end) {
		n, err := view.Read(buf)
		if err != nil {
			t.Fatalf("view = %q, %v, want …%q", got, err, end)
		}
		got = append(got, buf[:n]...)
	}
	return string(got)
}

// TestExecFirstSize: the process sees the size that was asked for last before its start. crun 1.8 sets it while it goes on
// to execute the command, so that a process may see none for a moment and then gets SIGWINCH.
func TestExecFirstSize(t *testing.T) {
	const rounds = 10
	for _, runtime := range runtimes(t) {
		script := "trap 'echo resized' WINCH; stty size; read x"
		if runtime == "crun" {
			script = "until stty size 2>/dev/null | grep -v '^0 0'; do :; done; read x" // BusyBox has an error for none
		}
		tk := prepare(t, newRunner(t), newSpec(t, bundle{args: []string{"sleep", "1000"}, runtime: runtime}))
		start(t, tk)
		for i := range uint16(rounds) {
			p := add(t, tk, script, func(spec *task.ExecSpec) { spec.Terminal, spec.OpenStdin, spec.Width, spec.Height = true, true, 91, 17 })
			if err := p.Resize(t.Context(), 100+i, 30); err != nil {
				t.Fatal(err)
			}
			view := attach(t, p, task.Attach{Stdin: true, Stdout: true})
			start(t, p)
			if got, want := readUntil(t, view, "\n"), fmt.Sprintf("30 %d\r\n", 100+i); got != want {
				t.Errorf("%s: view = %q, want %q", runtime, got, want)
			}
			if _, err := io.WriteString(view, "\n"); err != nil {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(view); strings.Contains(string(rest), "resized") || err != nil {
				t.Errorf("%s: then came %q, %v, want no other size", runtime, rest, err)
			}
		}
	}
}

func TestExecTerminalSize(t *testing.T) {
	tk, _ := idle(t)
	p := add(t, tk, "read x; stty size; trap 'stty size; read y; exit 0' WINCH; echo ready; while :; do sleep 1 & wait $!; done",
		func(spec *task.ExecSpec) { spec.Terminal, spec.OpenStdin, spec.Width, spec.Height = true, true, 91, 17 })
	if err := p.Resize(t.Context(), 92, 18); err != nil {
		t.Errorf("Resize before the start = %v", err)
	}
	view := attach(t, p, task.Attach{Stdin: true, Stdout: true})
	start(t, p)
	if _, err := io.WriteString(view, "go\n"); err != nil {
		t.Fatal(err)
	}
	got := readUntil(t, view, "ready\r\n")
	if err := p.Resize(t.Context(), 120, 40); err != nil {
		t.Fatalf("Resize = %v", err)
	}
	got += readUntil(t, view, "120\r\n")
	if want := "go\r\n18 92\r\nready\r\n40 120\r\n"; got != want {
		t.Errorf("view = %q, want %q", got, want)
	}
	if _, err := io.WriteString(view, "\n"); err != nil {
		t.Fatal(err)
	}
	wait(t, p, 0)
}
