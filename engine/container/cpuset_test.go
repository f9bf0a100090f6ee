package container

import (
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestCheckCPUs(t *testing.T) {
	two, split := Machine{CPUs: "0-1", Nodes: "0"}, Machine{CPUs: "0-3,8,10-8191", Nodes: "0,2-3"}
	for _, tc := range []struct {
		machine Machine
		host    HostConfig
		want    string // empty: taken
	}{
		{two, HostConfig{}, ""},
		{two, HostConfig{CpusetCpus: "0-1", CpusetMems: "0", NanoCPUs: 2e9}, ""},
		{two, HostConfig{CpusetCpus: "1,0,0-1"}, ""},
		{two, HostConfig{CpusetCpus: "0-99"}, "CpusetCpus: Requested CPUs are not available - requested 0-99, available: 0-1"},
		{two, HostConfig{CpusetCpus: "0,2"}, "CpusetCpus: Requested CPUs are not available - requested 0,2, available: 0-1"},
		{two, HostConfig{CpusetCpus: "0-8191"}, "requested 0-8191, available: 0-1"},
		{two, HostConfig{CpusetMems: "7"}, "CpusetMems: Requested memory nodes are not available - requested 7, available: 0"},
		{two, HostConfig{NanoCPUs: 2e9 + 1}, "invalid NanoCpus 2000000001: range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available"},
		{two, HostConfig{NanoCPUs: 1<<63 - 1}, "only 2 CPUs available"},
		{split, HostConfig{CpusetCpus: "0-2,3,8,11-8191", CpusetMems: "2-3,0", NanoCPUs: (5 + 8182) * 1e9}, ""},
		{split, HostConfig{CpusetCpus: "3-8"}, "requested 3-8"},
		{split, HostConfig{CpusetCpus: "9"}, "requested 9"},
		{split, HostConfig{CpusetMems: "1"}, "requested 1, available: 0,2-3"},
		{split, HostConfig{NanoCPUs: (5+8182)*1e9 + 1}, "only 8187 CPUs available"},
		{Machine{}, HostConfig{CpusetCpus: "99", CpusetMems: "7", NanoCPUs: 1 << 40}, ""},
		{Machine{CPUs: "unknown", Nodes: "\n"}, HostConfig{CpusetCpus: "99", CpusetMems: "7", NanoCPUs: 1 << 40}, ""},
	} {
		err := tc.machine.CheckCPUs(&tc.host)
		if tc.want == "" && err != nil || tc.want != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("CheckCPUs(%q %q %d) on %+v = %v, want %q", tc.host.CpusetCpus, tc.host.CpusetMems, tc.host.NanoCPUs, tc.machine, err, tc.want)
		}
	}
}
