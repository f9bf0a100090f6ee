package storage

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"testing"
)

// likeAnImage makes a plain archive of some bytes with as many files as images have.
func likeAnImage(b *testing.B, size int) []byte {
	b.Helper()
	list := []*tar.Header{folder("usr/")}
	body := noise(1, 1<<20)
	for i := 0; size > 0; i++ {
		n := min(size, []int{2_000, 10_000, 60_000, 900_000}[i%4])
		if i%100 == 0 {
			list = append(list, folder(fmt.Sprintf("usr/d%d/", i/100)))
		}
		list = append(list, file(fmt.Sprintf("usr/d%d/f%d", i/100, i), body[:n]))
		size -= n
	}
	return entries(b, list...)
}

func BenchmarkStage(b *testing.B) {
	for _, size := range []int{10 << 20, 200 << 20} {
		b.Run(fmt.Sprintf("%dMiB", size>>20), func(b *testing.B) {
			s := openTemp(b, driverOverlay)
			plain := likeAnImage(b, size)
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				staged, err := s.Stage(b.Context(), bytes.NewReader(plain), Blob{Size: -1})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := staged.Discard(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func BenchmarkOpenLayer(b *testing.B) {
	s := openTemp(b, driverOverlay)
	plain := likeAnImage(b, 200<<20)
	img := mustPull(b, s, "bench", nil, plain)
	read := func(b *testing.B, open func(context.Context) (io.ReadCloser, error)) {
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			r, err := open(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			n, err := io.Copy(io.Discard, r)
			if err != nil || n != int64(len(plain)) {
				b.Fatalf("read %d bytes: %v", n, err)
			}
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("ahead", func(b *testing.B) {
		read(b, func(ctx context.Context) (io.ReadCloser, error) { return s.OpenLayer(ctx, img.ID, 0) })
	})
	b.Run("library", func(b *testing.B) {
		read(b, func(context.Context) (io.ReadCloser, error) { return s.cs.Diff("", img.TopLayer, nil) })
	})
}

func BenchmarkPutPulled(b *testing.B) {
	s := openTemp(b, driverOverlay)
	i := 0
	for b.Loop() {
		b.StopTimer()
		i++
		plain := make([][]byte, 0, 10)
		for l := range 10 {
			plain = append(plain, entries(b, file(fmt.Sprintf("f%d-%d", i, l), "x")))
		}
		p := pulled(b, strconv.Itoa(i), []string{"bench"}, plain...)
		for l := range plain {
			p.Layers[l] = stage(b, s, plain[l])
		}
		b.StartTimer()
		if _, err := s.PutPulled(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}
