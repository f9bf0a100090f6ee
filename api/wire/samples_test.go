package wire_test

import (
	"encoding/json"
	"hash/fnv"
	"net/netip"
	"reflect"
	"time"

	"moss/engine/container"
	"moss/engine/exec"
	"moss/engine/image"
	"moss/engine/network"
	"moss/engine/stats"
	"moss/engine/system"
	"moss/engine/volume"
)

// began is when everything in the samples begins; their times follow it by whole seconds.
var began = time.Date(2026, 11, 21, 8, 30, 0, 123456789, time.FixedZone("", 3600))

// filled returns a T with something in every field: of a string its own path, true, and numbers and times that follow from
// the path. A field that is dropped or mixed up on its way out shows in a golden.
func filled[T any]() T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), "")
	return v
}

func fill(v reflect.Value, path string) {
	h := fnv.New32a()
	h.Write([]byte(path))
	number := h.Sum32()%1000 + 1
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(began.Add(time.Duration(number) * time.Second)))
		return
	case json.RawMessage, netip.Addr, netip.Prefix:
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(path)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(number))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(number))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), path)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, path)
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), join(path, f.Name))
			}
		}
	default:
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// sample is a running container with something in every field that is shown.
func sample() *container.Record {
	r := filled[container.Record]()
	fill(reflect.ValueOf(&r.Network.Sandbox).Elem(), "Network")
	r.ID, r.State, r.Host.NetworkMode = "4fa6e0f0c6786287e131c3852c58a2e01cc697a68231826813597e4994f1d6e2", container.Running, "default"
	r.Args = []string{"plain", "with a space", "<b>&\"c\""}
	r.Config.ExposedPorts = map[string]struct{}{"80/tcp": {}, "53/udp": {}}
	r.Host.PortBindings = map[string][]container.PortBinding{"80/tcp": {{HostIP: "127.0.0.1", HostPort: "8080"}}}
	r.Network.Ports = []network.Port{{Proto: "tcp", ContainerPort: 80, HostIP: "127.0.0.1", HostPort: 8080}}
	asked, place := r.Endpoints["key"], r.Network.Endpoints["key"]
	r.Endpoints = map[string]container.EndpointConfig{"bridge": asked, "blue": asked}
	r.Network.Endpoints = map[string]network.Endpoint{"bridge": place, "blue": place}
	r.LinkedAs = []string{"/other/alias"}
	return &r
}

// stopped is one that has run.
func stopped() *container.Record {
	r := sample()
	r.State, r.Pid, r.Network, r.Health = container.Exited, 0, container.Network{}, nil
	return r
}

func sampleImage() *image.Image {
	i := filled[image.Image]()
	i.ContainerConfig = []byte(`{"Hostname":"4fa6","Cmd":["sh","-c","x"],"Image":"sha256:1","Unknown":1}`)
	i.Config.Healthcheck.Interval = time.Second
	return &i
}

func sampleInfo() *system.Info {
	i := filled[system.Info]()
	i.Cgroup.OOMKillDisable = false // so that not all flags are one
	i.SecurityOptions = []string{"name=seccomp,profile=builtin", "name=rootless"}
	return &i
}

// sampleNetwork is a network with something in every field that is shown.
func sampleNetwork() *network.Network {
	n := filled[network.Network]()
	n.ID, n.Name = "9d", "blue"
	n.IPAM.Pools = []network.Pool{
		{
			Subnet: netip.MustParsePrefix("10.1.0.0/16"), Range: netip.MustParsePrefix("10.1.2.0/24"), Gateway: netip.MustParseAddr("10.1.0.254"),
			Aux: map[string]netip.Addr{"router": netip.MustParseAddr("10.1.0.9")},
		},
		{Subnet: netip.MustParsePrefix("fd00:1::/64"), Gateway: netip.MustParseAddr("fd00:1::1")},
	}
	return &n
}

// member is a container that runs in the sample and in another network.
func member() *container.Record {
	return &container.Record{ID: "4fa6", Name: "web", Network: container.Network{Sandbox: network.Sandbox{Endpoints: map[string]network.Endpoint{
		"bridge": {NetworkID: "6b", EndpointID: "7c", IPAddress: "172.17.0.2", IPPrefixLen: 16},
		"blue": {
			NetworkID: "9d", EndpointID: "8e", IPAddress: "10.1.2.1", IPPrefixLen: 16, GlobalIPv6Address: "fd00:1::2", GlobalIPv6PrefixLen: 64,
			MacAddress: "02:42:0a:01:02:01",
		},
	}}}}
}

func sampleExec() exec.Info {
	info := filled[exec.Info]()
	info.Config.Cmd = []string{"sh", "-c", "exit 3"}
	return info
}

func sampleUsage() *image.Usage {
	u := filled[image.Usage]()
	u.Images[0].Image = sampleImage()
	return &u
}

func sampleVolume() *volume.Volume {
	v := filled[volume.Volume]()
	return &v
}

// legacySample is what the first version of cgroups tells: times of each CPU, and counters of the I/O scheduler.
func legacySample() *stats.Sample {
	s := filled[stats.Sample]()
	s.Memory.Details = counters("cache", "rss", "mapped_file", "pgpgin", "pgpgout", "pgfault", "pgmajfault", "writeback", "unevictable",
		"active_anon", "inactive_anon", "active_file", "inactive_file", "rss_huge", "hierarchical_memory_limit",
		"total_cache", "total_rss", "total_mapped_file", "total_pgpgin", "total_pgpgout", "total_pgfault", "total_pgmajfault", "total_writeback",
		"total_unevictable", "total_active_anon", "total_inactive_anon", "total_active_file", "total_inactive_file", "total_rss_huge")
	s.Networks = map[string]stats.Interface{"eth0": s.Networks["key"], "eth1": s.Networks["key"]}
	return &s
}

// unifiedSample is what the second version tells: sums of all CPUs, and no scheduler.
func unifiedSample() *stats.Sample {
	s := legacySample()
	s.CPU.PerCPU, s.CPU.Online = []uint64{0, 0}, 2
	s.PreviousCPU.PerCPU, s.PreviousCPU.Online = []uint64{0, 0}, 2
	s.BlockIO = stats.BlockIO{Bytes: s.BlockIO.Bytes, Operations: s.BlockIO.Operations}
	s.Memory.MaxUsage, s.Memory.Details = 0, counters("anon", "file", "cache", "rss", "active_anon", "inactive_file", "pgfault", "pgmajfault")
	return s
}

func counters(names ...string) map[string]uint64 {
	all := make(map[string]uint64, len(names))
	for i, name := range names {
		all[name] = uint64(i + 1)
	}
	return all
}
