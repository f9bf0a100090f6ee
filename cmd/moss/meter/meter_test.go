package meter_test

import (
	"encoding/json"
	"math"
	"testing"

	"moss/api/types"
	"moss/cmd/moss/meter"
)

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name, before, sample string
		want                 meter.Reading
	}{
		{
			name: "cgroup v1",
			sample: `{"pids_stats":{"current":3},
				"networks":{"eth0":{"rx_bytes":10,"tx_bytes":20},"eth1":{"rx_bytes":1,"tx_bytes":2}},
				"memory_stats":{"usage":1000,"limit":4000,"stats":{"total_inactive_file":200,"inactive_file":7}},
				"blkio_stats":{"io_service_bytes_recursive":[{"op":"Read","value":5},{"op":"Write","value":6},{"op":"Total","value":11},{"op":"Read","value":50}]},
				"cpu_stats":{"cpu_usage":{"total_usage":300,"percpu_usage":[100,100,50,50]},"system_cpu_usage":2000},
				"precpu_stats":{"cpu_usage":{"total_usage":200},"system_cpu_usage":1000}}`,
			want: meter.Reading{CPU: 40, Memory: 800, Limit: 4000, MemoryPercent: 20, Received: 11, Sent: 22, Loaded: 55, Written: 6, Processes: 3},
		},
		{
			name: "cgroup v2",
			sample: `{"pids_stats":{"current":1},"memory_stats":{"usage":1000,"limit":2000,"stats":{"inactive_file":500}},
				"blkio_stats":{"io_service_bytes_recursive":[{"op":"read","value":5},{"op":"write","value":6}]},
				"cpu_stats":{"cpu_usage":{"total_usage":1100},"system_cpu_usage":3000,"online_cpus":2},
				"precpu_stats":{"cpu_usage":{"total_usage":100},"system_cpu_usage":1000,"online_cpus":2}}`,
			want: meter.Reading{CPU: 100, Memory: 500, Limit: 2000, MemoryPercent: 25, Loaded: 5, Written: 6, Processes: 1},
		},
		{
			name:   "version 1.18: one network, no sample before",
			sample: `{"network":{"rx_bytes":3,"tx_bytes":4},"memory_stats":{"usage":8},"cpu_stats":{"cpu_usage":{"total_usage":9},"system_cpu_usage":10}}`,
			want:   meter.Reading{Memory: 8, Received: 3, Sent: 4, ProcessesUnknown: true},
		},
		{
			name:   "version 1.18: the sample before is the stream's",
			before: `{"cpu_stats":{"cpu_usage":{"total_usage":100,"percpu_usage":[50,50]},"system_cpu_usage":1000}}`,
			sample: `{"pids_stats":{"current":1},"cpu_stats":{"cpu_usage":{"total_usage":200,"percpu_usage":[100,100]},"system_cpu_usage":2000}}`,
			want:   meter.Reading{CPU: 20, Processes: 1},
		},
		{
			name:   "no cgroups: the clock",
			before: `{"read":"2026-01-01T00:00:00Z","cpu_stats":{"cpu_usage":{"total_usage":0}}}`,
			sample: `{"read":"2026-01-01T00:00:02Z","pids_stats":{"current":1},"memory_stats":{"usage":10,"stats":{"rss":10}},
				"cpu_stats":{"cpu_usage":{"total_usage":500000000}}}`,
			want: meter.Reading{CPU: 25, Memory: 10, Processes: 1},
		},
		{
			name:   "a container that stands",
			sample: `{"read":"0001-01-01T00:00:00Z","cpu_stats":{},"precpu_stats":{}}`,
		},
		{
			name:   "counters that ran backwards, cache beyond the usage",
			sample: `{"pids_stats":{"current":1},"memory_stats":{"usage":10,"stats":{"inactive_file":20}},"cpu_stats":{"cpu_usage":{"total_usage":1},"system_cpu_usage":1,"online_cpus":1},"precpu_stats":{"cpu_usage":{"total_usage":5},"system_cpu_usage":5}}`,
			want:   meter.Reading{Memory: 10, Processes: 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var before *types.Stats
			if tc.before != "" {
				before = &types.Stats{}
				decode(t, tc.before, before)
			}
			var sample types.Stats
			decode(t, tc.sample, &sample)
			if got := meter.Read(sample, before); got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func decode(t *testing.T, text string, into *types.Stats) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"cpu_stats":{"cpu_usage":{"total_usage":1},"system_cpu_usage":18446744073709551615,"online_cpus":1}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var sample types.Stats
		if json.Unmarshal(raw, &sample) != nil {
			return
		}
		if got := meter.Read(sample, &types.Stats{}); math.IsNaN(got.CPU) || got.CPU < 0 || math.IsNaN(got.MemoryPercent) {
			t.Errorf("Read(%s) = %+v", raw, got)
		}
	})
}
