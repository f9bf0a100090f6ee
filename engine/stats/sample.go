package stats

import (
	"time"

	"moss/engine/stats/proc"
)

// Sample is what a container has used up to a moment. Counters begin with the container's process.
type Sample struct {
	ID, Name string
	Read     time.Time // zero: nothing ran, and all the rest is zero
	CPU      CPU
	Memory   Memory
	Tasks    Tasks
	BlockIO  BlockIO
	Networks map[string]Interface // by name; none with the host's network or without any

	// The reading before this one, of which CPU percentages are made. Zero if there was none.
	PreviousRead time.Time
	PreviousCPU  CPU

	started time.Time // when the process did whose use this is
}

// Interface is what a network interface has carried.
type Interface = proc.Interface

// CPU is time on CPUs, in nanoseconds.
type CPU struct {
	Total, User, Kernel uint64
	PerCPU              []uint64 // of each CPU that is online; zeros where the host does not tell
	System              uint64   // of all CPUs of the machine, idle or not
	Online              int      // CPUs

	Periods, ThrottledPeriods, ThrottledTime uint64 // of the CPU quota; zero without one
}

// Memory is in bytes. Details holds the counters of the host's memory.stat under the names of the API documents
// (document 1, 2.5) as far as they are known, and on cgroup v2 under those of the kernel as well.
type Memory struct {
	Usage, MaxUsage, Limit uint64
	Failures               uint64 // how often the limit was hit
	Details                map[string]uint64
}

// BlockIO lists what was transferred from and to block devices, each by device and operation.
type BlockIO struct {
	Bytes, Operations                                    []IO
	Queued, ServiceTime, WaitTime, Merged, Time, Sectors []IO // of the I/O scheduler; cgroup v1 only
}

// IO is one counter. Device 0:0 stands for all devices together.
type IO struct {
	Major, Minor uint64
	Op           string // Read, Write, Sync, Async, Discard, Total
	Value        uint64
}

// Tasks are a container's processes and threads.
type Tasks struct {
	Count uint64
	Limit uint64 // the largest number: without end; 0: nobody knows
}
