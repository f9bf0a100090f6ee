package wire_test

import (
	"testing"

	"moss/api/wire"
	"moss/engine/container"
)

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
	r.Network.Endpoints = map[string]container.Endpoint{"bridge": {IPAddress: "172.17.0.2"}}
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
