package storage

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"moss/engine/image"
)

// BenchmarkPutStep makes steps' images one on the other's parent, in a store that has a number of them already.
func BenchmarkPutStep(b *testing.B) {
	for _, have := range []int{0, 1000} {
		for _, kind := range []string{"config", "layer"} {
			b.Run(fmt.Sprintf("%s/%d", kind, have), func(b *testing.B) {
				s := openTemp(b, driverOverlay)
				base := put(b, s, map[string]string{"bin/": "", "bin/sh": "x"}, "base")
				n := 0
				step := func(layered bool) {
					n++
					var layer io.Reader
					if layered {
						layer = bytes.NewReader(tarball(b, map[string]string{"f": strconv.Itoa(n)}))
					}
					_, err := s.PutImage(b.Context(), layer, ImageSpec{
						Base: base.ID, Created: time.Now(), CreatedBy: fmt.Sprintf("/bin/sh -c #(nop)  ENV A=%d", n), OS: "linux",
						Architecture: "amd64", Config: image.Config{Env: []string{fmt.Sprintf("A=%d", n)}}, Step: fmt.Sprint("sha256:", n),
					}, nil)
					if err != nil {
						b.Fatal(err)
					}
				}
				for range have {
					step(true)
				}
				for b.Loop() {
					step(kind == "layer")
				}
			})
		}
	}
}

// BenchmarkSeal runs steps that write some files each, in a store that has a number of steps already. Making, mounting and
// unmounting the container is measured by itself.
func BenchmarkSeal(b *testing.B) {
	for _, tc := range []struct{ have, files int }{{0, 1}, {1000, 1}, {0, 2000}} {
		b.Run(fmt.Sprintf("%d/%dfiles", tc.have, tc.files), func(b *testing.B) {
			s := openTemp(b, driverOverlay)
			base := put(b, s, map[string]string{"bin/": "", "bin/sh": "x"}, "base")
			n := 0
			var unmounting time.Duration
			step := func(files int) {
				n++
				id := newID(b)
				must(b, s.Create(b.Context(), id, base.ID), s.SetVolatile(b.Context(), id, true))
				dir, err := s.Mount(b.Context(), id)
				must(b, err)
				for i := range files {
					write(b, dir, fmt.Sprintf("f%d", i), strconv.Itoa(n))
				}
				before := time.Now()
				must(b, s.Unmount(b.Context(), id))
				unmounting += time.Since(before)
				b.StartTimer()
				_, err = s.Seal(b.Context(), id, stepSpec(base.ID, fmt.Sprint("RUN ", n)), nil)
				b.StopTimer()
				must(b, err, s.Remove(b.Context(), id))
			}
			for range tc.have {
				step(1)
			}
			b.ResetTimer()
			b.StopTimer()
			unmounting = 0
			for range b.N {
				step(tc.files)
			}
			b.ReportMetric(float64(unmounting.Milliseconds())/float64(b.N), "ms/unmount")
		})
	}
}

// BenchmarkView opens and closes the file system of an image.
func BenchmarkView(b *testing.B) {
	s := openTemp(b, driverOverlay)
	img := put(b, s, map[string]string{"bin/": "", "bin/sh": "x"}, "base")
	for b.Loop() {
		view, err := s.View(b.Context(), img.ID)
		must(b, err)
		must(b, view.Close())
	}
}
