package storage

import (
	"strconv"
	"testing"
)

// BenchmarkContainersBeside makes and removes the layer of a container beside those of others.
func BenchmarkContainersBeside(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(strconv.Itoa(others), func(b *testing.B) {
			ctx := b.Context()
			s := openTemp(b, driverOverlay)
			img := put(b, s, map[string]string{"bin/": "", "bin/sh": "x"}, "base")
			for range others {
				must(b, s.Create(ctx, newID(b), img.ID))
			}
			for b.Loop() {
				id := newID(b)
				must(b, s.Create(ctx, id, img.ID), s.Remove(ctx, id))
			}
		})
	}
}
