package ocispec

import (
	"encoding/json"
	"testing"

	"moss/engine/container"
)

func TestUpdate(t *testing.T) {
	all := container.Controllers{Memory: true, Swap: true, CPU: true, Cpuset: true, Pids: true, Blkio: true, BlkioWeight: true, BlkioWeightDevice: true}
	pids, yes := int64(7), true
	const mib = 1 << 20
	for _, tc := range []struct {
		name     string
		have     container.Controllers
		from, to container.HostConfig
		want     string // both ways
		back     string
	}{
		{"nothing", all, container.HostConfig{Memory: mib, CPUShares: 2}, container.HostConfig{Memory: mib, CPUShares: 2}, "", ""},
		{
			"memory takes its swap along", all,
			container.HostConfig{Memory: 2 * mib},
			container.HostConfig{Memory: mib},
			`{"memory":{"limit":1048576,"swap":2097152,"checkBeforeUpdate":true}}`, `{"memory":{"limit":2097152,"swap":4194304,"checkBeforeUpdate":true}}`,
		},
		{
			"memory's first limit", all,
			container.HostConfig{},
			container.HostConfig{Memory: mib, MemorySwap: -1},
			`{"memory":{"limit":1048576,"swap":-1,"checkBeforeUpdate":true}}`, `{"memory":{"limit":-1,"swap":-1,"checkBeforeUpdate":true}}`,
		},
		{
			"reservation", all,
			container.HostConfig{},
			container.HostConfig{MemoryReservation: mib},
			`{"memory":{"reservation":1048576}}`, `{"memory":{"reservation":0}}`,
		},
		{"shares", all, container.HostConfig{}, container.HostConfig{CPUShares: 2}, `{"cpu":{"shares":2}}`, `{"cpu":{"shares":1024}}`},
		{
			"cpus", all,
			container.HostConfig{CPUShares: 2},
			container.HostConfig{CPUShares: 2, NanoCPUs: 5e8},
			`{"cpu":{"quota":50000,"period":100000}}`, `{"cpu":{"quota":-1,"period":100000}}`,
		},
		{
			"period and quota go together", all,
			container.HostConfig{CPUPeriod: 2000, CPUQuota: 1000},
			container.HostConfig{CPUPeriod: 2000, CPUQuota: 3000},
			`{"cpu":{"quota":3000,"period":2000}}`, `{"cpu":{"quota":1000,"period":2000}}`,
		},
		{"cpuset", all, container.HostConfig{CpusetCpus: "0"}, container.HostConfig{CpusetCpus: "1", CpusetMems: "0"}, `{"cpu":{"cpus":"1","mems":"0"}}`, `{"cpu":{"cpus":"0"}}`},
		{"pids beside Init", all, container.HostConfig{Init: &yes}, container.HostConfig{Init: &yes, PidsLimit: &pids}, `{"pids":{"limit":23}}`, `{"pids":{"limit":4194304}}`},
		{"pids", all, container.HostConfig{}, container.HostConfig{PidsLimit: &pids}, `{"pids":{"limit":7}}`, `{"pids":{"limit":4194304}}`},
		{"weight", all, container.HostConfig{BlkioWeight: 10}, container.HostConfig{BlkioWeight: 20}, `{"blockIO":{"weight":20}}`, `{"blockIO":{"weight":10}}`},
		{
			"a weight takes those of devices along", all,
			container.HostConfig{BlkioWeight: 10, BlkioWeightDevice: []container.WeightDevice{{Path: "/dev/sdb", Weight: 30}}},
			container.HostConfig{BlkioWeight: 20, BlkioWeightDevice: []container.WeightDevice{{Path: "/dev/sdb", Weight: 30}}},
			`{"blockIO":{"weight":20,"weightDevice":[{"major":8,"minor":16,"weight":30}]}}`,
			`{"blockIO":{"weight":10,"weightDevice":[{"major":8,"minor":16,"weight":30}]}}`,
		},
		{"no weights", container.Controllers{Blkio: true}, container.HostConfig{}, container.HostConfig{BlkioWeight: 20}, "", ""},
		{"no controllers", container.Controllers{}, container.HostConfig{}, container.HostConfig{Memory: mib, CPUShares: 2, PidsLimit: &pids, CpusetCpus: "1", BlkioWeight: 20}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := New(Options{Controllers: tc.have, BlockDevice: func(string) (int64, int64, error) { return 8, 16, nil }})
			if err != nil {
				t.Fatal(err)
			}
			check := func(way string, from, to *container.HostConfig, want string) {
				t.Helper()
				got, err := b.Update(from, to)
				if err != nil || string(got) != want || want != "" && !json.Valid(got) {
					t.Errorf("%s: got %s, %v, want %s", way, got, err, want)
				}
			}
			check("there", &tc.from, &tc.to, tc.want)
			check("back", &tc.to, &tc.from, tc.back)
		})
	}
}
