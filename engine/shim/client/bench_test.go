package client_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"moss/engine/task"
)

// BenchmarkLife measures the four steps of a container that does nothing.
func BenchmarkLife(b *testing.B) {
	r := newRunner(b)
	var steps [4]time.Duration
	for b.Loop() {
		b.StopTimer()
		spec := newSpec(b, bundle{args: []string{"true"}})
		b.StartTimer()
		at := time.Now()
		lap := func(i int) {
			now := time.Now()
			steps[i] += now.Sub(at)
			at = now
		}
		tk, err := r.Prepare(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		lap(0)
		if _, err := tk.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		lap(1)
		if _, err := tk.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		lap(2)
		if err := tk.Delete(b.Context()); err != nil {
			b.Fatal(err)
		}
		lap(3)
	}
	for i, name := range []string{"prepare-ms", "start-ms", "wait-ms", "delete-ms"} {
		b.ReportMetric(steps[i].Seconds()*1000/float64(b.N), name)
	}
}

// BenchmarkOutput measures how fast output reaches a viewer.
func BenchmarkOutput(b *testing.B) {
	const size = 500 << 20
	for _, driver := range []string{"none", "json-file"} {
		b.Run(driver, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				spec := newSpec(b, sh("dd if=/dev/zero bs=128k count=4000 2>/dev/null"))
				if driver == "json-file" {
					jsonLog(&spec)
					spec.Log.MaxSize, spec.Log.MaxFiles = 64<<20, 2
				}
				tk := prepare(b, newRunner(b), spec)
				view := attach(b, tk, task.Attach{Stdout: true})
				start(b, tk)
				if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{view}, make([]byte, 256<<10)); n < size || err != nil {
					b.Fatalf("received %d bytes, %v, want at least %d", n, err, size)
				}
				wait(b, tk, 0)
			}
		})
	}
}

// pss returns the proportional memory of processes in KiB.
func pss(tb testing.TB, pid int) (kib int) {
	tb.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "Pss:"); ok {
			kib, err = strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(rest, " kB")))
			if err != nil {
				tb.Fatal(err)
			}
			return kib
		}
	}
	tb.Fatalf("no Pss of %d", pid)
	return 0
}

// TestMemory: a running container with its shim adds at most 1.5 MiB.
func TestMemory(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector's memory is not the shim's: run without -race")
	}
	const count = 10
	var shims, all int
	pids := make([]int, 0, count)
	r := newRunner(t)
	for range count {
		spec := newSpec(t, bundle{args: []string{"sleep", "1000"}})
		jsonLog(&spec)
		tk := prepare(t, r, spec)
		pids = append(pids, start(t, tk))
	}
	for _, pid := range pids {
		shim := pss(t, shimOf(t, pid))
		shims += shim
		all += shim + pss(t, pid)
	}
	t.Logf("PSS: shim %d KiB, with its container %d KiB", shims/count, all/count)
	if got := all / count; got > 1536 {
		t.Errorf("a container adds %d KiB, want at most 1536", got)
	}
}

// BenchmarkRuntime is the floor of BenchmarkLife: the runtime alone runs the same bundle.
func BenchmarkRuntime(b *testing.B) {
	spec := newSpec(b, bundle{args: []string{"true"}})
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), spec.Runtime.Path, append(spec.Runtime.GlobalArgs, "--root", spec.Runtime.Root, "run", "--bundle", spec.Dir, spec.ID)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}

// BenchmarkExec measures an added process that does nothing.
func BenchmarkExec(b *testing.B) {
	tk := prepare(b, newRunner(b), newSpec(b, bundle{args: []string{"sleep", "1000"}}))
	start(b, tk)
	var steps [4]time.Duration
	for b.Loop() {
		at := time.Now()
		lap := func(i int) {
			now := time.Now()
			steps[i] += now.Sub(at)
			at = now
		}
		p, err := tk.Exec(b.Context(), task.ExecSpec{ID: execID(), Process: process(b, bundle{args: []string{"true"}}, false)})
		if err != nil {
			b.Fatal(err)
		}
		lap(0)
		if _, err := p.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		lap(1)
		if exit, err := p.Wait(b.Context()); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		lap(2)
		if err := p.Delete(b.Context()); err != nil {
			b.Fatal(err)
		}
		lap(3)
	}
	for i, name := range []string{"exec-ms", "start-ms", "wait-ms", "delete-ms"} {
		b.ReportMetric(steps[i].Seconds()*1000/float64(b.N), name)
	}
}

// BenchmarkRuntimeExec is the floor of BenchmarkExec: the runtime alone.
func BenchmarkRuntimeExec(b *testing.B) {
	spec := newSpec(b, bundle{args: []string{"sleep", "1000"}})
	start(b, prepare(b, newRunner(b), spec))
	file := filepath.Join(spec.Dir, "p.json")
	if err := os.WriteFile(file, process(b, bundle{args: []string{"true"}}, false), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), spec.Runtime.Path, append(spec.Runtime.GlobalArgs, "--root", spec.Runtime.Root, "exec", "--process", file, spec.ID)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}
