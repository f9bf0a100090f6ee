package ocispec

import (
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-tools/generate"

	"moss/engine/container"
	"moss/engine/fault"
)

// cpuPeriod is the period in microseconds in which a number of CPUs is turned into a quota.
const cpuPeriod = 100000

// setResources sets the limits of controllers at hand; container.LimitWarnings has told of the others. There are no
// device rules: they take privileges of the real root, and in a user namespace no device node can be made anyway.
func (b *Builder) setResources(gen *generate.Generator, in *Input) error {
	if in.CgroupsPath == "" {
		return nil
	}
	have, h := b.opt.Controllers, &in.Spec.Host
	gen.SetLinuxCgroupsPath(in.CgroupsPath)
	gen.Config.Linux.Resources = &specs.LinuxResources{}
	if have.Memory {
		setMemory(gen, h, have)
	}
	if have.CPU {
		setCPU(gen, h)
	}
	if have.Cpuset {
		if h.CpusetCpus != "" {
			gen.SetLinuxResourcesCPUCpus(h.CpusetCpus)
		}
		if h.CpusetMems != "" {
			gen.SetLinuxResourcesCPUMems(h.CpusetMems)
		}
	}
	if limit := pidsLimit(h); have.Pids && limit != allPids {
		gen.SetLinuxResourcesPidsLimit(limit)
	}
	blkio, err := b.blockIO(h)
	if err != nil {
		return err
	}
	gen.Config.Linux.Resources.BlockIO = blkio
	return nil
}

func setMemory(gen *generate.Generator, h *container.HostConfig, have container.Controllers) {
	if h.Memory > 0 {
		gen.SetLinuxResourcesMemoryLimit(h.Memory)
		switch {
		case !have.Swap:
		case h.MemorySwap != 0:
			gen.SetLinuxResourcesMemorySwap(h.MemorySwap)
		default: // as much swap again, as clients expect
			gen.SetLinuxResourcesMemorySwap(2 * h.Memory)
		}
	}
	if h.MemoryReservation > 0 {
		gen.SetLinuxResourcesMemoryReservation(h.MemoryReservation)
	}
	if have.Unified {
		return
	}
	if h.MemorySwappiness != nil {
		gen.SetLinuxResourcesMemorySwappiness(uint64(*h.MemorySwappiness))
	}
	if h.OomKillDisable != nil && *h.OomKillDisable {
		gen.SetLinuxResourcesMemoryDisableOOMKiller(true)
	}
}

func setCPU(gen *generate.Generator, h *container.HostConfig) {
	if h.CPUShares > 0 {
		gen.SetLinuxResourcesCPUShares(uint64(h.CPUShares))
	}
	if h.NanoCPUs > 0 {
		gen.SetLinuxResourcesCPUPeriod(cpuPeriod)
		gen.SetLinuxResourcesCPUQuota(h.NanoCPUs / (1e9 / cpuPeriod))
	}
	if h.CPUPeriod > 0 {
		gen.SetLinuxResourcesCPUPeriod(uint64(h.CPUPeriod))
	}
	if h.CPUQuota != 0 {
		gen.SetLinuxResourcesCPUQuota(h.CPUQuota)
	}
}

// blockIO returns nil when there is nothing to limit, or nothing to do so with. A device that does not exist gives
// fault.Invalid.
func (b *Builder) blockIO(h *container.HostConfig) (*specs.LinuxBlockIO, error) {
	have := b.opt.Controllers
	var io specs.LinuxBlockIO
	if h.BlkioWeight > 0 && have.BlkioWeight {
		weight := h.BlkioWeight
		io.Weight = &weight
	}
	for _, d := range h.BlkioWeightDevice {
		if !have.BlkioWeightDevice {
			break
		}
		number, err := b.blockDevice(d.Path)
		if err != nil {
			return nil, err
		}
		weight := d.Weight
		device := specs.LinuxWeightDevice{Weight: &weight}
		device.LinuxBlockIODevice = number
		io.WeightDevice = append(io.WeightDevice, device)
	}
	for _, list := range []struct {
		asked []container.ThrottleDevice
		into  *[]specs.LinuxThrottleDevice
	}{
		{h.BlkioDeviceReadBps, &io.ThrottleReadBpsDevice},
		{h.BlkioDeviceWriteBps, &io.ThrottleWriteBpsDevice},
		{h.BlkioDeviceReadIOps, &io.ThrottleReadIOPSDevice},
		{h.BlkioDeviceWriteIOps, &io.ThrottleWriteIOPSDevice},
	} {
		if !have.Blkio {
			break
		}
		for _, d := range list.asked {
			number, err := b.blockDevice(d.Path)
			if err != nil {
				return nil, err
			}
			device := specs.LinuxThrottleDevice{Rate: d.Rate}
			device.LinuxBlockIODevice = number
			*list.into = append(*list.into, device)
		}
	}
	if io.Weight == nil && io.WeightDevice == nil && io.ThrottleReadBpsDevice == nil && io.ThrottleWriteBpsDevice == nil &&
		io.ThrottleReadIOPSDevice == nil && io.ThrottleWriteIOPSDevice == nil {
		return nil, nil //nolint:nilnil // no limits is an answer
	}
	return &io, nil
}

// blockDevice looks a device up by the host's means.
func (b *Builder) blockDevice(path string) (specs.LinuxBlockIODevice, error) {
	var device specs.LinuxBlockIODevice
	if b.opt.BlockDevice == nil {
		return device, fault.Unsupported("limits on single block devices are not supported: %s", path)
	}
	var err error
	if device.Major, device.Minor, err = b.opt.BlockDevice(path); err != nil {
		return device, fault.Invalid("no such block device %s: %v", path, err)
	}
	return device, nil
}
