package wire_test

import (
	"slices"
	"testing"
	"time"

	"moss/api/apiver"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/fault"
)

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
		for _, got := range []map[string]types.EndpointSettings{
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

// TestMACShown: a place at rest shows the address that was asked for, by the place or by the container for its main network,
// and Config that of the main network; a place in use shows its own.
func TestMACShown(t *testing.T) {
	const own, of = "02:42:0a:5b:00:01", "02:42:0a:5b:00:02"
	none, asked := container.EndpointConfig{}, container.EndpointConfig{MacAddress: of}
	type endpoints = map[string]container.EndpointConfig
	for _, tc := range []struct {
		name, mode, own    string
		in                 endpoints
		config, bridge, n1 string
	}{
		{"by the main network", "n1", "", endpoints{"n1": asked}, of, "", of},
		{"by another network", "bridge", "", endpoints{"n1": asked, "bridge": none}, "", "", of},
		{"by bridge, an open mode", "", "", endpoints{"bridge": asked}, of, of, ""},
		{"by a network, an open mode", "", "", endpoints{"n1": asked}, "", "", of},
		{"by the container", "n1", own, endpoints{"n1": none, "bridge": none}, own, "", own},
		{"by the container in bridge", "default", own, endpoints{"n1": none, "bridge": none}, own, own, ""},
		{"by the container, an open mode", "", own, endpoints{"n1": none, "n2": none}, own, "", own},
		{"by the container and another network", "bridge", own, endpoints{"n1": asked, "bridge": none}, own, own, of},
		{"by the container, an old record", "default", own, nil, own, own, ""},
		{"by the container, in no network", "n1", own, endpoints{}, own, "", ""},
		{"another's network", "container:x", "", nil, "", "", ""},
	} {
		r := &container.Record{Endpoints: tc.in, Config: container.Config{MacAddress: tc.own}, Host: container.HostConfig{NetworkMode: tc.mode}}
		shown := wire.NewContainerInspect(r)
		networks := shown.NetworkSettings.Networks
		if shown.Config.MacAddress != tc.config || networks["n1"].MacAddress != tc.n1 || networks["bridge"].MacAddress != tc.bridge {
			t.Errorf("%s: Config %q, n1 %+v, bridge %+v", tc.name, shown.Config.MacAddress, networks["n1"], networks["bridge"])
		}
		if got := shown.NetworkSettings.MacAddress; got != tc.bridge {
			t.Errorf("%s: NetworkSettings.MacAddress = %q, want %q", tc.name, got, tc.bridge)
		}
		if got := wire.NewContainerSummary(r, time.Now()).NetworkSettings.Networks["n1"].MacAddress; got != tc.n1 {
			t.Errorf("%s: the list shows %q in n1, want %q", tc.name, got, tc.n1)
		}
	}
	r := &container.Record{Endpoints: endpoints{"blue": asked}, Network: member().Network, State: container.Running}
	if got := wire.NewContainerInspect(r).NetworkSettings.Networks["blue"].MacAddress; got != "02:42:0a:01:02:01" {
		t.Errorf("running: MacAddress = %q, want that of the interface", got)
	}
}

// FuzzNetworkCreate reads bodies: what is taken asks for something, what is not is the client's fault or unsupported.
func FuzzNetworkCreate(f *testing.F) {
	f.Add([]byte(`{"Name":"n","IPAM":{"Config":[{"AuxAddress":"a:10.0.0.2"},{"AuxAddress":{"a":"1"},"AuxiliaryAddresses":{"a":"2"}}]}}`))
	f.Add([]byte(`{"EnableIPv4":false,"ConfigFrom":{"Network":"x"}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for version := apiver.Min; version <= apiver.Max; version++ {
			var c types.NetworkCreate
			err := wire.Decode(raw, &c, version)
			if err == nil {
				_, err = wire.ToNetwork(&c)
			}
			if err != nil && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unsupported) {
				t.Errorf("%q at %v = %v, want fault.Invalid or fault.Unsupported", raw, version, err)
			}
		}
	})
}
