package ocispec

import (
	"slices"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"moss/engine/container"
)

// TestEmulatesIDs: the filter is another one only where root is the only user there is, and on request.
func TestEmulatesIDs(t *testing.T) {
	ids := container.KeepID(1000, 1000, 1, 1)
	for _, tc := range []struct {
		name string
		opt  Options
		ids  *container.IDMap
		want bool
	}{
		{"one id", Options{SingleID: true, EmulateIDs: true}, nil, true},
		{"one id, not asked for", Options{SingleID: true}, nil, false},
		{"sub-ids", Options{EmulateIDs: true}, nil, false},
		{"one id, which is the user's", Options{SingleID: true, EmulateIDs: true}, &ids, false},
	} {
		b := newBuilder(t, tc.opt)
		for range 2 { // the second one is remembered
			in := newInput(newSpec(t, "", `{"NetworkMode":"none"}`))
			in.IDMap = tc.ids
			spec, err := b.Build(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range []string{"fchownat", "setresuid", "setgroups"} {
				got := slices.ContainsFunc(spec.Linux.Seccomp.Syscalls, func(s specs.LinuxSyscall) bool {
					return s.ErrnoRet != nil && *s.ErrnoRet == 0 && slices.Contains(s.Names, call)
				})
				allowed := slices.ContainsFunc(spec.Linux.Seccomp.Syscalls, func(s specs.LinuxSyscall) bool {
					return s.Action == specs.ActAllow && len(s.Args) == 0 && slices.Contains(s.Names, call)
				})
				if got != tc.want || allowed == tc.want {
					t.Errorf("%s: %s is emulated: %t, allowed: %t, want emulated: %t", tc.name, call, got, allowed, tc.want)
				}
			}
		}
	}
}

func TestAptMount(t *testing.T) {
	for host, want := range map[string]bool{
		`{}`:                       true,
		`{"ReadonlyRootfs":true}`:  true,
		`{"Binds":["/a:/etc/ap"]}`: true,
		`{"Binds":["/a:/etc/apt/apt.conf.d/99mine"]}`: true,
		`{"Binds":["/a:/etc/apt/apt.conf.d"]}`:        false,
		`{"Binds":["/a:/etc:ro"]}`:                    false,
		`{"Binds":["/a:` + AptConf + `"]}`:            false,
		`{"Tmpfs":{"/etc/apt":""}}`:                   false,
	} {
		in := newInput(newSpec(t, "", host))
		in.AptConf = "/run/task/apt.conf"
		spec, err := newBuilder(t, Options{SingleID: true, EmulateIDs: true}).Build(in)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(spec.Mounts, func(m specs.Mount) bool {
			return m.Source == in.AptConf && m.Destination == AptConf && slices.Contains(m.Options, "ro")
		})
		if got != want {
			t.Errorf("%s: apt's settings are mounted: %t, want %t", host, got, want)
		}
	}
}
