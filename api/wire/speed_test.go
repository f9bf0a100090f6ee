package wire_test

import (
	"testing"
	"time"

	"moss/api/apiver"
	"moss/api/types"
	"moss/api/wire"
)

// BenchmarkEncodeList makes a list of 1,000 containers and encodes it, at each version.
func BenchmarkEncodeList(b *testing.B) {
	record := sample()
	for minor := uint16(18); minor <= 24; minor++ {
		version := apiver.New(1, minor)
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
