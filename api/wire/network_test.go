package wire_test

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"moss/api/apiver"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/network"
)

// sampleNetwork is a network with something in every field that is shown.
func sampleNetwork() *network.Network {
	return &network.Network{
		ID: "9d", Name: "blue", Driver: network.DriverBridge, Created: time.Date(2026, 11, 21, 8, 30, 0, 123456789, time.FixedZone("", 3600)),
		Internal: true, EnableIPv6: true, IPAM: network.IPAM{Driver: "default", Options: map[string]string{"o": "p"}, Pools: []network.Pool{
			{
				Subnet: netip.MustParsePrefix("10.1.0.0/16"), Range: netip.MustParsePrefix("10.1.2.0/24"), Gateway: netip.MustParseAddr("10.1.0.254"),
				Aux: map[string]netip.Addr{"router": netip.MustParseAddr("10.1.0.9")},
			},
			{Subnet: netip.MustParsePrefix("fd00:1::/64"), Gateway: netip.MustParseAddr("fd00:1::1")},
		}},
		Options: map[string]string{network.OptionMTU: "1400"}, Labels: map[string]string{"a": "1"}, Device: "br-9d",
	}
}

// member is a container that runs in the sample and in another network.
func member() *container.Record {
	return &container.Record{ID: "4fa6", Name: "web", Network: container.Network{Endpoints: map[string]container.Endpoint{
		"bridge": {NetworkID: "6b", EndpointID: "7c", IPAddress: "172.17.0.2", IPPrefixLen: 16},
		"blue": {
			NetworkID: "9d", EndpointID: "8e", IPAddress: "10.1.2.1", IPPrefixLen: 16, GlobalIPv6Address: "fd00:1::2", GlobalIPv6PrefixLen: 64,
			MacAddress: "02:42:0a:01:02:01",
		},
	}}}
}

// TestPlacesShown shows the networks of a container: those it runs in with their addresses, those it will be in without.
func TestPlacesShown(t *testing.T) {
	asked := map[string]container.EndpointConfig{
		"bridge": {NetworkID: "6b"},
		"blue":   {NetworkID: "9d", Aliases: []string{"w"}, Links: []string{"db:store"}, IPAMConfig: &container.IPAMConfig{IPv4Address: "10.1.2.1"}},
	}
	live := member().Network
	for _, tc := range []struct {
		name    string
		r       container.Record
		address string
	}{
		{"never started", container.Record{Endpoints: asked}, ""},
		{"running", container.Record{Endpoints: asked, Network: live, State: container.Running}, "10.1.2.1"},
		{"at rest", container.Record{Endpoints: asked, StartedAt: time.Unix(1, 0), State: container.Exited}, ""},
	} {
		for _, got := range []map[string]wire.EndpointSettings{
			wire.NewContainerInspect(&tc.r).NetworkSettings.Networks, wire.NewContainerSummary(&tc.r, time.Now()).NetworkSettings.Networks,
		} {
			blue, bridge := got["blue"], got["bridge"]
			if len(got) != 2 || blue.NetworkID != "9d" || blue.IPAddress != tc.address || !slices.Equal(blue.Aliases, []string{"w"}) ||
				!slices.Equal(blue.Links, []string{"db:store"}) || blue.IPAMConfig.IPv4Address != "10.1.2.1" {
				t.Errorf("%s: blue = %+v", tc.name, blue)
			}
			if bridge.NetworkID != "6b" || bridge.Aliases != nil || bridge.IPAMConfig != nil {
				t.Errorf("%s: bridge = %+v", tc.name, bridge)
			}
		}
	}
	for _, tc := range []struct {
		name, mode string
		endpoints  map[string]container.EndpointConfig
		want       []string
	}{
		{"an old record", "default", nil, []string{"bridge"}},
		{"an old record of host", "host", nil, []string{"host"}},
		{"an old record without a mode", "", nil, []string{"bridge"}},
		{"another's network", "container:x", nil, nil},
		{"taken out of all", "blue", map[string]container.EndpointConfig{}, nil},
		{"taken out of its first", "blue", map[string]container.EndpointConfig{"red": {}}, []string{"red"}},
	} {
		r := &container.Record{Endpoints: tc.endpoints, Host: container.HostConfig{NetworkMode: tc.mode}}
		got := wire.NewContainerInspect(r).NetworkSettings.Networks
		for _, name := range tc.want {
			if _, ok := got[name]; !ok {
				t.Errorf("%s: networks %v, want %q", tc.name, got, tc.want)
			}
		}
		if len(got) != len(tc.want) {
			t.Errorf("%s: networks %v, want %q", tc.name, got, tc.want)
		}
	}
}

// TestNetworkBodies reads the bodies with every field of document 2, 4.5, in each described version.
func TestNetworkBodies(t *testing.T) {
	const body = `{"Name":"n","CheckDuplicate":true,"Driver":"bridge","IPAM":{"Driver":"default","Options":{"o":"p"},"Config":[{"Subnet":"10.0.0.0/8",
		"IPRange":"10.1.0.0/16","Gateway":"10.0.0.1","AuxAddress":{"a":"10.0.0.2"}}]},"Internal":true,"EnableIPv6":true,"Options":{"k":"v"},"Labels":{"l":"m"}}`
	for _, version := range described() {
		since := func(minor uint16) bool { return version >= apiver.New(1, minor) }
		var c wire.NetworkCreate
		if err := wire.Decode([]byte(body), &c, version); err != nil {
			t.Errorf("Decode at %v = %v", version, err)
			continue
		}
		want := network.CreateOptions{
			Name: "n", CheckDuplicate: true, Driver: "bridge", Internal: since(22), EnableIPv6: since(24), Options: map[string]string{"k": "v"},
			IPAM: network.IPAMRequest{Driver: "default", Pools: []network.PoolRequest{{
				Subnet: "10.0.0.0/8", Range: "10.1.0.0/16", Gateway: "10.0.0.1", Aux: map[string]string{"a": "10.0.0.2"},
			}}},
		}
		if since(22) {
			want.IPAM.Options = map[string]string{"o": "p"}
		}
		if since(24) {
			want.Labels = map[string]string{"l": "m"}
		}
		if got, err := c.Asked(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("at %v got %+v, %v\nwant %+v", version, got, err, want)
		}
	}
}

// FuzzNetworkCreate reads bodies: what is taken asks for something, what is not is the client's fault or unsupported.
func FuzzNetworkCreate(f *testing.F) {
	f.Add([]byte(`{"Name":"n","IPAM":{"Config":[{"AuxAddress":"a:10.0.0.2"},{"AuxAddress":{"a":"1"},"AuxiliaryAddresses":{"a":"2"}}]}}`))
	f.Add([]byte(`{"EnableIPv4":false,"ConfigFrom":{"Network":"x"}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c wire.NetworkCreate
		err := wire.Decode(raw, &c, apiver.Max)
		if err == nil {
			_, err = c.Asked()
		}
		if err != nil && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unsupported) {
			t.Errorf("%q = %v, want fault.Invalid or fault.Unsupported", raw, err)
		}
	})
}
