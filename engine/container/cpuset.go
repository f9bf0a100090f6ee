package container

import (
	"slices"
	"strconv"
	"strings"

	"moss/engine/fault"
)

// Machine says which CPUs and memory nodes the host has, in the kernel's list format, such as 0-3,8. An empty list is not known.
type Machine struct {
	CPUs, Nodes string
}

// CheckCPUs refuses CPUs and memory nodes that the host does not have: the kernel would refuse them at the start. The lists of
// host are well formed. The error is fault.Invalid and names the field.
func (m Machine) CheckCPUs(host *HostConfig) error {
	cpus, nodes := parseCPUList(m.CPUs), parseCPUList(m.Nodes)
	if cpus != nil && !cpus.includesAll(parseCPUList(host.CpusetCpus)) {
		return fault.Invalid("CpusetCpus: Requested CPUs are not available - requested %s, available: %s", host.CpusetCpus, m.CPUs)
	}
	if nodes != nil && !nodes.includesAll(parseCPUList(host.CpusetMems)) {
		return fault.Invalid("CpusetMems: Requested memory nodes are not available - requested %s, available: %s", host.CpusetMems,
			m.Nodes)
	}
	if n := cpus.countNumbers(); n > 0 && host.NanoCPUs > n*1e9 {
		return fault.Invalid("invalid NanoCpus %d: range of CPUs is from 0.01 to %d.00, as there are only %d CPUs available",
			host.NanoCPUs, n, n)
	}
	return nil
}

// cpuList is a list of CPUs or memory nodes as ranges. It stays as short as its text, whatever the numbers are.
type cpuList []cpuRange

type cpuRange struct{ first, last int64 }

// maxCPUBits bounds the numbers of CPUs and memory nodes: no kernel has more than 8192 of either.
const maxCPUBits = 13

// parseCPUList reads the kernel's list format: "0", "0-3", "0,2-4". It returns nil for other texts and for none.
func parseCPUList(s string) cpuList {
	var list cpuList
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, maxCPUBits)
		b, errB := strconv.ParseUint(last, 10, maxCPUBits)
		if errA != nil || errB != nil || a > b {
			return nil
		}
		list = append(list, cpuRange{int64(a), int64(b)})
	}
	return list
}

// isCPUList reports whether s is empty or a list in the kernel's format.
func isCPUList(s string) bool { return s == "" || parseCPUList(s) != nil }

// includesAll reports whether each number of asked is in l, a list of the kernel's: its ranges neither touch nor overlap.
func (l cpuList) includesAll(asked cpuList) bool {
	for _, want := range asked {
		within := func(r cpuRange) bool { return r.first <= want.first && want.last <= r.last }
		if !slices.ContainsFunc(l, within) {
			return false
		}
	}
	return true
}

// countNumbers returns how many numbers a list of the kernel's has.
func (l cpuList) countNumbers() (n int64) {
	for _, r := range l {
		n += r.last - r.first + 1
	}
	return n
}
