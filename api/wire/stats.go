package wire

import (
	"moss/api/types"
	"moss/engine/stats"
	"moss/engine/stats/top"
)

// NewTop fills a list.
func NewTop(t *top.Table) *types.Top { return &types.Top{Titles: t.Titles, Processes: t.Rows} }

// NewStats fills a sample.
func NewStats(s *stats.Sample) *types.Stats {
	w := &types.Stats{
		Read: s.Read, Preread: s.PreviousRead, ID: s.ID, Name: "/" + s.Name,
		PidsStats: types.StatsPids{Current: s.Tasks.Count, Limit: s.Tasks.Limit}, Networks: map[string]types.StatsNetwork{},
		MemoryStats: types.StatsMemory{
			Usage: s.Memory.Usage, MaxUsage: s.Memory.MaxUsage, Stats: s.Memory.Details,
			Failcnt: s.Memory.Failures, Limit: s.Memory.Limit,
		},
		BlkioStats: types.StatsBlockIO{
			IoServiceBytesRecursive: statsIO(s.BlockIO.Bytes), IoServicedRecursive: statsIO(s.BlockIO.Operations),
			IoQueueRecursive: statsIO(s.BlockIO.Queued), IoServiceTimeRecursive: statsIO(s.BlockIO.ServiceTime),
			IoWaitTimeRecursive: statsIO(s.BlockIO.WaitTime), IoMergedRecursive: statsIO(s.BlockIO.Merged),
			IoTimeRecursive: statsIO(s.BlockIO.Time), SectorsRecursive: statsIO(s.BlockIO.Sectors),
		},
		CPUStats: newStatsCPU(s.CPU), PrecpuStats: newStatsCPU(s.PreviousCPU),
	}
	if w.MemoryStats.Stats == nil {
		w.MemoryStats.Stats = map[string]uint64{}
	}
	for name, i := range s.Networks {
		n := types.StatsNetwork(i)
		w.Networks[name] = n
		w.Network.RxBytes += n.RxBytes
		w.Network.RxPackets += n.RxPackets
		w.Network.RxErrors += n.RxErrors
		w.Network.RxDropped += n.RxDropped
		w.Network.TxBytes += n.TxBytes
		w.Network.TxPackets += n.TxPackets
		w.Network.TxErrors += n.TxErrors
		w.Network.TxDropped += n.TxDropped
	}
	return w
}

func newStatsCPU(c stats.CPU) types.StatsCPU {
	each := c.PerCPU
	if each == nil {
		each = []uint64{}
	}
	return types.StatsCPU{
		CPUUsage: types.StatsCPUUsage{
			TotalUsage: c.Total, PercpuUsage: each, UsageInKernelmode: c.Kernel, UsageInUsermode: c.User,
		},
		SystemCPUUsage: c.System, OnlineCPUs: c.Online,
		ThrottlingData: types.StatsThrottling{
			Periods: c.Periods, ThrottledPeriods: c.ThrottledPeriods, ThrottledTime: c.ThrottledTime,
		},
	}
}

func statsIO(counters []stats.IO) []types.StatsIO {
	list := make([]types.StatsIO, 0, len(counters))
	for _, c := range counters {
		list = append(list, types.StatsIO(c))
	}
	return list
}
