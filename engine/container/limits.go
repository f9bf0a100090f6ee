package container

import (
	"path"
	"strings"

	"moss/engine/fault"
)

// Controllers says which limits the host's cgroups can apply to a container.
type Controllers struct {
	Memory, Swap, CPU, Cpuset, Pids bool
	// Blkio is for rates of block devices. Weights take an I/O scheduler or a cost model that has them.
	Blkio, BlkioWeight, BlkioWeightDevice bool
	// Unified means cgroup v2, which has no swappiness per group and no way to disable the OOM killer.
	Unified bool
}

// minMemory is the smallest memory limit in bytes under which a container can start.
const minMemory = 4 << 20

// checkMemory checks the memory limits (API document 3, section 8).
func checkMemory(d *draft) error {
	h := &d.Host
	for _, size := range []struct {
		field string
		value int64
	}{
		{"Memory", h.Memory}, {"MemoryReservation", h.MemoryReservation}, {"KernelMemory", h.KernelMemory},
	} {
		if size.value < 0 {
			return fault.Invalid("invalid %s %d: it cannot be negative", size.field, size.value)
		}
	}
	if h.Memory != 0 && h.Memory < minMemory {
		return fault.Invalid("invalid Memory %d: Minimum memory limit allowed is 4MB", h.Memory)
	}
	if h.MemoryReservation != 0 && h.MemoryReservation < minMemory {
		return fault.Invalid("invalid MemoryReservation %d: Minimum memory reservation allowed is 4MB", h.MemoryReservation)
	}
	if h.Memory != 0 && h.MemoryReservation > h.Memory {
		return fault.Invalid("invalid MemoryReservation %d: it should be smaller than Memory %d", h.MemoryReservation, h.Memory)
	}
	switch {
	case h.MemorySwap < -1:
		return fault.Invalid("invalid MemorySwap %d: it is -1 for unlimited or a size", h.MemorySwap)
	case h.MemorySwap > 0 && h.Memory == 0:
		return fault.Invalid("invalid MemorySwap %d: You should always set the Memory limit when using Memoryswap limit", h.MemorySwap)
	case h.MemorySwap > 0 && h.MemorySwap < h.Memory: // equal means no swap at all; clients rely on it
		return fault.Invalid("invalid MemorySwap %d: Minimum memoryswap limit should be larger than memory limit %d", h.MemorySwap,
			h.Memory)
	}
	if s := h.MemorySwappiness; s != nil {
		if *s == -1 { // how clients spell "not set"
			h.MemorySwappiness = nil
		} else if *s < 0 || *s > 100 {
			return fault.Invalid("invalid MemorySwappiness %d: valid memory swappiness range is 0-100", *s)
		}
	}
	return nil
}

// checkShm checks the size of /dev/shm. Zero is the default one.
func checkShm(d *draft) error {
	h := &d.Host
	if h.ShmSize < 0 {
		return fault.Invalid("invalid ShmSize %d: SHM size must be greater than 0", h.ShmSize)
	}
	if h.ShmSize > 0 && d.Ipc != IpcPrivate {
		d.addWarning("ShmSize has no effect: with IpcMode %s the container has no /dev/shm of its own.", h.IpcMode)
	}
	if h.ShmSize == 0 {
		h.ShmSize = DefaultShmSize
	}
	return nil
}

// checkCPU checks shares, quotas and cpusets. Periods and quotas are microseconds.
func checkCPU(d *draft) error {
	h := &d.Host
	switch {
	case h.CPUShares < 0:
		return fault.Invalid("invalid CpuShares %d: it cannot be negative", h.CPUShares)
	case h.CPUPeriod != 0 && (h.CPUPeriod < 1000 || h.CPUPeriod > 1000000):
		return fault.Invalid("invalid CpuPeriod %d: CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. "+
			"1000000)", h.CPUPeriod)
	case h.CPUQuota > 0 && h.CPUQuota < 1000:
		return fault.Invalid("invalid CpuQuota %d: CPU cfs quota can not be less than 1ms (i.e. 1000)", h.CPUQuota)
	case h.CPUQuota < -1:
		return fault.Invalid("invalid CpuQuota %d: it is -1 for unlimited or microseconds", h.CPUQuota)
	case h.NanoCPUs < 0 || h.NanoCPUs > 0 && h.NanoCPUs < 1e7:
		return fault.Invalid("invalid NanoCpus %d: range of CPUs is from 0.01", h.NanoCPUs)
	case h.NanoCPUs > 0 && (h.CPUPeriod != 0 || h.CPUQuota != 0):
		return fault.Invalid("Conflicting options: NanoCpus and CpuPeriod or CpuQuota cannot both be set")
	case !isCPUList(h.CpusetCpus):
		return fault.Invalid("invalid CpusetCpus %q: cpuset cpus are a list such as 0-2,4", h.CpusetCpus)
	case !isCPUList(h.CpusetMems):
		return fault.Invalid("invalid CpusetMems %q: cpuset mems are a list such as 0-1", h.CpusetMems)
	}
	return nil
}

// checkBlkio checks block device weights and rates (API document 3, section 8).
func checkBlkio(d *draft) error {
	h := &d.Host
	if h.BlkioWeight != 0 && (h.BlkioWeight < 10 || h.BlkioWeight > 1000) {
		return fault.Invalid("invalid BlkioWeight %d: Range of blkio weight is from 10 to 1000", h.BlkioWeight)
	}
	for _, w := range h.BlkioWeightDevice {
		if w.Weight < 10 || w.Weight > 1000 {
			return fault.Invalid("invalid BlkioWeightDevice %s %d: Range of blkio weight is from 10 to 1000", w.Path, w.Weight)
		}
		if !isHostPath(w.Path) {
			return fault.Invalid("invalid BlkioWeightDevice %q: expected an absolute path", w.Path)
		}
	}
	for _, list := range h.throttleLists() {
		for _, t := range list.devices {
			if !isHostPath(t.Path) {
				return fault.Invalid("invalid %s %q: expected an absolute path", list.field, t.Path)
			}
			if t.Rate == 0 {
				return fault.Invalid("invalid %s of %s: Rate must be greater than 0", list.field, t.Path)
			}
		}
	}
	return nil
}

type throttleList struct {
	field   string
	devices []ThrottleDevice
}

func (h *HostConfig) throttleLists() []throttleList {
	return []throttleList{
		{"BlkioDeviceReadBps", h.BlkioDeviceReadBps},
		{"BlkioDeviceWriteBps", h.BlkioDeviceWriteBps},
		{"BlkioDeviceReadIOps", h.BlkioDeviceReadIOps},
		{"BlkioDeviceWriteIOps", h.BlkioDeviceWriteIOps},
	}
}

func isHostPath(s string) bool { return path.IsAbs(s) && !strings.ContainsRune(s, 0) }

// checkPids checks PidsLimit. Zero and -1 are unlimited; -1 is kept, since clients look for what they gave.
func checkPids(d *draft) error {
	limit := d.Host.PidsLimit
	if limit == nil {
		return nil
	}
	if *limit < -1 {
		return fault.Invalid("invalid PidsLimit %d: it is -1 for unlimited or a number of processes", *limit)
	}
	if *limit == 0 {
		d.Host.PidsLimit = nil
	}
	return nil
}

func noLimit(what string) string {
	return "Your kernel does not support " + what + " or the cgroup is not delegated. Limitation discarded."
}

// LimitWarnings says which limits of host cannot be applied with the controllers at hand, one sentence per limit.
func LimitWarnings(host HostConfig, have Controllers) []string {
	blkio := have.Blkio
	set := func(devices []ThrottleDevice) bool { return len(devices) > 0 }
	limits := []struct {
		asked   bool
		applies bool
		what    string
	}{
		{host.Memory > 0, have.Memory, "memory limit capabilities"},
		{host.Memory > 0 && host.MemorySwap != 0 && have.Memory, have.Swap, "swap limit capabilities"},
		{host.MemoryReservation > 0, have.Memory, "memory soft limit capabilities"},
		{host.MemorySwappiness != nil, have.Memory && !have.Unified, "memory swappiness capabilities"},
		{host.OomKillDisable != nil && *host.OomKillDisable, have.Memory && !have.Unified, "OomKillDisable"},
		{host.CPUShares > 0, have.CPU, "CPU shares"},
		{host.NanoCPUs > 0, have.CPU, "CPU cfs period and quota"},
		{host.CPUPeriod > 0, have.CPU, "CPU cfs period"},
		{host.CPUQuota > 0, have.CPU, "CPU cfs quota"},
		{host.CpusetCpus != "", have.Cpuset, "cpuset cpus"},
		{host.CpusetMems != "", have.Cpuset, "cpuset mems"},
		{host.PidsLimit != nil && *host.PidsLimit > 0, have.Pids, "pids limit capabilities"},
		{host.BlkioWeight > 0, have.BlkioWeight, "Block I/O weight"},
		{len(host.BlkioWeightDevice) > 0, have.BlkioWeightDevice, "Block I/O weight_device"},
		{set(host.BlkioDeviceReadBps), blkio, "BPS Block I/O read limit"},
		{set(host.BlkioDeviceWriteBps), blkio, "BPS Block I/O write limit"},
		{set(host.BlkioDeviceReadIOps), blkio, "IOPS Block I/O read limit"},
		{set(host.BlkioDeviceWriteIOps), blkio, "IOPS Block I/O write limit"},
		{host.CgroupParent != "", have != Controllers{}, "a parent for the container's cgroup"},
	}
	var warnings []string
	for _, l := range limits {
		if l.asked && !l.applies {
			warnings = append(warnings, noLimit(l.what))
		}
	}
	if host.CgroupParent != "" && have != (Controllers{}) {
		warnings = append(warnings, "CgroupParent "+host.CgroupParent+" is taken below the cgroup that the engine has for containers.")
	}
	if host.OomKillDisable != nil && *host.OomKillDisable && host.Memory == 0 && have.Memory && !have.Unified {
		warnings = append(warnings, "OOM killer is disabled for the container, but no memory limit is set, this can result in the "+
			"system running out of resources.")
	}
	return warnings
}
