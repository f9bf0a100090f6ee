package copying

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"moss/engine/build/source"
)

// bulk returns a tree of n files of size bytes, 50 in a folder, that came as a client's archive.
func bulk(t testing.TB, n, size int) *source.Tree {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	content := bytes.Repeat([]byte("x"), size)
	for i := range n {
		h := &tar.Header{Name: fmt.Sprintf("src/package-%05d/module-%05d.js", i/50, i), Size: int64(size), Mode: 0o644, ModTime: then}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tree, err := source.Intake(t.Context(), &archive, source.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return tree
}

// BenchmarkWriteLayer copies a context into a folder that an image has: plan, digest and layer.
func BenchmarkWriteLayer(b *testing.B) {
	for _, c := range []struct{ n, size int }{{2000, 2000}, {50_000, 100}, {4, 64 << 20}} {
		b.Run(fmt.Sprintf("%dx%d", c.n, c.size), func(b *testing.B) {
			tree := bulk(b, c.n, c.size)
			root, err := os.OpenRoot(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			if err := root.MkdirAll("app/src", 0o755); err != nil {
				b.Fatal(err)
			}
			dir, err := root.Open(".")
			if err != nil {
				b.Fatal(err)
			}
			base := source.Rooted(dir)
			b.SetBytes(int64(c.n * c.size))
			for b.Loop() {
				plan, err := NewPlan(b.Context(), Request{Items: from(tree, "."), Dest: "/app"})
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := plan.Digest(b.Context()); err != nil {
					b.Fatal(err)
				}
				if err := plan.WriteLayer(b.Context(), base, io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestMemory copies 50,000 files and looks at what a plan holds: contents are not kept.
func TestMemory(t *testing.T) {
	const n, size = 50_000, 600
	tree := bulk(t, n, size)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	plan, err := NewPlan(t.Context(), Request{Items: from(tree, "."), Dest: "/app"})
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.WriteLayer(t.Context(), nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept, most := int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(n*400); kept > most {
		t.Errorf("a plan of %d files holds %d bytes, want at most %d", n, kept, most)
	}
	runtime.KeepAlive(plan)
}
