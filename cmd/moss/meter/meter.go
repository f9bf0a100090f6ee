// Package meter works out what stats shows of a container's samples. It knows the versions of cgroups by the fields of a
// sample only, and asks nobody.
package meter

import (
	"time"

	"moss/api/types"
)

// Reading is what one sample says, together with the one before it.
type Reading struct {
	CPU              float64 // percent of one CPU
	Memory, Limit    uint64  // bytes; the page cache that can be dropped is not counted
	MemoryPercent    float64 // of the limit
	Received, Sent   uint64  // bytes over all interfaces
	Loaded, Written  uint64  // bytes from and to block devices
	Processes        uint64
	ProcessesUnknown bool // nothing counts them
}

// Read works a sample out. before is the sample before it in the stream, nil without one: a sample carries the CPU
// times of its predecessor itself, but not in every version of the API.
func Read(sample types.Stats, before *types.Stats) Reading {
	r := Reading{
		CPU: cpuPercent(sample, before), Memory: memoryInUse(sample.MemoryStats),
		Limit: sample.MemoryStats.Limit, Processes: sample.PidsStats.Current,
	}
	r.ProcessesUnknown = sample.PidsStats.Current == 0 && sample.CPUStats.CPUUsage.TotalUsage > 0
	if r.Limit > 0 {
		r.MemoryPercent = float64(r.Memory) / float64(r.Limit) * 100
	}
	r.Received, r.Sent = sample.Network.RxBytes, sample.Network.TxBytes
	for _, counters := range sample.Networks {
		r.Received += counters.RxBytes
		r.Sent += counters.TxBytes
	}
	for _, entry := range sample.BlkioStats.IoServiceBytesRecursive {
		// cgroup v1 writes Read and Write, cgroup v2 read and write; both have sums beside them.
		switch entry.Op {
		case "Read", "read":
			r.Loaded += entry.Value
		case "Write", "write":
			r.Written += entry.Value
		}
	}
	return r
}

// cpuPercent returns the share of one CPU in percent that was used between two samples.
func cpuPercent(sample types.Stats, before *types.Stats) float64 {
	earlier, since := sample.PrecpuStats, sample.Preread
	if earlier.SystemCPUUsage == 0 && before != nil {
		earlier, since = before.CPUStats, before.Read
	}
	if sample.CPUStats.CPUUsage.TotalUsage <= earlier.CPUUsage.TotalUsage {
		return 0
	}
	used := float64(sample.CPUStats.CPUUsage.TotalUsage - earlier.CPUUsage.TotalUsage)
	cpus := float64(sample.CPUStats.OnlineCPUs)
	if cpus == 0 {
		cpus = float64(len(sample.CPUStats.CPUUsage.PercpuUsage))
	}
	if earlier.SystemCPUUsage > 0 && sample.CPUStats.SystemCPUUsage > earlier.SystemCPUUsage && cpus > 0 {
		return used / float64(sample.CPUStats.SystemCPUUsage-earlier.SystemCPUUsage) * cpus * 100
	}
	// A sample of /proc may not know how many CPUs there are; then the clock has to do.
	if elapsed := sample.Read.Sub(since); !since.IsZero() && elapsed > time.Millisecond {
		return used / float64(elapsed) * 100
	}
	return 0
}

// memoryInUse returns the memory in use without the inactive page cache, which the kernel takes back when it needs it.
func memoryInUse(m types.StatsMemory) uint64 {
	// cgroup v1 counts whole trees under total_…; cgroup v2 has one name; a sample of /proc has neither and no cache.
	cache, known := m.Stats["total_inactive_file"]
	if !known {
		cache = m.Stats["inactive_file"]
	}
	if cache < m.Usage {
		return m.Usage - cache
	}
	return m.Usage
}
