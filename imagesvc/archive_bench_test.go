package imagesvc

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"testing"

	"moss/engine/image"
)

// benchArchive returns the archive to load: the one that MOSS_BENCH_ARCHIVE names, or one of 64 MiB in four layers.
func benchArchive(b *testing.B) (open func() io.ReadCloser, size int64) {
	b.Helper()
	if path := os.Getenv("MOSS_BENCH_ARCHIVE"); path != "" {
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		return func() io.ReadCloser {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			return f
		}, info.Size()
	}
	var layers [][]byte
	for i := range 4 {
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		content := make([]byte, 32<<10)
		for j := range 512 {
			if _, err := rand.Read(content); err != nil {
				b.Fatal(err)
			}
			h := file(fmt.Sprintf("layer%d/file%d", i, j), int64(len(content)))
			if err := w.WriteHeader(&h); err != nil {
				b.Fatal(err)
			}
			if _, err := w.Write(content); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		layers = append(layers, buf.Bytes())
	}
	raw := pack(b, dockerArchive(b, []string{"bench"}, configOf(b, "x", layers...), layers...)...)
	return func() io.ReadCloser { return io.NopCloser(bytes.NewReader(raw)) }, int64(len(raw))
}

func benchLoad(b *testing.B, s *Service, src io.ReadCloser) *image.Image {
	b.Helper()
	if err := s.Load(b.Context(), src, image.LoadOptions{Quiet: true}, nil); err != nil {
		b.Fatal(err)
	}
	if err := src.Close(); err != nil {
		b.Fatal(err)
	}
	all, err := s.List(b.Context(), image.ListOptions{})
	if err != nil || len(all) != 1 {
		b.Fatalf("%d images, %v", len(all), err)
	}
	return all[0]
}

func BenchmarkLoad(b *testing.B) {
	s, _, _ := newService(b, Limits{})
	open, size := benchArchive(b)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		img := benchLoad(b, s, open())
		b.StopTimer()
		if _, err := s.Remove(b.Context(), img.ID, image.RemoveOptions{}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkSave(b *testing.B) {
	s, _, _ := newService(b, Limits{})
	open, size := benchArchive(b)
	img := benchLoad(b, s, open())
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Save(b.Context(), []string{img.ID}, image.SaveOptions{}, func() (io.Writer, error) { return io.Discard, nil }); err != nil {
			b.Fatal(err)
		}
	}
}
