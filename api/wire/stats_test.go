package wire_test

import (
	"testing"
	"time"

	"moss/api/wire"
	"moss/engine/stats"
	"moss/engine/stats/top"
)

func TestStatsGolden(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 30, 0, 123456789, time.UTC)
	full := wire.NewStats(&stats.Sample{
		ID: "4fa6", Name: "web", Read: at, PreviousRead: at.Add(-time.Second), Tasks: 3,
		CPU: stats.CPU{
			Total: 30, User: 20, Kernel: 10, PerCPU: []uint64{10, 20}, System: 1000, Online: 2, Periods: 4, ThrottledPeriods: 5, ThrottledTime: 6,
		},
		PreviousCPU: stats.CPU{Total: 3, User: 2, Kernel: 1, PerCPU: []uint64{1, 2}, System: 900, Online: 2},
		Memory: stats.Memory{
			Usage: 4096, MaxUsage: 8192, Limit: 1 << 30, Failures: 7, Details: map[string]uint64{"cache": 5, "rss": 6},
		},
		BlockIO: stats.BlockIO{
			Bytes: []stats.IO{{Major: 8, Minor: 1, Op: "Read", Value: 9}}, Time: []stats.IO{{Major: 8, Value: 10}},
		},
		Networks: map[string]stats.Interface{
			"eth0": {RxBytes: 1, RxPackets: 2, RxErrors: 3, RxDropped: 4, TxBytes: 5, TxPackets: 6, TxErrors: 7, TxDropped: 8},
			"eth1": {RxBytes: 10, RxPackets: 20, RxErrors: 30, RxDropped: 40, TxBytes: 50, TxPackets: 60, TxErrors: 70, TxDropped: 80},
		},
	})
	for _, version := range described() {
		golden(t, "stats", version, full)
		golden(t, "stats-stopped", version, wire.NewStats(&stats.Sample{ID: "4fa6", Name: "web"}))
		golden(t, "top", version, wire.NewTop(&top.Table{Titles: []string{"PID", "CMD"}, Rows: [][]string{{"1", "sh"}}}))
	}
}
