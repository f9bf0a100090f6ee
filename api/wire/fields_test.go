package wire_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/api/apiver"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/network"
)

// TestUnset: limits that are not set have the numbers that clients of the version know, those that were given stay.
func TestUnset(t *testing.T) {
	given := int64(-1)
	for _, tc := range []struct {
		minor            uint16
		pids             *int64
		swappiness, want string
	}{
		{24, nil, "-1", "0"},
		{24, &given, "-1", "-1"},
		{25, nil, "null", "null"},
	} {
		version := apiver.New(1, tc.minor)
		record := &container.Record{Host: container.HostConfig{PidsLimit: tc.pids}}
		shown := wire.NewContainerInspect(record)
		wire.FitInspect(shown, version, record)
		raw, err := wire.Encode(shown, version)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"MemorySwappiness":` + tc.swappiness + ",", `"PidsLimit":` + tc.want + ","} {
			if !strings.Contains(string(raw), want) {
				t.Errorf("inspect at %s lacks %s: %s", version, want, raw)
			}
		}
	}
}

// TestOpenSettings: of settings that the client left open inspect shows what the container has, in the versions that know it, and a
// copy of them asks for the same.
func TestOpenSettings(t *testing.T) {
	masked, readonly := new(container.HostConfig).SystemPaths()
	none, own := []string{}, []string{"/proc/x"}
	for _, tc := range []struct {
		name             string
		minor            uint16
		host             container.HostConfig
		ipc              string
		masked, readonly *[]string
	}{
		{"before there is a word", 31, container.HostConfig{}, "", nil, nil},
		{"the word", 32, container.HostConfig{}, "shareable", nil, nil},
		{"given early", 24, container.HostConfig{IpcMode: "shareable", MaskedPaths: &own}, "shareable", &own, nil},
		{"another mode", 32, container.HostConfig{IpcMode: "private"}, "private", nil, nil},
		{"before there are paths", 37, container.HostConfig{}, "shareable", nil, nil},
		{"paths", 38, container.HostConfig{}, "shareable", &masked, &readonly},
		{"paths of its own", 51, container.HostConfig{MaskedPaths: &own}, "shareable", &own, &readonly},
		{"none", 51, container.HostConfig{MaskedPaths: &none, ReadonlyPaths: &none}, "shareable", &none, &none},
		{"none by an option", 51, container.HostConfig{SecurityOpt: []string{"systempaths=unconfined"}}, "shareable", &none, &none},
		{"privileged", 51, container.HostConfig{Privileged: true}, "shareable", nil, nil},
	} {
		r := &container.Record{Host: tc.host}
		shown := wire.NewContainerInspect(r)
		wire.FitInspect(shown, apiver.New(1, tc.minor), r)
		h := shown.HostConfig
		if h.IpcMode != tc.ipc || !reflect.DeepEqual(h.MaskedPaths, tc.masked) || !reflect.DeepEqual(h.ReadonlyPaths, tc.readonly) {
			t.Errorf("%s: IpcMode %q, MaskedPaths %v, ReadonlyPaths %v", tc.name, h.IpcMode, h.MaskedPaths, h.ReadonlyPaths)
		}
		again := wire.ToHost(&h)
		gotMasked, gotReadonly := again.SystemPaths()
		wantMasked, wantReadonly := tc.host.SystemPaths()
		if again.SharesIpc() != tc.host.SharesIpc() || !slices.Equal(gotMasked, wantMasked) || !slices.Equal(gotReadonly, wantReadonly) {
			t.Errorf("%s: a copy has IpcMode %q, masked %v, read-only %v", tc.name, again.IpcMode, gotMasked, gotReadonly)
		}
	}
}

// TestOneAddress: where the client gave no address a port has one below 1.25, though it is published at two.
func TestOneAddress(t *testing.T) {
	record := func(asked ...string) *container.Record {
		r := &container.Record{Host: container.HostConfig{PortBindings: map[string][]container.PortBinding{}}}
		for _, ip := range asked {
			r.Host.PortBindings["80/tcp"] = append(r.Host.PortBindings["80/tcp"], container.PortBinding{HostIP: ip})
		}
		for _, ip := range []string{"0.0.0.0", "::"} {
			r.Network.Ports = append(r.Network.Ports, network.Port{ContainerPort: 80, Proto: "tcp", HostIP: ip, HostPort: 8080})
		}
		return r
	}
	for _, tc := range []struct {
		minor uint16
		r     *container.Record
		want  int
	}{
		{18, record(""), 1},
		{24, record(), 1}, // by PublishAllPorts
		{24, record("0.0.0.0", "::"), 2},
		{25, record(""), 2},
	} {
		version := apiver.New(1, tc.minor)
		shown, entry := wire.NewContainerInspect(tc.r), wire.NewContainerSummary(tc.r, time.Now())
		wire.FitInspect(shown, version, tc.r)
		wire.FitSummary(entry, version, tc.r)
		ports := shown.NetworkSettings.Ports["80/tcp"]
		if len(ports) != tc.want || len(entry.Ports) != tc.want || ports[0].HostIP != "0.0.0.0" || entry.Ports[0].IP != "0.0.0.0" {
			t.Errorf("at %s: inspect %v, list %v, want %d", version, ports, entry.Ports, tc.want)
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
	r := &container.Record{State: container.Running}
	r.Network.Endpoints = map[string]network.Endpoint{"bridge": {IPAddress: "172.17.0.2"}}
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
