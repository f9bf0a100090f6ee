package container

import (
	"reflect"

	"moss/engine/fault"
)

// Update returns h with what asked wants changed of a container that exists (API document 1, 2.3, end), and the warnings
// for the answer. Zero values leave a setting as it is. The result is checked as create checks; errors are fault.Invalid
// and name the field.
func (h HostConfig) Update(asked HostConfig, have Controllers) (HostConfig, []string, error) {
	if err := onlyChangeable(asked); err != nil {
		return h, nil, err
	}
	next := h
	setIfAsked(&next.BlkioWeight, asked.BlkioWeight)
	setIfAsked(&next.CPUShares, asked.CPUShares)
	setIfAsked(&next.CPUPeriod, asked.CPUPeriod)
	setIfAsked(&next.CPUQuota, asked.CPUQuota)
	setIfAsked(&next.NanoCPUs, asked.NanoCPUs)
	setIfAsked(&next.CpusetCpus, asked.CpusetCpus)
	setIfAsked(&next.CpusetMems, asked.CpusetMems)
	setIfAsked(&next.Memory, asked.Memory)
	setIfAsked(&next.MemorySwap, asked.MemorySwap)
	setIfAsked(&next.MemoryReservation, asked.MemoryReservation)
	setIfAsked(&next.KernelMemory, asked.KernelMemory)
	if asked.PidsLimit != nil && *asked.PidsLimit != 0 {
		next.PidsLimit = asked.PidsLimit
	}
	if asked.RestartPolicy.Name != "" {
		if h.AutoRemove && asked.RestartPolicy.Name != RestartNo {
			return h, nil, fault.Invalid("Restart policy cannot be updated because AutoRemove is enabled for the container")
		}
		next.RestartPolicy = asked.RestartPolicy
	} else if asked.RestartPolicy.MaximumRetryCount != 0 {
		return h, nil, fault.Invalid("invalid MaximumRetryCount %d: a restart policy without a name cannot have one",
			asked.RestartPolicy.MaximumRetryCount)
	}
	if asked.Memory > 0 && asked.MemorySwap == 0 && h.MemorySwap > 0 && asked.Memory > h.MemorySwap {
		return h, nil, fault.Invalid("invalid Memory %d: Memory limit should be smaller than already set memoryswap limit %d,"+
			" update the memoryswap at the same time", asked.Memory, h.MemorySwap)
	}
	d := &draft{Spec: Spec{Host: next}}
	checks := []func(*draft) error{checkMemory, checkCPU, checkBlkio, checkPids, withFieldName("RestartPolicy", checkRestart)}
	for _, check := range checks {
		if err := check(d); err != nil {
			return h, nil, err
		}
	}
	warnings := LimitWarnings(asked, have)
	if asked.MemorySwap != 0 && asked.Memory == 0 && !have.Swap {
		warnings = append(warnings, noLimit("swap limit capabilities"))
	}
	if asked.KernelMemory != 0 {
		warnings = append(warnings, "KernelMemory has no effect: kernels no longer have that limit.")
	}
	return d.Host, warnings, nil
}

// setIfAsked replaces a setting by one that was asked for.
func setIfAsked[T comparable](to *T, asked T) {
	var zero T
	if asked != zero {
		*to = asked
	}
}

// onlyChangeable refuses settings that a container has from its create on. Clients send them all, at zero.
func onlyChangeable(asked HostConfig) error {
	for _, field := range []*int64{
		&asked.CPUShares, &asked.CPUPeriod, &asked.CPUQuota, &asked.NanoCPUs, &asked.Memory, &asked.MemorySwap,
		&asked.MemoryReservation, &asked.KernelMemory,
	} {
		*field = 0
	}
	asked.BlkioWeight, asked.CpusetCpus, asked.CpusetMems, asked.PidsLimit = 0, "", "", nil
	asked.RestartPolicy = RestartPolicy{}
	if s := asked.MemorySwappiness; s != nil && *s == -1 { // how clients spell "not set"
		asked.MemorySwappiness = nil
	}
	rest := reflect.ValueOf(asked)
	for i := range rest.NumField() {
		field := rest.Field(i)
		if field.IsZero() || field.Kind() == reflect.Slice && field.Len() == 0 || field.Kind() == reflect.Map && field.Len() == 0 {
			continue
		}
		if p, ok := reflect.TypeAssert[*bool](field); ok && !*p {
			continue
		}
		return fault.Invalid("%s cannot be changed: a container has it from its create on", rest.Type().Field(i).Name)
	}
	return nil
}
