package types

import "time"

// Top is a list of processes (document 1, 2.5).
type Top struct {
	Titles    []string
	Processes [][]string
}

// Stats is what a container uses (document 1, 2.5).
type Stats struct {
	Read    time.Time `json:"read"`
	Preread time.Time `json:"preread"`

	PidsStats StatsPids               `json:"pids_stats" api:"1.24-"`
	Network   StatsNetwork            `json:"network" api:"-1.20"`
	Networks  map[string]StatsNetwork `json:"networks,omitempty" api:"1.21-"`

	MemoryStats StatsMemory  `json:"memory_stats"`
	BlkioStats  StatsBlockIO `json:"blkio_stats"`
	CPUStats    StatsCPU     `json:"cpu_stats"`
	PrecpuStats StatsCPU     `json:"precpu_stats" api:"1.20-"`

	ID   string `json:"id"`
	Name string `json:"name"`
}

// StatsPids counts processes and threads.
type StatsPids struct {
	Current uint64 `json:"current"`
	Limit   uint64 `json:"limit,omitempty" api:"1.25-"` // the largest number: without end; left out where nothing limits them
}

// StatsNetwork is what one interface has carried, or all together.
type StatsNetwork struct {
	RxBytes   uint64 `json:"rx_bytes"`
	RxPackets uint64 `json:"rx_packets"`
	RxErrors  uint64 `json:"rx_errors"`
	RxDropped uint64 `json:"rx_dropped"`
	TxBytes   uint64 `json:"tx_bytes"`
	TxPackets uint64 `json:"tx_packets"`
	TxErrors  uint64 `json:"tx_errors"`
	TxDropped uint64 `json:"tx_dropped"`
}

// StatsMemory is in bytes.
type StatsMemory struct {
	Usage    uint64            `json:"usage"`
	MaxUsage uint64            `json:"max_usage"`
	Stats    map[string]uint64 `json:"stats"`
	Failcnt  uint64            `json:"failcnt"`
	Limit    uint64            `json:"limit"`
}

// StatsBlockIO lists what went from and to block devices.
type StatsBlockIO struct {
	IoServiceBytesRecursive []StatsIO `json:"io_service_bytes_recursive"`
	IoServicedRecursive     []StatsIO `json:"io_serviced_recursive"`
	IoQueueRecursive        []StatsIO `json:"io_queue_recursive"`
	IoServiceTimeRecursive  []StatsIO `json:"io_service_time_recursive"`
	IoWaitTimeRecursive     []StatsIO `json:"io_wait_time_recursive"`
	IoMergedRecursive       []StatsIO `json:"io_merged_recursive"`
	IoTimeRecursive         []StatsIO `json:"io_time_recursive"`
	SectorsRecursive        []StatsIO `json:"sectors_recursive"`
}

// StatsIO is a counter of one device.
type StatsIO struct {
	Major uint64 `json:"major"`
	Minor uint64 `json:"minor"`
	Op    string `json:"op"`
	Value uint64 `json:"value"`
}

// StatsCPU is in nanoseconds.
type StatsCPU struct {
	CPUUsage       StatsCPUUsage   `json:"cpu_usage"`
	SystemCPUUsage uint64          `json:"system_cpu_usage"`
	OnlineCPUs     int             `json:"online_cpus"` // later clients count CPUs by it, earlier ones by percpu_usage
	ThrottlingData StatsThrottling `json:"throttling_data"`
}

// StatsCPUUsage is time on CPUs.
type StatsCPUUsage struct {
	TotalUsage        uint64   `json:"total_usage"`
	PercpuUsage       []uint64 `json:"percpu_usage"`
	UsageInKernelmode uint64   `json:"usage_in_kernelmode"`
	UsageInUsermode   uint64   `json:"usage_in_usermode"`
}

// StatsThrottling is how often and how long the CPU quota held the container up.
type StatsThrottling struct {
	Periods          uint64 `json:"periods"`
	ThrottledPeriods uint64 `json:"throttled_periods"`
	ThrottledTime    uint64 `json:"throttled_time"`
}
