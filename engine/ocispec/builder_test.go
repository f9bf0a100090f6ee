package ocispec

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag" //nolint:depguard // go test -update
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/network"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const testID = "3f2a9c0b1d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8"

// newSpec makes a checked spec of JSON settings; an empty string leaves the defaults.
func newSpec(t testing.TB, config, host string) *container.Spec {
	t.Helper()
	cfg, hostConfig := container.Config{Cmd: []string{"sh"}}, container.HostConfig{}
	for raw, into := range map[string]any{config: &cfg, host: &hostConfig} {
		if raw == "" {
			continue
		}
		if err := json.Unmarshal([]byte(raw), into); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
	}
	spec, _, err := container.NewSpec(cfg, hostConfig, nil, image.Config{})
	if err != nil {
		t.Fatalf("NewSpec(%s, %s): %v", config, host, err)
	}
	return &spec
}

func newBuilder(t testing.TB, opt Options) *Builder {
	t.Helper()
	b, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// newInput is a container on the default network with all its files.
func newInput(spec *container.Spec) Input {
	in := Input{
		ID: testID, Spec: spec, Rootfs: "/data/rootfs", User: container.UserIDs{Home: "/root"}, HostName: "machine",
		Sandbox:      network.Sandbox{Mode: spec.Network},
		HostnamePath: "/data/hostname", HostsPath: "/data/hosts", ResolvConf: "/data/resolv.conf",
	}
	if spec.Network == container.NetworkBridge {
		in.Sandbox.Path = "/run/netns/x"
	}
	return in
}

func allControllers() container.Controllers {
	return container.Controllers{Memory: true, Swap: true, CPU: true, Cpuset: true, Pids: true, Blkio: true, BlkioWeight: true, BlkioWeightDevice: true}
}

func TestBuildGolden(t *testing.T) {
	unified := allControllers()
	unified.Unified = true
	device := func(string) (int64, int64, error) { return 8, 16, nil }
	web := container.UserIDs{UID: 1000, GID: 100, Additional: []uint32{4, 44}, Home: "/srv/web"}
	const limits = `{"Memory":67108864,"MemoryReservation":33554432,"MemorySwappiness":10,"OomKillDisable":true,"CpuShares":512,
		"NanoCpus":1500000000,"CpusetCpus":"0-1","CpusetMems":"0","PidsLimit":50,"BlkioWeight":300,
		"BlkioWeightDevice":[{"Path":"/dev/sdb","Weight":20}],"BlkioDeviceReadBps":[{"Path":"/dev/sdb","Rate":1048576}],
		"OomScoreAdj":-500,"Ulimits":[{"Name":"nofile","Soft":100,"Hard":200},{"Name":"core","Soft":0,"Hard":-1}]}`
	for _, tc := range []struct {
		name         string
		config, host string
		opt          Options
		change       func(*Input)
	}{
		{name: "default"},
		{name: "tty", config: `{"Cmd":["sh"],"Tty":true,"Env":["TERM=vt100","A=1"],"Hostname":"web","Domainname":"example"}`, host: `{"ConsoleSize":[24,80]}`},
		{
			name: "privileged", host: `{"Privileged":true,"Devices":[{"PathOnHost":"/dev/fuse"}]}`,
			opt: Options{HostDevices: []string{"/dev/null", "/dev/fuse", "/dev/net/tun", "/dev/pts/0"}},
		},
		{name: "host-network", host: `{"NetworkMode":"host"}`},
		{name: "host-all", host: `{"NetworkMode":"host","PidMode":"host","IpcMode":"host","UTSMode":"host"}`},
		{
			name: "limits", host: limits,
			opt:    Options{Controllers: allControllers(), BlockDevice: device, OomScoreAdj: 100},
			change: func(in *Input) { in.CgroupsPath = "/user/c/" + in.ID },
		},
		{
			name: "limits-v2", host: limits, opt: Options{Controllers: unified, BlockDevice: device, Nofile: 4096},
			change: func(in *Input) { in.CgroupsPath = "/user/c/" + in.ID },
		},
		{
			name: "binds",
			host: `{"Binds":["/srv/data/x:/data/x/y:ro","/srv/data:/data:rslave","/etc/my-hosts:/etc/hosts:ro","/srv/shm:/dev/shm"],
				"Tmpfs":{"/run":"size=64m,mode=755"},"Sysctls":{"net.ipv4.ip_unprivileged_port_start":"1024"},
				"Devices":[{"PathOnHost":"/dev/fuse","PathInContainer":"/dev/my/fuse"}]}`,
			opt: Options{RecursiveReadOnly: true, IsDir: func(source string) bool { return source != "/etc/my-hosts" }},
		},
		{name: "single-id", opt: Options{SingleID: true}},
		{name: "readonly", host: `{"ReadonlyRootfs":true,"NetworkMode":"none","IpcMode":"none","MaskedPaths":["/proc/x"],"ReadonlyPaths":[]}`},
		{
			name: "user", config: `{"Cmd":["sh"],"User":"web","WorkingDir":"/srv/web","Env":["HOME=/mine"]}`,
			host:   `{"CapAdd":["NET_ADMIN"],"CapDrop":["MKNOD"],"SecurityOpt":["no-new-privileges","seccomp=unconfined"]}`,
			change: func(in *Input) { in.User = web },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := newInput(newSpec(t, tc.config, tc.host))
			if tc.change != nil {
				tc.change(&in)
			}
			spec, err := newBuilder(t, tc.opt).Build(in)
			if err != nil {
				t.Fatal(err)
			}
			if wantFilter := tc.name != "privileged" && tc.name != "user"; (spec.Linux.Seccomp != nil) != wantFilter {
				t.Errorf("there is a seccomp filter: %t, want %t", !wantFilter, wantFilter)
			}
			spec.Linux.Seccomp = nil // see TestSeccompGolden
			golden(t, tc.name, spec)
		})
	}
}

// TestSeccompGolden shows the whole default filter once. It is that of amd64.
func TestSeccompGolden(t *testing.T) {
	spec, err := newBuilder(t, Options{}).Build(newInput(newSpec(t, "", "")))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "seccomp.amd64", spec.Linux.Seccomp)
}

func golden(t *testing.T, name string, value any) {
	t.Helper()
	got, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s\nrun go test -update and read the difference", path, got)
	}
}

// TestInit: another program is the first process, which the container cannot write to.
func TestInit(t *testing.T) {
	in := newInput(newSpec(t, `{"Cmd":["sh","-c","x"]}`, `{"Init":true}`))
	in.Init = "/run/engine/init"
	oci, err := newBuilder(t, Options{}).Build(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{InitPath, "--", "sh", "-c", "x"}; !slices.Equal(oci.Process.Args, want) {
		t.Errorf("args %q, want %q", oci.Process.Args, want)
	}
	last := oci.Mounts[len(oci.Mounts)-1]
	if last.Destination != InitPath || last.Source != in.Init || !slices.Contains(last.Options, "ro") {
		t.Errorf("the last mount is %+v, want the program, read-only", last)
	}
}

func TestBuildIsRepeatable(t *testing.T) {
	b := newBuilder(t, Options{})
	in := newInput(newSpec(t, "", `{"Ulimits":[{"Name":"nofile","Soft":1,"Hard":1}],"Sysctls":{"net.x":"1"}}`))
	first, err := b.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	UseCompiledSeccomp(first, []byte("filter"))
	first.Process.Env[0], first.Mounts[0].Options[0], first.Linux.MaskedPaths[0] = "X", "X", "X"
	first.Linux.Sysctl["net.x"], first.Process.Capabilities.Bounding[0] = "X", "X"
	second, err := b.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	after, err := json.Marshal(second)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Errorf("a second Build differs:\n%s\n%s", before, after)
	}
}

func TestCapabilities(t *testing.T) {
	all := container.Capabilities()
	without := func(list []string, drop ...string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(c string) bool { return slices.Contains(drop, c) })
	}
	for _, tc := range []struct {
		host    string
		lastCap int
		want    []string
	}{
		{``, 0, defaultCaps()},
		{`{"CapAdd":["NET_ADMIN"]}`, 0, append(defaultCaps(), "CAP_NET_ADMIN")},
		{`{"CapDrop":["MKNOD","KILL"]}`, 0, without(defaultCaps(), "CAP_MKNOD", "CAP_KILL")},
		{`{"CapDrop":["ALL"]}`, 0, nil},
		{`{"CapDrop":["ALL"],"CapAdd":["CHOWN"]}`, 0, []string{"CAP_CHOWN"}},
		{`{"CapAdd":["ALL"]}`, 0, all},
		{`{"CapAdd":["ALL"],"CapDrop":["SYS_ADMIN"]}`, 0, without(all, "CAP_SYS_ADMIN")},
		{`{"CapAdd":["ALL"],"CapDrop":["ALL"]}`, 0, nil},
		{`{"CapAdd":["KILL"],"CapDrop":["KILL"]}`, 0, defaultCaps()},
		{`{"Privileged":true,"CapDrop":["ALL"]}`, 0, all},
		{`{"Privileged":true}`, 37, all[:38]},
		{`{"CapAdd":["BPF"]}`, 37, defaultCaps()},
	} {
		b := newBuilder(t, Options{LastCap: tc.lastCap})
		spec := newSpec(t, "", tc.host)
		got := b.capabilitySets(spec, 0)
		want := slices.Sorted(slices.Values(tc.want))
		for set, list := range map[string][]string{"bounding": got.Bounding, "effective": got.Effective, "permitted": got.Permitted} {
			list = slices.Clone(list)
			slices.Sort(list)
			if !slices.Equal(list, want) {
				t.Errorf("%s, last %d: %s = %v, want %v", tc.host, tc.lastCap, set, list, want)
			}
		}
		if got.Ambient != nil || got.Inheritable != nil {
			t.Errorf("%s: ambient %v, inheritable %v, want none", tc.host, got.Ambient, got.Inheritable)
		}
		user := b.capabilitySets(spec, 1000)
		if user.Effective != nil || user.Permitted != nil || len(user.Bounding) != len(got.Bounding) {
			t.Errorf("%s: a user other than root gets %+v", tc.host, user)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	gone := func(string) (int64, int64, error) { return 0, 0, errors.New("gone") }
	blkio := container.Controllers{Blkio: true}
	const device = `{"BlkioDeviceWriteBps":[{"Path":"/dev/sdx","Rate":1}]}`
	for _, tc := range []struct {
		name   string
		host   string
		opt    Options
		change func(*Input)
		kind   fault.Constructor
		want   string
	}{
		{"user without sub-ids", "", Options{SingleID: true}, func(in *Input) { in.User.UID = 5 }, fault.Unsupported, "user 5:0"},
		{"group without sub-ids", `{"GroupAdd":["5"]}`, Options{SingleID: true}, nil, fault.Unsupported, "GroupAdd [5]"},
		{"profile", `{"SecurityOpt":["seccomp={\"defaultAction\":5}"]}`, Options{}, nil, fault.Invalid, "invalid seccomp profile"},
		{"no such device", device, Options{Controllers: blkio, BlockDevice: gone}, nil, fault.Invalid, "/dev/sdx: gone"},
		{"no look-up", device, Options{Controllers: blkio}, nil, fault.Unsupported, "/dev/sdx"},
		{"bridge without namespace", "", Options{}, func(in *Input) { in.Sandbox.Path = "" }, fault.Internal, "no namespace"},
		{"unknown network", "", Options{}, func(in *Input) { in.Sandbox.Mode = "x" }, fault.Internal, `mode "x"`},
	} {
		in := newInput(newSpec(t, "", tc.host))
		if tc.change != nil {
			tc.change(&in)
		}
		_, err := newBuilder(t, tc.opt).Build(in)
		if !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error = %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestDefaultProfileHasNoSocketcall(t *testing.T) {
	spec, err := newBuilder(t, Options{}).Build(newInput(newSpec(t, "", "")))
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range spec.Linux.Seccomp.Syscalls {
		if slices.Contains(call.Names, "socketcall") && call.Action == specs.ActAllow {
			t.Error("socketcall is allowed")
		}
	}
	if spec.Linux.Seccomp.DefaultAction != specs.ActErrno {
		t.Errorf("default action %s", spec.Linux.Seccomp.DefaultAction)
	}
}

func TestSeccompKey(t *testing.T) {
	b := newBuilder(t, Options{})
	key := func(host string) string {
		spec, err := b.Build(newInput(newSpec(t, "", host)))
		if err != nil {
			t.Fatal(err)
		}
		return SeccompKey(spec)
	}
	plain := key("")
	if len(plain) != 64 || key(`{"ReadonlyRootfs":true}`) != plain {
		t.Errorf("key %q differs between containers with the same filter", plain)
	}
	if key(`{"CapAdd":["SYS_ADMIN"]}`) == plain {
		t.Error("another filter has the same key")
	}
	if got := key(`{"Privileged":true}`); got != "" {
		t.Errorf("key without a filter = %q", got)
	}
	own := key(`{"SecurityOpt":["seccomp={\"defaultAction\":\"SCMP_ACT_ALLOW\"}"]}`)
	if own == plain || own == "" {
		t.Errorf("key of a profile of the client's = %q", own)
	}
}

func BenchmarkBuild(b *testing.B) {
	builder, in := newBuilder(b, Options{}), newInput(newSpec(b, "", ""))
	for b.Loop() {
		spec, err := builder.Build(in)
		if err != nil {
			b.Fatal(err)
		}
		SeccompKey(spec)
	}
}
