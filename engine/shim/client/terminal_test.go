package client_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"moss/engine/task"
)

// TestExecFirstSize: the process sees the size that was asked for last before its start. crun 1.8 sets it while it goes on
// to execute the command, so that a process may see none for a moment and then gets SIGWINCH.
func TestExecFirstSize(t *testing.T) {
	const rounds = 10
	for _, runtime := range runtimes(t) {
		script := "trap 'echo resized' WINCH; stty size; usleep 5000"
		if runtime == "crun" {
			script = "usleep 200000; stty size"
		}
		tk := prepare(t, newRunner(t), newSpec(t, bundle{args: []string{"sleep", "1000"}, runtime: runtime}))
		start(t, tk)
		for i := range uint16(rounds) {
			p := add(t, tk, script, func(spec *task.ExecSpec) { spec.Terminal, spec.Width, spec.Height = true, 91, 17 })
			if err := p.Resize(t.Context(), 100+i, 30); err != nil {
				t.Fatal(err)
			}
			view := attach(t, p, task.Attach{Stdout: true})
			start(t, p)
			got, err := io.ReadAll(view)
			if want := fmt.Sprintf("30 %d\r\n", 100+i); string(got) != want || err != nil {
				t.Errorf("%s: view = %q, %v, want %q", runtime, got, err, want)
			}
		}
	}
}

func TestExecTerminalSize(t *testing.T) {
	tk, _ := idle(t)
	p := add(t, tk, "read x; stty size; trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 1 & wait $!; done",
		func(spec *task.ExecSpec) { spec.Terminal, spec.OpenStdin, spec.Width, spec.Height = true, true, 91, 17 })
	if err := p.Resize(t.Context(), 92, 18); err != nil {
		t.Errorf("Resize before the start = %v", err)
	}
	view := attach(t, p, task.Attach{Stdin: true, Stdout: true})
	start(t, p)
	if _, err := io.WriteString(view, "go\n"); err != nil {
		t.Fatal(err)
	}
	var got []byte
	buf := make([]byte, 1024)
	for !strings.Contains(string(got), "ready") {
		n, err := view.Read(buf)
		if err != nil {
			t.Fatalf("view = %q, %v, want a prompt", got, err)
		}
		got = append(got, buf[:n]...)
	}
	if err := p.Resize(t.Context(), 120, 40); err != nil {
		t.Fatalf("Resize = %v", err)
	}
	rest, err := io.ReadAll(view)
	if err != nil {
		t.Fatal(err)
	}
	if want := "go\r\n18 92\r\nready\r\n40 120\r\n"; string(got)+string(rest) != want {
		t.Errorf("view = %q, want %q", string(got)+string(rest), want)
	}
	wait(t, p, 0)
}
