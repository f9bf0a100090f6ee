package wire_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"moss/api/apiver"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/exec"
	"moss/engine/image"
	"moss/engine/network"
	"moss/engine/system"
)

// update rewrites the goldens: go test ./api/wire -update.
var update = flag.Bool("update", false, "rewrite the golden files")

// described are the versions that the documents describe.
func described() []apiver.Version {
	v := func(minor uint16) apiver.Version { return apiver.New(1, minor) }
	return []apiver.Version{v(18), v(20), v(21), v(22), v(24)}
}

// sample is a running container with something in every field that is shown.
func sample() *container.Record {
	at := time.Date(2026, 11, 21, 8, 30, 0, 123456789, time.FixedZone("", 3600))
	return &container.Record{
		ID: "4fa6e0f0c6786287e131c3852c58a2e01cc697a68231826813597e4994f1d6e2", Name: "web", Created: at,
		Image: "busybox:latest", ImageID: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		Config: container.Config{
			Hostname: "4fa6e0f0c678", AttachStdout: true, AttachStderr: true, Tty: true, OpenStdin: true,
			ExposedPorts: map[string]struct{}{"80/tcp": {}, "53/udp": {}}, Env: []string{"PATH=/bin", "A=<b>&\"c\""},
			Cmd: container.Strings{"httpd", "-f"}, Entrypoint: container.Strings{"/bin/busybox"}, Image: "busybox:latest",
			Volumes: map[string]struct{}{"/data": {}}, WorkingDir: "/", Labels: map[string]string{"b": "2", "a": "1"},
			StopSignal: "SIGINT", StopTimeout: new(5), MacAddress: "02:42:ac:11:00:02",
			Healthcheck: &image.Healthcheck{Test: []string{"CMD", "true"}, Interval: time.Second, Retries: 3},
		},
		Host: container.HostConfig{
			Binds: []string{"/srv:/srv:ro"}, NetworkMode: "default", Memory: 64 << 20, MemorySwap: -1, CPUShares: 512,
			PortBindings:  map[string][]container.PortBinding{"80/tcp": {{HostPort: "8080"}}},
			RestartPolicy: container.RestartPolicy{Name: "on-failure", MaximumRetryCount: 3},
			LogConfig:     container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "10m"}},
			CpusetCpus:    "0-1", ShmSize: 64 << 20, PidsLimit: new(int64(100)), MemorySwappiness: new(int64(-1)),
			LxcConf: container.LxcConf{{Key: "lxc.a", Value: "b"}}, Tmpfs: map[string]string{"/run": "rw"},
			Ulimits: []container.Ulimit{{Name: "nofile", Soft: 1024, Hard: 2048}}, VolumeDriver: "local",
			NanoCPUs: 5e8, Sysctls: map[string]string{"net.ipv4.ip_forward": "1"}, DNS: []string{"192.0.2.1"},
		},
		Path: "/bin/busybox", Args: []string{"httpd", "-f"},
		State: container.Running, Pid: 4242, StartedAt: at.Add(time.Second), Driver: "overlay", RestartCount: 1,
		LogPath: "/d/c/json.log", HostnamePath: "/d/c/hostname", HostsPath: "/d/c/hosts", ResolvConf: "/d/c/resolv.conf",
		Mounts: []container.Mount{
			{Type: "bind", Source: "/srv", Destination: "/srv", Mode: "ro", Propagation: "rprivate"},
			{Type: "volume", Name: "v1", Source: "/d/v1", Destination: "/data", Driver: "local", RW: true},
		},
		Network: container.Network{
			SandboxID: "5a", SandboxKey: "/run/netns/5a",
			Endpoints: map[string]container.Endpoint{"bridge": {
				NetworkID: "6b", EndpointID: "7c", Gateway: "172.17.0.1", IPAddress: "172.17.0.2", IPPrefixLen: 16,
				MacAddress: "02:42:ac:11:00:02",
			}},
			Ports: []container.Port{{Proto: "tcp", ContainerPort: 80, HostIP: "0.0.0.0", HostPort: 8080}},
		},
	}
}

func sampleImage() *image.Image {
	return &image.Image{
		ID: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", RepoTags: []string{"busybox:latest"},
		Created: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Size: 1234567, Architecture: "amd64", OS: "linux",
		Layers: []string{"sha256:aa", "sha256:bb"}, EngineVersion: "0.1.0", Comment: "imported",
		Config:          image.Config{Env: []string{"PATH=/bin"}, Cmd: []string{"sh"}, Labels: map[string]string{"a": "b"}},
		ContainerConfig: []byte(`{"Hostname":"4fa6","Cmd":["sh","-c","x"],"Image":"sha256:1","Unknown":1}`), Container: "4fa6",
	}
}

func sampleInfo() *system.Info {
	return &system.Info{
		Facts: system.Facts{
			ID: "ABCD", Version: "0.1.0", DataRoot: "/home/u/.local/share/moss", StorageDriver: "overlay",
			StorageStatus: [][2]string{{"Backing Filesystem", "extfs"}}, Cgroup: system.Cgroup{Driver: "cgroupfs", Version: "2", Memory: true, CPUQuota: true},
			Runtimes: map[string]system.Runtime{"crun": {Path: "/usr/bin/crun", Version: "1.8.1"}}, DefaultRuntime: "crun",
			Uplink: "slirp4netns", SecurityOptions: []string{"seccomp", "rootless"}, Warnings: []string{"no swap limit"},
			Registries: []system.Registry{{Name: "registry.example", Secure: true, Official: true}}, InsecureCIDRs: []string{"127.0.0.0/8"},
			LogDriver: "json-file",
		},
		Counts: system.Counts{Running: 1, Paused: 2, Stopped: 3}, Images: 4, Listeners: 5, Name: "host", KernelVersion: "6.18",
		OperatingSystem: "Debian GNU/Linux 12 (bookworm)", OSType: "linux", Architecture: "x86_64", CPUs: 2, MemTotal: 1 << 30,
		Files: 10, Goroutines: 20, Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), IPv4Forwarding: true,
	}
}

func TestGolden(t *testing.T) {
	stopped := sample()
	stopped.State, stopped.Pid, stopped.Network, stopped.StartedAt = container.Created, 0, container.Network{}, time.Time{}
	now := sample().StartedAt.Add(5 * time.Minute)
	size := int64(4096)
	withSize := wire.NewContainerInspect(sample())
	withSize.SizeRw, withSize.SizeRootFs = &size, &size
	var created wire.ContainerCreate
	if err := wire.Decode([]byte(`{"Image":"busybox","Cmd":"sh"}`), &created, apiver.Max); err != nil {
		t.Fatal(err)
	}
	when := time.Unix(1448064000, 5)
	for name, value := range map[string]any{
		"inspect":         withSize,
		"inspect-created": wire.NewContainerInspect(stopped),
		"inspect-minimal": wire.NewContainerInspect(&container.Record{}),
		"list":            []*wire.ContainerSummary{wire.NewContainerSummary(sample(), now), wire.NewContainerSummary(stopped, now)},
		"create":          created,
		"images":          []*wire.ImageSummary{wire.NewImageSummary(sampleImage(), true), wire.NewImageSummary(&image.Image{ID: "sha256:1"}, true)},
		"image":           wire.NewImageInspect(sampleImage(), "overlay"),
		"info":            wire.NewInfo(sampleInfo()),
		"version":         wire.NewVersion(system.Version{Version: "0.1.0", GoVersion: "go1.26", OS: "linux", Arch: "amd64"}),
		"event": wire.NewEvent(&event.Event{
			Type: event.TypeContainer, Action: "die", ID: "4f", Time: when, Attributes: map[string]string{"image": "busybox", "exitCode": "3"},
		}),
		"exec":          wire.NewExecInspect(sampleExec(), wire.NewContainerInspect(&container.Record{ID: "4f", Name: "web"})),
		"exec-running":  wire.NewExecInspect(exec.Info{ID: "7d", Running: true, Pid: 5, Config: exec.Config{Cmd: []string{"sh"}}}, nil),
		"health":        wire.NewContainerInspect(&container.Record{Health: sampleHealth(when)}).State,
		"event-network": wire.NewEvent(&event.Event{Type: event.TypeNetwork, Action: "connect", ID: "6b", Time: when}),
		"networks":      []*wire.Network{wire.NewNetwork(sampleNetwork(), []*container.Record{member()}), wire.NewNetwork(&network.Network{Name: "none"}, nil)},
		"network":       wire.NewNetworkInspect(sampleNetwork(), []*container.Record{member()}),
		"progress":      wire.NewProgress(image.Progress{ID: "1", Status: "Importing", Current: 50, Total: 100}),
	} {
		for _, version := range described() {
			golden(t, name, version, value)
		}
	}
}

// TestProgressLines has what tells clients which messages are drawn in the line of a part.
func TestProgressLines(t *testing.T) {
	for _, tc := range []struct {
		p    image.Progress
		want string
	}{
		{image.Progress{ID: "0123456789ab", Status: "Pull complete"}, `{"status":"Pull complete","progressDetail":{},"id":"0123456789ab"}`},
		{image.Progress{ID: "v1", Status: "Pulling from a", Heading: true}, `{"status":"Pulling from a","id":"v1"}`},
		{image.Progress{Status: "Digest: sha256:1"}, `{"status":"Digest: sha256:1"}`},
		{image.Progress{Stream: "Loaded image: a:b\n"}, `{"stream":"Loaded image: a:b\n"}`},
	} {
		raw, err := wire.Encode(wire.NewProgress(tc.p), apiver.Max)
		if err != nil || string(raw) != tc.want {
			t.Errorf("%+v = %s, %v, want %s", tc.p, raw, err, tc.want)
		}
	}
}

func sampleExec() exec.Info {
	code := 3
	return exec.Info{ID: "7d", ContainerID: "4f", ExitCode: &code, Config: exec.Config{
		AttachStdin: true, AttachStdout: true, AttachStderr: true, DetachKeys: "ctrl-a", Tty: true,
		Cmd: []string{"sh", "-c", "exit 3"}, Privileged: true, User: "www",
	}}
}

func sampleHealth(at time.Time) *container.Health {
	return &container.Health{Status: "unhealthy", FailingStreak: 3, Log: []container.HealthResult{
		{Start: at, End: at.Add(time.Second), ExitCode: 1, Output: "bad"},
	}}
}

func golden(t *testing.T, name string, version apiver.Version, value any) {
	t.Helper()
	raw, err := wire.Encode(value, version)
	if err != nil {
		t.Errorf("Encode(%s, %v) = %v", name, version, err)
		return
	}
	var got bytes.Buffer
	if err := json.Indent(&got, raw, "", "  "); err != nil {
		t.Errorf("Encode(%s, %v) is no JSON: %v\n%s", name, version, err, raw)
		return
	}
	got.WriteByte('\n')
	path := filepath.Join("testdata", name+".v"+version.String()+".json")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s at %v differs from %s:\n%s", name, version, path, &got)
	}
}
