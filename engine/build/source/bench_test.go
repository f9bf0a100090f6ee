package source

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"testing"
)

// bulk is an archive of n files of size bytes, 50 in a folder.
func bulk(b testing.TB, n, size int) []byte {
	b.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	content := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
	for i := range n {
		if i%50 == 0 {
			if err := w.WriteHeader(entry(fmt.Sprintf("src/package-%05d/", i/50))); err != nil {
				b.Fatal(err)
			}
		}
		h := entry(fmt.Sprintf("src/package-%05d/some-module-%05d.js", i/50, i))
		h.Size = int64(size)
		if err := w.WriteHeader(h); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return buf.Bytes()
}

// BenchmarkIntake takes in contexts; BenchmarkTar unpacks the same ones with the tar program, to compare.
func BenchmarkIntake(b *testing.B) {
	for _, c := range []struct{ n, size int }{{2000, 3500}, {50_000, 3500}, {50_000, 100}, {4, 64 << 20}} {
		b.Run(fmt.Sprintf("%dx%d", c.n, c.size), func(b *testing.B) {
			raw := bulk(b, c.n, c.size)
			var kept uint64
			for b.Loop() {
				var before, after runtime.MemStats
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&before)
				b.StartTimer()
				tree, err := Intake(b.Context(), bytes.NewReader(raw), Options{Dir: b.TempDir()})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				runtime.GC()
				runtime.ReadMemStats(&after)
				kept = after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
				if err := tree.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(kept)/float64(c.n), "B/entry")
		})
	}
}

func BenchmarkTar(b *testing.B) {
	for _, c := range []struct{ n, size int }{{2000, 3500}, {50_000, 3500}} {
		b.Run(fmt.Sprintf("%dx%d", c.n, c.size), func(b *testing.B) {
			raw := bulk(b, c.n, c.size)
			for b.Loop() {
				cmd := exec.CommandContext(b.Context(), "tar", "-x", "-C", b.TempDir())
				cmd.Stdin = bytes.NewReader(raw)
				cmd.Stderr = io.Discard
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
