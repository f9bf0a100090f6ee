package container

import (
	"encoding/json"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"moss/engine/image"
)

// TestSpecNetworks: the networks that a new container is in, and the order of them.
func TestSpecNetworks(t *testing.T) {
	for _, tc := range []struct {
		ask
		network string
		order   []string
	}{
		{ask{}, "bridge", []string{"bridge"}},
		{ask{nets: `{"default":{}}`, host: `{"NetworkMode":"bridge"}`}, "bridge", []string{"bridge"}},
		{ask{host: `{"NetworkMode":"none"}`}, "none", []string{"none"}},
		{ask{host: `{"NetworkMode":"host"}`, nets: `{"host":{}}`}, "host", []string{"host"}},
		{ask{host: `{"NetworkMode":"container:x"}`, nets: `{"container:x":{}}`}, "container", nil},
		{ask{config: `{"Cmd":["sh"],"NetworkDisabled":true}`}, "none", []string{"none"}},
		{ask{host: `{"NetworkMode":"my-net"}`}, "my-net", []string{"my-net"}},
		{ask{host: `{"NetworkMode":"m"}`, nets: `{"z":{},"a":{},"bridge":{}}`}, "a", []string{"a", "bridge", "z"}},
		{ask{host: `{"NetworkMode":"m"}`, nets: `{"z":{},"m":{},"bridge":{}}`}, "m", []string{"m", "bridge", "z"}},
		{ask{nets: `{"z":{},"a":{}}`}, "a", []string{"a", "z"}},
		{ask{nets: `{"z":{},"a":{}}`, host: `{"NetworkMode":"default"}`}, "a", []string{"a", "z"}},
		{ask{nets: `{"a":{}}`, host: `{"NetworkMode":"bridge"}`}, "a", []string{"a"}},
	} {
		spec, _, err := tc.spec(t)
		if err != nil || spec.Network != tc.network || !slices.Equal(spec.NetworkOrder(), tc.order) {
			t.Errorf("NewSpec(%s %s): %s, %v, %v, want %s, %v", tc.host, tc.nets, spec.Network, spec.NetworkOrder(), err, tc.network, tc.order)
		}
	}
}

// TestSpecEndpoint: what is asked of a network is kept, in one spelling.
func TestSpecEndpoint(t *testing.T) {
	a := ask{
		config: `{"Cmd":["sh"],"ExposedPorts":{"80":{}},"MacAddress":"02:42:AC:00:00:01"}`,
		host:   `{"NetworkMode":"n","Links":["db","/cache:/web/store"],"PortBindings":{"80/tcp":[{"HostPort":"8080"}]},"ExtraHosts":["gate:host-gateway","six:[2001:db8::7]"]}`,
		nets: `{"n":{"Aliases":["web"],"Links":["db:db"],"MacAddress":"02-42-AC-00-00-01",
			"IPAMConfig":{"IPv4Address":"192.0.2.9","IPv6Address":"2001:db8::9","LinkLocalIPs":["169.254.1.1","fe80::9"]}}}`,
	}
	spec, warnings, err := a.spec(t)
	if err != nil {
		t.Fatal(err)
	}
	want := EndpointConfig{
		Aliases: []string{"web"}, Links: []string{"db:db", "cache:store"}, MacAddress: "02:42:ac:00:00:01",
		IPAMConfig: &IPAMConfig{IPv4Address: "192.0.2.9", IPv6Address: "2001:db8::9", LinkLocalIPs: []string{"169.254.1.1", "fe80::9"}},
	}
	if got := spec.Endpoints["n"]; !reflect.DeepEqual(got, want) {
		t.Errorf("endpoint = %+v, want %+v", got, want)
	}
	if len(spec.Links) > 0 || len(spec.Host.Links) > 0 {
		t.Errorf("links of the default network = %v, %v, want none: they are the other network's", spec.Links, spec.Host.Links)
	}
	if len(spec.Publish) != 1 || len(warnings) > 0 {
		t.Errorf("published = %v, warnings %q, want the port and none", spec.Publish, warnings)
	}
	if hosts := []HostIP{{Name: "gate"}, {Name: "six", IP: netip.MustParseAddr("2001:db8::7")}}; !slices.Equal(spec.Hosts, hosts) {
		t.Errorf("hosts = %v, want %v", spec.Hosts, hosts)
	}
	again, err := SpecOf(&Record{Config: spec.Config, Host: spec.Host, Endpoints: spec.Endpoints})
	if err != nil || !reflect.DeepEqual(again.Endpoints, spec.Endpoints) {
		t.Errorf("of the record: %+v, %v, want %+v", again.Endpoints, err, spec.Endpoints)
	}
}

// TestSpecOfNetworks: a record says which networks a container is in, whatever its NetworkMode was at create.
func TestSpecOfNetworks(t *testing.T) {
	for _, tc := range []struct {
		mode, endpoints string // JSON of Record.Endpoints
		network         string
		order           []string
	}{
		{"", `null`, "bridge", []string{"bridge"}}, // of an engine that had no others
		{"mynet", `null`, "mynet", []string{"mynet"}},
		{"bridge", `{"b":{},"a":{}}`, "a", []string{"a", "b"}},
		{"b", `{"b":{},"a":{}}`, "b", []string{"b", "a"}},
		{"bridge", `{}`, "bridge", nil},
		{"none", `{"b":{}}`, "b", []string{"b"}},
	} {
		var in map[string]EndpointConfig
		if err := json.Unmarshal([]byte(tc.endpoints), &in); err != nil {
			t.Fatal(err)
		}
		r := &Record{Config: Config{Cmd: []string{"sh"}}, Host: HostConfig{NetworkMode: tc.mode}, Endpoints: in}
		spec, err := SpecOf(r)
		if err != nil || spec.Network != tc.network || !slices.Equal(spec.NetworkOrder(), tc.order) {
			t.Errorf("SpecOf(%q %s): %s, %v, %v, want %s, %v", tc.mode, tc.endpoints, spec.Network, spec.NetworkOrder(), err, tc.network, tc.order)
		}
		if got := slices.Sorted(maps.Keys(r.Networks())); !slices.Equal(got, slices.Sorted(slices.Values(tc.order))) {
			t.Errorf("Networks of %q %s = %v, want %v", tc.mode, tc.endpoints, got, tc.order)
		}
		other, err := SpecWith(r, HostConfig{NetworkMode: "elsewhere"})
		if err != nil || !slices.Equal(other.NetworkOrder(), []string{"elsewhere"}) {
			t.Errorf("SpecWith(%q %s) of another mode: %v, %v, want that network alone", tc.mode, tc.endpoints, other.NetworkOrder(), err)
		}
	}
	if in := (&Record{Host: HostConfig{NetworkMode: "container:x"}}).Networks(); in != nil {
		t.Errorf("networks beside another container's = %v, want none", in)
	}
}

func TestPortsWithoutNetwork(t *testing.T) {
	for _, mode := range []string{"host", "none"} {
		host := HostConfig{NetworkMode: mode, PortBindings: map[string][]PortBinding{"80/tcp": {{HostPort: "8080"}}}}
		spec, warnings, err := NewSpec(Config{Cmd: []string{"sh"}}, host, nil, image.Config{})
		want := []string{"Published ports are discarded when using " + mode + " network mode"}
		if err != nil || len(spec.Publish) > 0 || !slices.Equal(warnings, want) {
			t.Errorf("%s: published %v, warnings %q, %v, want none and %q", mode, spec.Publish, warnings, err, want)
		}
	}
}

// TestCanConnect: which networks go together.
func TestCanConnect(t *testing.T) {
	const (
		none = "Container cannot be connected to multiple networks with one of the networks in private (none) mode"
		host = "container cannot be disconnected from host network or connected to host network"
		both = "Container sharing network namespace with another container or host cannot be connected to any other network"
	)
	for _, tc := range []struct {
		mode, endpoints  string
		to               string
		connect, leaving string // the error; empty: it may
	}{
		{"", `{"bridge":{}}`, "n", "", ""},
		{"", `{"bridge":{}}`, "bridge", "", ""},
		{"", `{"bridge":{}}`, "host", host, ""},
		{"", `{"bridge":{}}`, "none", none, ""},
		{"", `{}`, "none", "", ""},
		{"none", `{"none":{}}`, "n", none, ""},
		{"none", `{}`, "n", "", ""},
		{"host", `null`, "n", both, ""},
		{"host", `{"host":{}}`, "host", both, host},
		{"container:x", `{}`, "n", both, ""},
	} {
		var in map[string]EndpointConfig
		if err := json.Unmarshal([]byte(tc.endpoints), &in); err != nil {
			t.Fatal(err)
		}
		r := &Record{Host: HostConfig{NetworkMode: tc.mode}, Endpoints: in}
		for what, got := range map[string]struct {
			err  error
			want string
		}{"connect": {r.CanConnect(tc.to), tc.connect}, "disconnect": {r.CanDisconnect(tc.to), tc.leaving}} {
			if text := ""; got.err != nil && got.err.Error() != got.want || got.err == nil && got.want != text {
				t.Errorf("%s of %q %s and %s: %v, want %q", what, tc.mode, tc.endpoints, tc.to, got.err, got.want)
			}
		}
	}
}
