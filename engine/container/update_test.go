package container

import (
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestUpdate(t *testing.T) {
	all := Controllers{Memory: true, Swap: true, CPU: true, Cpuset: true, Pids: true, Blkio: true, BlkioWeight: true, BlkioWeightDevice: true}
	pids := func(n int64) *int64 { return &n }
	base := HostConfig{Memory: 64 << 20, MemorySwap: 128 << 20, CPUShares: 512, CpusetCpus: "0", PidsLimit: pids(10)}
	for _, tc := range []struct {
		name  string
		base  HostConfig
		asked HostConfig
		have  Controllers
		want  func(HostConfig) bool
		warn  string
		err   string
	}{
		{"zero values change nothing", base, HostConfig{}, all, func(h HostConfig) bool {
			return h.Memory == 64<<20 && h.CPUShares == 512 && h.CpusetCpus == "0" && *h.PidsLimit == 10
		}, "", ""},
		{"memory alone", base, HostConfig{Memory: 32 << 20}, all, func(h HostConfig) bool { return h.Memory == 32<<20 && h.MemorySwap == 128<<20 }, "", ""},
		{"every field", base, HostConfig{
			BlkioWeight: 20, CPUShares: 2, CPUPeriod: 2000, CPUQuota: 3000, CpusetCpus: "1", CpusetMems: "0", Memory: 8 << 20,
			MemorySwap: 16 << 20, MemoryReservation: 5 << 20, PidsLimit: pids(5), RestartPolicy: RestartPolicy{Name: "on-failure", MaximumRetryCount: 3},
		}, all, func(h HostConfig) bool {
			return h.BlkioWeight == 20 && h.CPUShares == 2 && h.CPUPeriod == 2000 && h.CPUQuota == 3000 && h.CpusetCpus == "1" && h.CpusetMems == "0" &&
				h.Memory == 8<<20 && h.MemorySwap == 16<<20 && h.MemoryReservation == 5<<20 && *h.PidsLimit == 5 && h.RestartPolicy.MaximumRetryCount == 3
		}, "", ""},
		{"pids without a limit", base, HostConfig{PidsLimit: pids(-1)}, all, func(h HostConfig) bool { return *h.PidsLimit == -1 }, "", ""},
		{"swap without a limit", base, HostConfig{MemorySwap: -1}, all, func(h HostConfig) bool { return h.MemorySwap == -1 }, "", ""},
		{"kernel memory", base, HostConfig{KernelMemory: 8 << 20}, all, func(h HostConfig) bool { return h.KernelMemory == 8<<20 }, "KernelMemory has no effect", ""},
		{"no controller", base, HostConfig{CPUShares: 2}, Controllers{}, func(h HostConfig) bool { return h.CPUShares == 2 }, "CPU shares", ""},
		{"swap without its controller", base, HostConfig{MemorySwap: 256 << 20}, Controllers{Memory: true}, nil, "swap limit", ""},

		{"memory above the swap that is there", base, HostConfig{Memory: 256 << 20}, all, nil, "", "already set memoryswap"},
		{"too little memory", base, HostConfig{Memory: 1}, all, nil, "", "Memory 1"},
		{"negative memory", base, HostConfig{Memory: -1}, all, nil, "", "Memory -1"},
		{"swap below the limit", base, HostConfig{MemorySwap: 1 << 20}, all, nil, "", "MemorySwap"},
		{"swap without memory", HostConfig{}, HostConfig{MemorySwap: 1 << 30}, all, nil, "", "MemorySwap"},
		{"reservation above the limit", base, HostConfig{MemoryReservation: 1 << 30}, all, nil, "", "MemoryReservation"},
		{"weight", base, HostConfig{BlkioWeight: 5}, all, nil, "", "BlkioWeight 5"},
		{"period", base, HostConfig{CPUPeriod: 5}, all, nil, "", "CpuPeriod 5"},
		{"quota", base, HostConfig{CPUQuota: 5}, all, nil, "", "CpuQuota 5"},
		{"cpus and quota", HostConfig{NanoCPUs: 1e9}, HostConfig{CPUQuota: 5000}, all, nil, "", "NanoCpus"},
		{"cpuset", base, HostConfig{CpusetCpus: "x"}, all, nil, "", "cpuset cpus"},
		{"policy", base, HostConfig{RestartPolicy: RestartPolicy{Name: "sometimes"}}, all, nil, "", "sometimes"},
		{"policy with --rm", HostConfig{AutoRemove: true}, HostConfig{RestartPolicy: RestartPolicy{Name: "always"}}, all, nil, "", "AutoRemove"},
		{"count without a policy", base, HostConfig{RestartPolicy: RestartPolicy{MaximumRetryCount: 2}}, all, nil, "", "MaximumRetryCount"},
		{"not a limit", base, HostConfig{Privileged: true}, all, nil, "", "Privileged cannot be changed"},
		{"a limit of create's alone", base, HostConfig{BlkioDeviceReadBps: []ThrottleDevice{{"/dev/sda", 1}}}, all, nil, "", "BlkioDeviceReadBps cannot be changed"},
		{"ulimits", base, HostConfig{Ulimits: []Ulimit{{"nofile", 1, 1}}}, all, nil, "", "Ulimits cannot be changed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, warnings, err := tc.base.Update(tc.asked, tc.have)
			if tc.err != "" {
				if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error = %v, want fault.Invalid with %q", err, tc.err)
				}
				return
			}
			if err != nil || tc.want != nil && !tc.want(got) {
				t.Errorf("got %+v, %v", got, err)
			}
			if all := strings.Join(warnings, "\n"); !strings.Contains(all, tc.warn) || tc.warn == "" && all != "" {
				t.Errorf("warnings %q, want %q", all, tc.warn)
			}
		})
	}
}

func TestLogAttrs(t *testing.T) {
	r := &Record{
		ID: strings.Repeat("ab", 32), Name: "web", Image: "busybox", ImageID: "sha256:" + strings.Repeat("cd", 32), Path: "sh",
		Config: Config{Labels: map[string]string{"com.a": "1", "com.b": "2", "x": "3"}, Env: []string{"A=1", "APP_X=a=b", "Z="}},
	}
	for _, tc := range []struct{ key, value, want string }{
		{"labels", "com.a,nope", "com.a=1"},
		{"labels-regex", "^com", "com.a=1 com.b=2"},
		{"env", "A,Z", "A=1 Z="},
		{"env-regex", "^APP", "APP_X=a=b"},
		{"tag", "{{.Name}}/{{ .ID }}", "tag=web/abababababab"},
		{"tag", "{{.ImageName}} {{.ImageID}} {{.Command}} {{.DaemonName}}", "tag=busybox cdcdcdcdcdcd sh moss"},
		{"tag", "", ""},
		{"labels", "", ""},
	} {
		var a LogAttrs
		if known, err := a.setOption(tc.key, tc.value); !known || err != nil {
			t.Errorf("set(%s, %s) = %t, %v", tc.key, tc.value, known, err)
		}
		got := a.Of(r)
		parts := 0
		for key, value := range got {
			parts++
			if !strings.Contains(" "+tc.want+" ", " "+key+"="+value+" ") {
				t.Errorf("%s=%s gives %s=%s, want %q", tc.key, tc.value, key, value, tc.want)
			}
		}
		if want := len(strings.Fields(tc.want)); tc.key != "tag" && parts != want || tc.want == "" && got != nil {
			t.Errorf("%s=%s gives %v, want %q", tc.key, tc.value, got, tc.want)
		}
	}
	var a LogAttrs
	if known, _ := a.setOption("max-size", "1"); known {
		t.Error("max-size is no attribute")
	}
	if _, err := a.setOption("labels", "x"); err != nil {
		t.Fatal(err)
	}
	if err := a.checkSize(&Config{Labels: map[string]string{"x": strings.Repeat("y", maxLogAttrs)}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("attributes without a bound: %v", err)
	}
}

// FuzzTag: no template of a client's brings the engine down, and what was checked once fits every container.
func FuzzTag(f *testing.F) {
	for _, s := range []string{"", "{{.ID}}", "{{.Name}}{{", "}}{{ .ImageID}}", "{{{.ID}}}", "{{{{.ID}}.ID}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, template string) {
		_, errEmpty := expandTag(template, &Record{})
		_, errFull := expandTag(template, &Record{ID: "{{.Name}}", Name: "{{.ID}}"})
		if (errEmpty == nil) != (errFull == nil) {
			t.Errorf("expandTag(%q): %v without a container, %v with one", template, errEmpty, errFull)
		}
	})
}
