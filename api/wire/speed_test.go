package wire_test

import (
	"testing"
	"time"

	"moss/api/apiver"
	"moss/api/types"
	"moss/api/wire"
)

// BenchmarkEncodeList makes a list of 1,000 containers and encodes it, at versions from the oldest to the newest.
func BenchmarkEncodeList(b *testing.B) {
	record := sample()
	for _, version := range []apiver.Version{apiver.Min, apiver.New(1, 21), apiver.New(1, 24), apiver.New(1, 41), apiver.Max} {
		b.Run(version.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				list := make([]*types.ContainerSummary, 1000)
				for i := range list {
					list[i] = wire.NewContainerSummary(record, time.Time{})
				}
				if _, err := wire.Encode(list, version); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
