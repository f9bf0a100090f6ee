package ocispec

import (
	"encoding/json"
	"fmt"
	"reflect"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-tools/generate"

	"moss/engine/container"
)

const (
	defaultShares = 1024    // the weight of a cgroup that was given none
	allPids       = 1 << 22 // as many processes as Linux has ids for; crun before 1.9 hands -1 to the kernel, which refuses it
)

// Update returns the linux.resources object that brings a container's cgroup from one set of limits to another: what
// differs and nothing else, and of that what the controllers at hand apply. It is nil when there is nothing to apply.
//
// Errors are fault.Invalid and fault.Unsupported (block devices).
func (b *Builder) Update(from, to *container.HostConfig) (json.RawMessage, error) {
	have := b.opt.Controllers
	gen := generate.Generator{Config: &specs.Spec{Linux: &specs.Linux{Resources: &specs.LinuxResources{}}}}
	resources := gen.Config.Linux.Resources
	if have.Memory {
		changedMemory(&gen, from, to, have)
	}
	if have.CPU {
		changedCPU(&gen, from, to)
	}
	if have.Cpuset {
		if to.CpusetCpus != from.CpusetCpus && to.CpusetCpus != "" {
			gen.SetLinuxResourcesCPUCpus(to.CpusetCpus)
		}
		if to.CpusetMems != from.CpusetMems && to.CpusetMems != "" {
			gen.SetLinuxResourcesCPUMems(to.CpusetMems)
		}
	}
	if have.Pids {
		if was, is := pidsLimit(from), pidsLimit(to); was != is {
			gen.SetLinuxResourcesPidsLimit(is)
		}
	}
	if to.BlkioWeight != from.BlkioWeight {
		// A new weight of all takes those of single devices away, so they come along.
		blkio, err := b.blockIO(&container.HostConfig{BlkioWeight: to.BlkioWeight, BlkioWeightDevice: to.BlkioWeightDevice})
		if err != nil {
			return nil, err
		}
		resources.BlockIO = blkio
	}
	if reflect.ValueOf(*resources).IsZero() {
		return nil, nil
	}
	raw, err := json.Marshal(resources)
	if err != nil {
		return nil, fmt.Errorf("encode limits: %w", err)
	}
	return raw, nil
}

// changedMemory sets limit and swap together, since one bounds the other. A limit that goes is -1, unlimited.
func changedMemory(gen *generate.Generator, from, to *container.HostConfig, have container.Controllers) {
	if to.Memory != from.Memory || to.MemorySwap != from.MemorySwap {
		setMemory(gen, &container.HostConfig{Memory: to.Memory, MemorySwap: to.MemorySwap}, have)
		if to.Memory == 0 {
			gen.SetLinuxResourcesMemoryLimit(-1)
			if have.Swap {
				gen.SetLinuxResourcesMemorySwap(-1)
			}
		}
		// Where the kernel would end processes to get below a limit (v2), the runtime is asked to refuse it.
		check := true
		gen.Config.Linux.Resources.Memory.CheckBeforeUpdate = &check
	}
	if to.MemoryReservation != from.MemoryReservation {
		gen.SetLinuxResourcesMemoryReservation(to.MemoryReservation)
	}
}

func changedCPU(gen *generate.Generator, from, to *container.HostConfig) {
	if to.CPUShares != from.CPUShares {
		shares := to.CPUShares
		if shares == 0 {
			shares = defaultShares
		}
		gen.SetLinuxResourcesCPUShares(uint64(shares))
	}
	if to.NanoCPUs == from.NanoCPUs && to.CPUPeriod == from.CPUPeriod && to.CPUQuota == from.CPUQuota {
		return
	}
	setCPU(gen, &container.HostConfig{NanoCPUs: to.NanoCPUs, CPUPeriod: to.CPUPeriod, CPUQuota: to.CPUQuota})
	if to.NanoCPUs == 0 && to.CPUQuota == 0 {
		gen.SetLinuxResourcesCPUQuota(-1)
	}
	if to.NanoCPUs == 0 && to.CPUPeriod == 0 {
		gen.SetLinuxResourcesCPUPeriod(cpuPeriod)
	}
}

// initThreads is the room of a first process that Init brings: PidsLimit is for the container's own. It is a program in Go,
// whose threads count; eight of them were seen.
const initThreads = 16

// pidsLimit returns the limit of a cgroup.
func pidsLimit(h *container.HostConfig) int64 {
	switch {
	case h.PidsLimit == nil || *h.PidsLimit <= 0 || *h.PidsLimit > allPids-initThreads:
		return allPids
	case h.Init != nil && *h.Init:
		return *h.PidsLimit + initThreads
	default:
		return *h.PidsLimit
	}
}
