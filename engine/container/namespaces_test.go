package container

import (
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/network"
)

func TestNewSpecJoin(t *testing.T) {
	for _, tc := range []struct {
		ask
		join    Join
		network string
		ipc     Ipc
	}{
		{ask: ask{}, network: NetworkBridge},
		{ask: ask{host: `{"NetworkMode":"default","IpcMode":"shareable"}`}, network: NetworkBridge},
		{ask: ask{host: `{"NetworkMode":"mynet","IpcMode":"none"}`}, network: "mynet", ipc: IpcNone},
		{ask: ask{host: `{"NetworkMode":"container:web"}`}, network: NetworkContainer, join: Join{Network: "web"}},
		{ask: ask{host: `{"NetworkMode":"container:web"}`, config: `{"NetworkDisabled":true}`}, network: NetworkNone},
		{
			ask: ask{host: `{"NetworkMode":"none","PidMode":"container:a","IpcMode":"container:b"}`}, network: NetworkNone,
			join: Join{Pid: "a", Ipc: "b"}, ipc: IpcContainer,
		},
		{ask: ask{host: `{"NetworkMode":"host","PidMode":"host","IpcMode":"host"}`}, network: NetworkHost, ipc: IpcHost},
	} {
		spec, _, err := tc.spec(t)
		if err != nil || spec.Join != tc.join || spec.Network != tc.network || spec.Ipc != tc.ipc {
			t.Errorf("NewSpec(%s): join %+v, network %s, ipc %d, %v, want %+v, %s, %d",
				tc.host, spec.Join, spec.Network, spec.Ipc, err, tc.join, tc.network, tc.ipc)
		}
	}
}

func TestNewSpecNetworkRefused(t *testing.T) {
	const other = `{"NetworkMode":"container:web"}`
	for _, tc := range []struct {
		ask
		want string
		kind fault.Constructor
	}{
		{ask{host: other, config: `{"Hostname":"x"}`}, "Conflicting options: hostname and the network mode", fault.Invalid},
		{ask{host: other, config: `{"ExposedPorts":{"80":{}}}`}, "port exposing", fault.Invalid},
		{ask{host: `{"NetworkMode":"container:"}`}, "container:<name|id>", fault.Invalid},
		{ask{host: `{"PidMode":"container:"}`}, "container:<name|id>", fault.Invalid},
		{ask{host: `{"IpcMode":"container:"}`}, "container:<name|id>", fault.Invalid},
		{ask{host: `{"UTSMode":"container:web"}`}, "invalid UTS mode", fault.Invalid},
		{ask{host: `{"NetworkMode":"../x"}`}, "invalid network mode", fault.Invalid},
		{ask{host: `{"NetworkMode":"container"}`}, "invalid network mode", fault.Invalid},
		{ask{nets: `{"host":{}}`}, "container cannot be disconnected from host network or connected to host network", fault.Invalid},
		{ask{nets: `{"none":{}}`}, "private (none) mode", fault.Invalid},
		{ask{nets: `{"mynet":{}}`, host: `{"NetworkMode":"none"}`}, "private (none) mode", fault.Invalid},
		{ask{nets: `{"mynet":{}}`, host: `{"NetworkMode":"host"}`}, "sharing network namespace", fault.Invalid},
		{ask{nets: `{"mynet":{}}`, host: other}, "sharing network namespace", fault.Invalid},
		{ask{nets: `{"container:web":{"Aliases":["a"]}}`, host: other}, "user defined networks", fault.Invalid},
		{ask{nets: `{"container:web":{"IPAMConfig":{"IPv4Address":"192.0.2.1"}}}`, host: other}, "user defined networks only", fault.Invalid},
		{ask{nets: `{"container:web":{"Links":["a"]}}`, host: other}, "container type networking", fault.Invalid},
		{ask{nets: `{"container:web":{"MacAddress":"02:42:00:00:00:01"}}`, host: other}, "mac-address", fault.Invalid},
		{ask{nets: `{"host":{"MacAddress":"02:42:00:00:00:01"}}`, host: `{"NetworkMode":"host"}`}, "mac-address", fault.Invalid},
		{ask{nets: `{"default":{},"bridge":{}}`}, "bridge is there twice", fault.Invalid},
		{ask{nets: `{"my net ":{}}`}, "invalid network name", fault.Invalid},
		{ask{host: `{"NetworkMode":" my net"}`}, "invalid network mode", fault.Invalid},
		{ask{nets: `{"mynet":{"Aliases":["a b"]}}`}, `invalid alias "a b"`, fault.Invalid},
		{ask{nets: `{"mynet":{"Links":["a:b:c"]}}`}, "bad format for links", fault.Invalid},
		{ask{nets: `{"mynet":{"MacAddress":"x"}}`}, "invalid MacAddress", fault.Invalid},
		{
			ask{config: `{"MacAddress":"02:42:00:00:00:02"}`, nets: `{"bridge":{"MacAddress":"02:42:00:00:00:01"}}`},
			"container-wide MAC address 02:42:00:00:00:02 must match", fault.Invalid,
		},
		{ask{nets: `{"mynet":{"IPAMConfig":{"IPv4Address":"2001:db8::1"}}}`}, "invalid IPv4 address", fault.Invalid},
		{ask{nets: `{"mynet":{"IPAMConfig":{"IPv6Address":"192.0.2.1"}}}`}, "invalid IPv6 address", fault.Invalid},
		{ask{nets: `{"mynet":{"IPAMConfig":{"IPv6Address":"fe80::1%eth0"}}}`}, "invalid IPv6 address", fault.Invalid},
		{ask{nets: `{"mynet":{"IPAMConfig":{"LinkLocalIPs":["192.0.2.1"]}}}`}, "invalid link-local IP address", fault.Invalid},
		{ask{nets: `{"mynet":{"IPAMConfig":{"LinkLocalIPs":["x"]}}}`}, "invalid link-local IP address", fault.Invalid},
		{ask{nets: `{"mynet":{"IPAMConfig":{"LinkLocalIPs":["fe80::1","fe80:0::1"]}}}`}, `"fe80:0::1" twice`, fault.Invalid},
		{ask{nets: `{"mynet":{"MacAddress":"00:00:00:00:00:00"}}`}, "invalid MacAddress", fault.Invalid},
		{ask{nets: `{"bridge":{"Aliases":["x"]}}`}, "user defined networks", fault.Invalid},
		{ask{nets: `{"bridge":{"IPAMConfig":{"IPv6Address":"::9"}}}`}, "user defined networks only", fault.Invalid},
		{ask{nets: `{"mynet":{"IPAMConfig":{"IPv4Address":"9"}}}`, host: `{"NetworkMode":"mynet"}`}, "invalid IPv4 address", fault.Invalid},
		{ask{nets: `{"none":{"Links":["a"]}}`, host: `{"NetworkMode":"none"}`}, "none type networking", fault.Invalid},
		{ask{host: `{"StorageOpt":{"size":"1g"}}`}, "StorageOpt size=1g is not supported: a container's own size limit takes project quotas", fault.Invalid},
		{ask{host: `{"StorageOpt":{"speed":"9"}}`}, "unknown option speed in StorageOpt", fault.Invalid},
		{ask{host: `{"CgroupParent":"a/../b"}`}, "invalid CgroupParent", fault.Invalid},
		{ask{host: `{"CgroupParent":"a\nb"}`}, "invalid CgroupParent", fault.Invalid},
	} {
		_, _, err := tc.spec(t)
		if !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("NewSpec(%s %s %s) error = %v, want %q", tc.config, tc.host, tc.nets, err, tc.want)
		}
	}
}

// TestSharedNetworkRecord reads a record back that shows what is the other container's.
func TestSharedNetworkRecord(t *testing.T) {
	img := image.Config{Cmd: []string{"sh"}, ExposedPorts: map[string]struct{}{"80/tcp": {}}}
	spec, _, err := NewSpec(Config{}, HostConfig{NetworkMode: "container:web"}, nil, img)
	if err != nil {
		t.Fatalf("ports that the image exposes: %v", err)
	}
	spec.Config.Hostname, spec.Config.Domainname = "front", "example"
	if _, err := SpecOf(&Record{Config: spec.Config, Host: spec.Host}); err != nil {
		t.Error(err)
	}
}

func TestCgroupPath(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "/": "", ".": "", "a": "a", "/a/b/": "a/b", "a//./b": "a/b", "user.slice": "user.slice",
	} {
		h := HostConfig{CgroupParent: in}
		if got := h.CgroupPath(); got != want {
			t.Errorf("CgroupPath of %q = %q, want %q", in, got, want)
		}
	}
}

func TestParseLink(t *testing.T) {
	for in, want := range map[string]Link{
		"db": {"db", "db"}, "db:store": {"db", "store"}, "/db": {"db", "db"}, "/db:/web/store": {"db", "store"},
		"a.b:c_d-e": {"a.b", "c_d-e"}, "db:/web/store": {}, "": {}, ":x": {}, "db:": {}, "db:a:b": {}, "db:a b": {}, "db:#": {},
		"/": {}, "/db:/": {}, "db:a\nb": {},
	} {
		got, err := ParseLink(in)
		if got != want || (err == nil) == (want == Link{}) {
			t.Errorf("ParseLink(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
}

func FuzzParseLink(f *testing.F) {
	for _, s := range []string{"db", "db:store", "/db:/web/store", "a:b:c", "/:/", "é:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		link, err := ParseLink(s)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("ParseLink(%q) error = %v, want fault.Invalid", s, err)
			}
			return
		}
		again, err := ParseLink(ShowLink(link.Container, "parent", link.Alias))
		if err != nil || again != link {
			t.Errorf("ParseLink(%q) = %v, and shown it is %v, %v", s, link, again, err)
		}
		if !isWord(link.Alias) {
			t.Errorf("ParseLink(%q): alias %q is more than a word", s, link.Alias)
		}
	})
}

func TestNewSpecLinks(t *testing.T) {
	spec, _, err := ask{host: `{"Links":["db:a","db:b"]}`, nets: `{"bridge":{"Links":["db:b","other"]}}`}.spec(t)
	want := []Link{{"db", "a"}, {"db", "b"}, {"other", "other"}}
	if err != nil || !slices.Equal(spec.Links, want) {
		t.Errorf("links = %v, %v, want %v", spec.Links, err, want)
	}
	spec, _, err = ask{host: `{"Links":["db:a","other:a"]}`, nets: `{"bridge":{},"mine":{"Links":["db:a","other:a"]}}`}.spec(t)
	if err != nil || !slices.Equal(spec.Links, []Link{{"db", "a"}}) || !slices.Equal(spec.Endpoints["mine"].Links, []string{"db:a", "other:a"}) {
		t.Errorf("one alias for two containers: %v, %v, %v, want the first in the default network and both in another",
			spec.Links, spec.Endpoints["mine"].Links, err)
	}
}

func TestLinkEnv(t *testing.T) {
	ports := []network.Port{
		{Proto: "tcp", ContainerPort: 81},
		{Proto: "udp", ContainerPort: 80},
		{Proto: "tcp", ContainerPort: 80},
		{Proto: "tcp", ContainerPort: 9000},
	}
	got := LinkEnv("/web/my-db", "172.17.0.2", ports, []string{"A=b=c", "HOME=/x", "PATH=/y", "EMPTY="})
	want := strings.Fields(`MY_DB_PORT=tcp://172.17.0.2:80
MY_DB_PORT_80_TCP=tcp://172.17.0.2:80 MY_DB_PORT_80_TCP_ADDR=172.17.0.2 MY_DB_PORT_80_TCP_PORT=80 MY_DB_PORT_80_TCP_PROTO=tcp
MY_DB_PORT_80_UDP=udp://172.17.0.2:80 MY_DB_PORT_80_UDP_ADDR=172.17.0.2 MY_DB_PORT_80_UDP_PORT=80 MY_DB_PORT_80_UDP_PROTO=udp
MY_DB_PORT_81_TCP=tcp://172.17.0.2:81 MY_DB_PORT_81_TCP_ADDR=172.17.0.2 MY_DB_PORT_81_TCP_PORT=81 MY_DB_PORT_81_TCP_PROTO=tcp
MY_DB_PORT_9000_TCP=tcp://172.17.0.2:9000 MY_DB_PORT_9000_TCP_ADDR=172.17.0.2 MY_DB_PORT_9000_TCP_PORT=9000
MY_DB_PORT_9000_TCP_PROTO=tcp
MY_DB_PORT_80_TCP_START=tcp://172.17.0.2:80 MY_DB_PORT_80_TCP_PORT_START=80
MY_DB_PORT_80_TCP_END=tcp://172.17.0.2:81 MY_DB_PORT_80_TCP_PORT_END=81
MY_DB_NAME=/web/my-db MY_DB_ENV_A=b=c MY_DB_ENV_EMPTY=`)
	if !slices.Equal(got, want) {
		t.Errorf("LinkEnv:\ngot  %v\nwant %v", got, want)
	}
	if got := LinkEnv("/web/db", "::1", nil, nil); !slices.Equal(got, []string{"DB_NAME=/web/db"}) {
		t.Errorf("LinkEnv without ports = %v", got)
	}
}
