package wire_test

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"moss/api/apiver"
	"moss/api/wire"
	"moss/engine/container"
)

// TestFieldVersions asks of every field of list entries and inspect records in which of the described versions it is
// there (document 1, 2.1 and 2.4). sample has something in each of them.
func TestFieldVersions(t *testing.T) {
	size := int64(4096)
	entry, record := wire.NewContainerSummary(sample(), time.Now()), wire.NewContainerInspect(sample())
	entry.SizeRw, entry.SizeRootFs, record.SizeRw, record.SizeRootFs = &size, &size, &size, &size
	step := wire.ImageHistory{Tags: []string{"a:b"}}
	shown := map[string]any{
		"network": wire.NewNetworkInspect(sampleNetwork(), []*container.Record{member()}), "networks": []*wire.Network{wire.NewNetwork(sampleNetwork(), []*container.Record{member()})},
		"list": entry, "inspect": record, "history": &step, "login": &wire.Login{},
		"image": wire.NewImageInspect(sampleImage(), "overlay"), "images": wire.NewImageSummary(sampleImage(), true),
	}
	for _, tc := range []struct {
		first, last   uint16
		below, fields string
	}{
		{18, 24, "list", "Id Names Image Command Created Status Ports Labels SizeRw SizeRootFs"},
		{18, 24, "list.Ports.0", "PrivatePort PublicPort Type"},
		{21, 24, "list", "ImageID"},
		{22, 24, "list", "HostConfig.NetworkMode NetworkSettings.Networks"},
		{24, 24, "list", "State Mounts"},
		{24, 24, "list.Mounts.1", "Name Source Destination Driver Mode RW Propagation"},
		{18, 24, "inspect", "AppArmorProfile Args Config Config.OnBuild Created Driver ExecIDs HostConfig HostConfig.ContainerIDFile HostConfig.IpcMode " +
			"HostnamePath HostsPath LogPath Id Image MountLabel Name NetworkSettings Path ProcessLabel ResolvConfPath RestartCount State"},
		{18, 18, "inspect", "Config.PortSpecs Volumes VolumesRW"},
		{18, 22, "inspect", "ExecDriver"},
		{20, 24, "inspect", "Mounts"},
		{21, 24, "inspect", "SizeRw SizeRootFs"},
		{20, 24, "inspect.Mounts.1", "Source Destination Mode RW"},
		{22, 24, "inspect.Mounts.1", "Name Driver Propagation"},
		{18, 24, "inspect.State", "Error ExitCode FinishedAt StartedAt OOMKilled Paused Restarting Running Pid"},
		{21, 24, "inspect.State", "Status"},
		{22, 24, "inspect.State", "Dead"},
		{18, 24, "inspect.NetworkSettings", "Bridge Ports Gateway IPAddress IPPrefixLen MacAddress"},
		{18, 20, "inspect.NetworkSettings", "PortMapping"},
		{21, 24, "inspect.NetworkSettings", "SandboxID HairpinMode LinkLocalIPv6Address LinkLocalIPv6PrefixLen SandboxKey SecondaryIPAddresses " +
			"SecondaryIPv6Addresses EndpointID GlobalIPv6Address GlobalIPv6PrefixLen IPv6Gateway Networks"},
		{21, 24, "inspect.NetworkSettings.Networks.bridge", endpointFields},
		{22, 24, "list.NetworkSettings.Networks.bridge", endpointFields},
		{18, 24, "images", "RepoTags Id ParentId Created Size VirtualSize RepoDigests"},
		{20, 24, "images", "Labels"},
		{18, 24, "image", "Id Parent Created Container ContainerConfig Size " + // and what clients of all versions read
			"RepoTags RepoDigests Config Comment Author Architecture Os VirtualSize EngineVersion"},
		{24, 24, "image", "GraphDriver.Name GraphDriver.Data RootFS.Type RootFS.Layers"},
		{18, 24, "network", "Name Id Scope Driver IPAM.Driver IPAM.Config.0.Subnet IPAM.Config.0.IPRange IPAM.Config.0.Gateway " +
			"IPAM.Config.0.AuxAddress.router IPAM.Config.0.AuxiliaryAddresses.router Containers Options Created"},
		{22, 24, "network", "IPAM.Options Internal"},
		{24, 24, "network", "EnableIPv6 Labels"},
		{18, 24, "network.Containers.4fa6", "EndpointID MacAddress IPv4Address IPv6Address"},
		{22, 24, "network.Containers.4fa6", "Name"},
		{18, 24, "networks.0.Containers.4fa6", "EndpointID MacAddress IPv4Address IPv6Address"},
		{1, 1, "networks.0.Containers.4fa6", "Name"}, // in inspect only
		{18, 24, "history", "Id Created CreatedBy"},
		{24, 24, "history", "Tags Size Comment"},
		{18, 24, "login", "Status"},
		{24, 24, "login", "IdentityToken"},
	} {
		for _, version := range described() {
			want := version >= apiver.New(1, tc.first) && version <= apiver.New(1, tc.last)
			for field := range strings.FieldsSeq(tc.fields) {
				if path := tc.below + "." + field; has(t, shown, version, path) != want {
					t.Errorf("at %v %s is there: %t, want %t", version, path, !want, want)
				}
			}
		}
	}
}

const endpointFields = "IPAMConfig Links Aliases NetworkID EndpointID Gateway IPAddress IPPrefixLen IPv6Gateway GlobalIPv6Address " +
	"GlobalIPv6PrefixLen MacAddress"

// has reports whether an answer of that version has the field, be it null.
func has(t *testing.T, shown map[string]any, version apiver.Version, path string) bool {
	t.Helper()
	first, rest, _ := strings.Cut(path, ".")
	raw, err := wire.Encode(shown[first], version)
	if err != nil {
		t.Fatal(err)
	}
	var at any
	if err := json.Unmarshal(raw, &at); err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(rest, ".") {
		switch value := at.(type) {
		case map[string]any:
			next, ok := value[name]
			if !ok {
				return false
			}
			at = next
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(value) {
				return false
			}
			at = value[i]
		default:
			return false
		}
	}
	return true
}

// TestCreateFields reads a body with every field of document 1, 2.2, in each described version.
func TestCreateFields(t *testing.T) {
	const body = `{"Hostname":"h","Domainname":"d","User":"u","AttachStdin":true,"AttachStdout":true,"AttachStderr":true,"Tty":true,
		"OpenStdin":true,"StdinOnce":true,"Env":["A=b"],"Labels":{"l":"m"},"Cmd":"c","Entrypoint":"e","Image":"i","Volumes":{"/v":{}},
		"Healthcheck":{"Test":["CMD","t"],"Interval":2000000,"Timeout":3000000,"StartPeriod":4000000,"Retries":5},"WorkingDir":"/w",
		"NetworkDisabled":true,"MacAddress":"02:42:ac:11:00:09","ExposedPorts":{"80/tcp":{}},"StopSignal":2,"HostConfig":{"Memory":7},
		"NetworkingConfig":{"EndpointsConfig":{"n":{"IPAMConfig":{"IPv4Address":"192.0.2.1","IPv6Address":"2001:db8::1",
		"LinkLocalIPs":["169.254.1.1"]},"Links":["x:y"],"Aliases":["z"]}}}}`
	type config = container.Config
	for _, version := range described() {
		var c wire.ContainerCreate
		if err := wire.Decode([]byte(body), &c, version); err != nil {
			t.Errorf("Decode at %v = %v", version, err)
			continue
		}
		got, since := c.ContainerConfig(), func(minor uint16) bool { return version >= apiver.New(1, minor) }
		if h := got.Healthcheck; (h != nil) != since(24) {
			t.Errorf("at %v Healthcheck = %+v", version, h)
		} else if h != nil && (h.Test[1] != "t" || h.Interval != 2e6 || h.Timeout != 3e6 || h.StartPeriod != 4e6 || h.Retries != 5) {
			t.Errorf("at %v Healthcheck = %+v", version, h)
		}
		want := config{
			Hostname: "h", Domainname: "d", User: "u", AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: true, OpenStdin: true,
			StdinOnce: true, Env: []string{"A=b"}, Labels: map[string]string{"l": "m"}, Cmd: container.Strings{"c"},
			Entrypoint: container.Strings{"e"}, Image: "i", Volumes: map[string]struct{}{"/v": {}}, WorkingDir: "/w", NetworkDisabled: true,
			MacAddress: "02:42:ac:11:00:09", ExposedPorts: map[string]struct{}{"80/tcp": {}}, Healthcheck: got.Healthcheck,
		}
		if since(21) {
			want.StopSignal = "2"
		}
		if !reflect.DeepEqual(got, want) || c.Host().Memory != 7 {
			t.Errorf("at %v got %+v, %d\nwant %+v", version, got, c.Host().Memory, want)
		}
		ipam := &container.IPAMConfig{IPv4Address: "192.0.2.1", IPv6Address: "2001:db8::1"}
		if since(24) {
			ipam.LinkLocalIPs = []string{"169.254.1.1"}
		}
		endpoints := map[string]container.EndpointConfig{"n": {IPAMConfig: ipam, Links: []string{"x:y"}, Aliases: []string{"z"}}}
		if !since(22) {
			endpoints = nil
		}
		if got := c.Endpoints(); !reflect.DeepEqual(got, endpoints) {
			t.Errorf("at %v got endpoints %+v, want %+v", version, got, endpoints)
		}
	}
}

// TestStateFlags shows each state in the words and the flags that clients look at (document 1, 3.1).
func TestStateFlags(t *testing.T) {
	type flags struct{ running, paused, restarting, dead bool }
	want := map[container.State]flags{
		container.Running:    {running: true},
		container.Paused:     {running: true, paused: true},
		container.Restarting: {running: true, restarting: true},
		container.Dead:       {dead: true},
	}
	for _, state := range container.States() {
		s := wire.NewContainerInspect(&container.Record{State: state, OOMKilled: true}).State
		if got := (flags{s.Running, s.Paused, s.Restarting, s.Dead}); got != want[state] || s.Status != state.String() || !s.OOMKilled {
			t.Errorf("%s is shown as %q %+v, want %+v", state, s.Status, got, want[state])
		}
	}
}

// TestEndpointsShown shows what was asked for of a network beside what the container has in it, running or not.
func TestEndpointsShown(t *testing.T) {
	r := sample()
	r.Endpoints = map[string]container.EndpointConfig{"default": {
		Links: []string{"db:store"}, Aliases: []string{"a"}, IPAMConfig: &container.IPAMConfig{IPv4Address: "192.0.2.1"},
	}}
	for _, address := range []string{"172.17.0.2", ""} {
		got := wire.NewContainerInspect(r).NetworkSettings.Networks
		e := got["bridge"]
		if len(got) != 1 || e.IPAddress != address || len(e.Links) != 1 || len(e.Aliases) != 1 || e.IPAMConfig.IPv4Address != "192.0.2.1" {
			t.Errorf("networks = %+v, want what was asked for, with the address %q", got, address)
		}
		r.State, r.Network = container.Exited, container.Network{}
	}
}
