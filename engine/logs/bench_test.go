package logs_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"moss/engine/logs"
	"moss/engine/stdio"
)

// chunks returns 64 KiB pieces of typical output, as a shim reads them from a pipe.
func chunks(kind string) [][]byte {
	var all bytes.Buffer
	for i := 0; all.Len() < 4<<20; i++ {
		switch kind {
		case "text": // about 100 bytes
			fmt.Fprintf(&all, "2026-11-21 10:00:00.%06d INFO  http.server request handled status=200 bytes=%d path=/index\n", i%1000000, i*37%9999)
		case "json":
			fmt.Fprintf(&all, `{"level":"info","n":%d,"msg":"request <handled> & done","path":"/a/b","user":"x%d"}`+"\n", i, i)
		case "utf8":
			fmt.Fprintf(&all, "第%d行：苔藓没有根，但它生长。Größe naïve façade…\n", i)
		case "long":
			all.WriteString(strings.Repeat("x", 5000) + "\n")
		case "short":
			all.WriteString("y\n")
		}
	}
	var out [][]byte
	for b := all.Bytes(); len(b) > 0; {
		n := min(len(b), 64<<10)
		out = append(out, b[:n])
		b = b[n:]
	}
	return out
}

var kinds = []string{"text", "json", "utf8", "long", "short"}

func BenchmarkWrite(b *testing.B) {
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			in := chunks(kind)
			// Two files of 64 MiB keep the folder small and in memory; the cost of rotation is in the figure.
			w, err := logs.Open(filepath.Join(b.TempDir(), "log"), logs.Options{MaxSize: 64 << 20, MaxFiles: 2})
			if err != nil {
				b.Fatal(err)
			}
			at := time.Now()
			b.SetBytes(64 << 10)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := w.Write(stdio.Stdout, in[i%len(in)], at); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.StopTimer()
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkRead counts the bytes of the text that the reader delivers.
func BenchmarkRead(b *testing.B) {
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "log")
			w, err := logs.Open(path, logs.Options{})
			if err != nil {
				b.Fatal(err)
			}
			var size int64
			for size < 32<<20 {
				for _, c := range chunks(kind) {
					size += int64(len(c))
					if err := w.Write(stdio.Stdout, c, time.Now()); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				var got int64
				err := logs.Read(b.Context(), path, logs.ReadOptions{Stdout: true, Stderr: true, Tail: -1}, func(e logs.Entry) error {
					got += int64(len(e.Line))
					return nil
				})
				if err != nil || got != size {
					b.Fatalf("read %d bytes, %v, want %d", got, err, size)
				}
			}
		})
	}
}

func BenchmarkTail100(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log")
	w, err := logs.Open(path, logs.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for range 16 {
		for _, c := range chunks("text") {
			if err := w.Write(stdio.Stdout, c, time.Now()); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		n := 0
		err := logs.Read(b.Context(), path, logs.ReadOptions{Stdout: true, Tail: 100}, func(logs.Entry) error { n++; return nil })
		if err != nil || n != 100 {
			b.Fatal(n, err)
		}
	}
}
