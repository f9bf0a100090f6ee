package ocispec

import (
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"moss/engine/fault"
	"moss/engine/network"
)

func TestBuildJoin(t *testing.T) {
	const other = `{"NetworkMode":"container:web","PidMode":"container:web","IpcMode":"container:web"}`
	in := newInput(newSpec(t, "", other))
	in.Sandbox = network.Sandbox{Mode: network.Container}
	in.Join = Join{Network: "/proc/9/fd/1", Pid: "/proc/9/fd/2", Ipc: "/proc/9/fd/3", Shm: "/run/shm/x"}
	spec, err := newBuilder(t, Options{}).Build(in)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[specs.LinuxNamespaceType]string{
		specs.NetworkNamespace: "/proc/9/fd/1", specs.PIDNamespace: "/proc/9/fd/2", specs.IPCNamespace: "/proc/9/fd/3",
		specs.UTSNamespace: "", specs.MountNamespace: "",
	} {
		at := slices.IndexFunc(spec.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == kind })
		if at < 0 || spec.Linux.Namespaces[at].Path != want {
			t.Errorf("namespaces = %v, want %s at %q", spec.Linux.Namespaces, kind, want)
		}
	}
	for destination, want := range map[string]string{"/dev/shm": "/run/shm/x", "/dev/mqueue": "mqueue", "/proc": "proc", "/sys": "sysfs"} {
		at := slices.IndexFunc(spec.Mounts, func(m specs.Mount) bool { return m.Destination == destination })
		if at < 0 || spec.Mounts[at].Source != want {
			t.Errorf("mounts = %v, want %s from %q", spec.Mounts, destination, want)
		}
	}
	if _, set := spec.Linux.Sysctl["net.ipv4.ip_unprivileged_port_start"]; set {
		t.Error("a parameter of the other container's network is changed, and nobody asked for that")
	}
	in.Join = Join{}
	if _, err := newBuilder(t, Options{}).Build(in); !fault.Is(err, fault.Internal) {
		t.Errorf("without the other's namespaces: %v, want fault.Internal", err)
	}
}

func TestCheckFilter(t *testing.T) {
	for profile, want := range map[string]string{
		`{"defaultAction":"SCMP_ACT_ALLOW"}`: "",
		`{"defaultAction":"SCMP_ACT_LOG","syscalls":[{"names":["mkdir"],"action":"SCMP_ACT_ERRNO","args":[{"index":1,"value":1,"op":"SCMP_CMP_EQ"}]}]}`: "",
		`{}`:                                  "defaultAction",
		`{"defaultAction":"SCMP_ACT_NOPE"}`:   "SCMP_ACT_NOPE",
		`{"defaultAction":"SCMP_ACT_NOTIFY"}`: "SCMP_ACT_NOTIFY",
		`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir"],"action":"SCMP_ACT_X"}]}`:                                             "SCMP_ACT_X",
		`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir"],"action":"SCMP_ACT_ERRNO","args":[{"index":9,"op":"SCMP_CMP_EQ"}]}]}`: "argument 9",
		`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir"],"action":"SCMP_ACT_ERRNO","args":[{"index":0,"op":"SCMP_CMP_NO"}]}]}`: "SCMP_CMP_NO",
	} {
		spec := newSpec(t, "", "")
		spec.Security.Seccomp = profile
		err := newBuilder(t, Options{}).Check(spec)
		if (err == nil) != (want == "") || err != nil && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("Check of %s = %v, want %q", profile, err, want)
		}
	}
}
