package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"moss/engine/stdio"
	"moss/engine/task"
)

// TestLargeInput sends 100 MB through cat and back.
func TestLargeInput(t *testing.T) {
	spec := newSpec(t, bundle{args: []string{"cat"}})
	spec.OpenStdin, spec.StdinOnce = true, true
	tk := prepare(t, newRunner(t), spec)
	view := attach(t, tk, task.Attach{Stdin: true, Stdout: true})
	start(t, tk)

	const size = 100 << 20
	sent := sha256.New()
	var wg sync.WaitGroup
	wg.Go(func() {
		src := io.LimitReader(rand.NewChaCha8([32]byte{1}), size)
		if n, err := io.Copy(struct{ io.Writer }{view}, io.TeeReader(src, sent)); n != size || err != nil {
			t.Errorf("sent %d bytes, %v, want %d", n, err, size)
		}
		if err := view.CloseWrite(); err != nil {
			t.Errorf("CloseWrite = %v", err)
		}
	})
	got := &counter{Hash: sha256.New()}
	if err := stdio.Demux(view, got, nil); err != nil {
		t.Errorf("Demux = %v", err)
	}
	wg.Wait()
	if got.n != size || !bytes.Equal(got.Sum(nil), sent.Sum(nil)) {
		t.Errorf("received %d bytes with another hash, want %d bytes as sent", got.n, size)
	}
	wait(t, tk, 0)
}

type counter struct {
	hash.Hash
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.Hash.Write(p)
}

// TestBlockedInput: a process that does not read holds up neither its output nor its end.
func TestBlockedInput(t *testing.T) {
	spec := newSpec(t, sh("sleep 0.2; echo still here; exit 6"))
	spec.OpenStdin, spec.StdinOnce = true, true
	tk := prepare(t, newRunner(t), spec)
	view := attach(t, tk, task.Attach{Stdin: true, Stdout: true})
	start(t, tk)
	go func() {
		data := make([]byte, 1<<20)
		for {
			if _, err := view.Write(data); err != nil {
				return
			}
		}
	}()
	var out bytes.Buffer
	if err := stdio.Demux(view, &out, nil); err != nil || out.String() != "still here\n" {
		t.Errorf("view = %q, %v, want %q", out.String(), err, "still here\n")
	}
	wait(t, tk, 6)
}

func TestTerminalSize(t *testing.T) {
	spec := newSpec(t, bundle{})
	spec.Terminal, spec.OpenStdin, spec.Width, spec.Height = true, true, 91, 17
	writeConfig(t, spec, sh("trap 'stty size; read y; exit 0' WINCH; read x; stty size; echo ready; while :; do sleep 1 & wait $!; done"))
	tk := prepare(t, newRunner(t), spec)
	view := attach(t, tk, task.Attach{Stdin: true, Stdout: true})
	start(t, tk)
	if _, err := io.WriteString(view, "go\n"); err != nil {
		t.Fatal(err)
	}
	got := readUntil(t, view, "ready\r\n")
	if err := tk.Resize(t.Context(), 120, 40); err != nil {
		t.Fatalf("Resize = %v", err)
	}
	got += readUntil(t, view, "120\r\n")
	if want := "go\r\n17 91\r\nready\r\n40 120\r\n"; got != want {
		t.Errorf("view = %q, want %q", got, want)
	}
	if _, err := io.WriteString(view, "\n"); err != nil {
		t.Fatal(err)
	}
	wait(t, tk, 0)
}

// TestMark: the log up to the mark and the view after it are the whole output, wherever viewers join.
func TestMark(t *testing.T) {
	const lines = 300000 // more than pipe, socket and the frames read below hold
	spec := newSpec(t, sh("seq 1 300000"))
	log := jsonLog(&spec)
	spec.Log.MaxSize = 0
	tk := prepare(t, newRunner(t), spec)
	slow := attach(t, tk, task.Attach{Stdout: true}) // holds the process up, so that others join in the middle
	start(t, tk)
	type part struct {
		mark int64
		text bytes.Buffer
	}
	var parts []*part
	var wg sync.WaitGroup
	for range 4 {
		if _, _, err := stdio.ReadFrame(slow, nil); err != nil {
			t.Fatal(err)
		}
		view, mark, err := tk.Attach(t.Context(), task.Attach{Stdout: true, Mark: true})
		if err != nil {
			break // it was faster
		}
		p := &part{mark: mark.Size}
		parts = append(parts, p)
		wg.Go(func() { // at once: who does not read while others wait is cut off
			if err := stdio.Demux(view, &p.text, nil); err != nil {
				t.Errorf("Demux = %v", err)
			}
			_ = view.Close()
		})
	}
	if len(parts) == 0 {
		t.Fatal("no viewer joined while the process ran")
	}
	go func() { _, _ = io.Copy(io.Discard, slow) }()
	wg.Wait()
	wait(t, tk, 0)
	want := counted(lines)
	for i, p := range parts {
		if got := logText(t, log, "stdout", p.mark) + p.text.String(); got != want {
			t.Errorf("viewer %d: log up to %d and the view give %d bytes, want %d", i, p.mark, len(got), len(want))
		}
	}
}

// TestStalledViewer: a viewer that does not read holds the process up, as a terminal does, but never its end.
func TestStalledViewer(t *testing.T) {
	spec := newSpec(t, sh("trap 'exit 7' TERM; seq 1 200000; exit 0"))
	log := jsonLog(&spec)
	tk := prepare(t, newRunner(t), spec)
	stalled := attach(t, tk, task.Attach{Stdout: true})
	start(t, tk)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if exit, err := tk.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Wait = %+v, %v, want a process that is held up", exit, err)
	}
	other := attach(t, tk, task.Attach{Stdout: true}) // joining is not held up
	if err := tk.Signal(t.Context(), int(syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	wait(t, tk, 137)
	if err := tk.Delete(t.Context()); err != nil {
		t.Errorf("Delete with a viewer that still reads = %v", err)
	}
	var out, rest bytes.Buffer
	if err := stdio.Demux(stalled, &out, nil); err != nil {
		t.Errorf("Demux = %v", err)
	}
	if err := stdio.Demux(other, &rest, nil); err != nil {
		t.Errorf("Demux = %v", err)
	}
	want := logText(t, log, "stdout", 1<<30)
	if out.String() != want || len(want) == 0 || !strings.HasPrefix(counted(200000), want) {
		t.Errorf("stalled view got %d bytes, the log has %d, want the same beginning of the sequence", out.Len(), len(want))
	}
	if !strings.HasSuffix(want, rest.String()) {
		t.Errorf("second view got %q…, want the end of the log", rest.String()[:min(40, rest.Len())])
	}
	eventually(t, "end of the shim", func() bool { return len(processes(t, spec.Dir)) == 0 })
}

// TestDeadViewer: a viewer that hung up without a word is not waited for.
func TestDeadViewer(t *testing.T) {
	spec := newSpec(t, sh("head -c 20000000 /bin/busybox /bin/busybox /bin/busybox /bin/busybox /bin/busybox; exit 2"))
	tk := prepare(t, newRunner(t), spec)
	dead := attach(t, tk, task.Attach{Stdout: true, Stdin: true})
	start(t, tk)
	buf := make([]byte, 10)
	if _, err := io.ReadFull(dead, buf); err != nil {
		t.Fatal(err)
	}
	_ = dead.Close()
	wait(t, tk, 2)
}

// TestBackground: a process that outlives the first one does not hold up the end, whoever holds the streams.
func TestBackground(t *testing.T) {
	sleep := "sleep " + strconv.FormatInt(time.Now().UnixNano()/1000, 10) // no other process has this command line
	own := sh("setsid " + sleep + " & echo done")
	other := start(t, prepare(t, newRunner(t), newSpec(t, bundle{args: []string{"sleep", "1000"}})))
	for name, b := range map[string]bundle{
		"own pid namespace": own, "host pid namespace": {args: own.args, hostPID: true},
		"another's pid namespace": {args: own.args, joinPID: other},
	} {
		t.Run(name, func(t *testing.T) {
			spec := newSpec(t, b)
			tk := prepare(t, newRunner(t), spec)
			view := attach(t, tk, task.Attach{Stdout: true})
			start(t, tk)
			wait(t, tk, 0)
			var out bytes.Buffer
			if err := stdio.Demux(view, &out, nil); err != nil || out.String() != "done\n" {
				t.Errorf("view = %q, %v, want %q", out.String(), err, "done\n")
			}
			eventually(t, "nothing is left behind", func() bool { return len(processes(t, sleep)) == 0 })
		})
	}
}

// TestExecErrors: what the runtime finds out too late to refuse the start comes as the process's own words.
func TestExecErrors(t *testing.T) {
	spec := newSpec(t, bundle{args: []string{"/bin/badformat"}})
	log := jsonLog(&spec)
	if err := os.Chmod(filepath.Join(os.Getenv(envLab), "rootfs", "bin", "badformat"), 0o755); err != nil {
		t.Fatal(err)
	}
	tk := prepare(t, newRunner(t), spec)
	view := attach(t, tk, task.Attach{Stderr: true})
	start(t, tk)
	exit, err := tk.Wait(t.Context())
	if err != nil || exit.Code == 0 {
		t.Errorf("Wait = %+v, %v, want a code other than 0", exit, err)
	}
	const want = "exec container process `/bin/badformat`: Exec format error\n"
	var errs bytes.Buffer
	if err := stdio.Demux(view, nil, &errs); err != nil || errs.String() != want {
		t.Errorf("view = %q, %v, want %q", errs.String(), err, want)
	}
	if got := logText(t, log, "stderr", 1<<30); got != want {
		t.Errorf("log = %q, want %q", got, want)
	}
}
