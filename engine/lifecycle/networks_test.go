package lifecycle

import (
	"slices"
	"strings"
	"testing"

	"moss/engine/container"
	"moss/engine/fault"
)

// TestNetworkMadeAnew: a container whose network went while it was at rest starts with the next one of that name.
func TestNetworkMadeAnew(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	old := w.nets.add("n", 10)
	id := w.createIn(m, "web", "n", map[string]container.EndpointConfig{"n": {Aliases: []string{"front"}}})
	if !m.Networks().UsesNetwork(old.ID) {
		t.Error("the network is not used")
	}
	w.nets.drop(old)
	if err := m.Start(t.Context(), "web"); !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "network n not found") {
		t.Errorf("start without the network: %v, want fault.NotFound", err)
	}
	if e, ok := w.log.last("die"); !ok || e.Attributes["exitCode"] != "128" {
		t.Errorf("die = %+v, want code 128", e)
	}
	anew := w.nets.add("n", 11)
	if !m.Networks().UsesNetwork(anew.ID) || len(m.Networks().NetworkMembers(anew.ID)) > 0 {
		t.Error("the new network should be used by a container that does not run")
	}
	w.must(m.Start(t.Context(), "web"))
	r := must(m.inventory.Get("web"))
	if r.Endpoints["n"].NetworkID != anew.ID || !slices.Equal(r.Endpoints["n"].Aliases, []string{"front", id[:12]}) {
		t.Errorf("endpoint = %+v, want one of %s", r.Endpoints["n"], anew.ID)
	}
	if members := m.Networks().NetworkMembers(anew.ID); len(members) != 1 || members[0].ID != id {
		t.Errorf("members = %v", members)
	}
	w.must(m.Kill(t.Context(), "web", ""))
}

func TestCreateInNetworks(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	n := w.nets.add("n", 10)
	w.nets.add("twin", 11)
	second := w.nets.add("twin", 12)
	for _, tc := range []struct {
		mode string
		nets map[string]container.EndpointConfig
		kind fault.Constructor
	}{
		{"twin", nil, fault.Conflict},
		{"", map[string]container.EndpointConfig{"n": {}, n.ID: {}}, fault.Invalid},
		{"n", map[string]container.EndpointConfig{"n": {IPAMConfig: &container.IPAMConfig{IPv6Address: "2001:db8::1"}}}, fault.Invalid},
	} {
		_, _, err := m.Create(t.Context(), "web", container.Config{Image: "busybox"}, container.HostConfig{NetworkMode: tc.mode}, tc.nets)
		if !fault.Is(err, tc.kind) {
			t.Errorf("create in %q %v: %v, want %v", tc.mode, tc.nets, err, tc.kind("x"))
		}
	}
	w.createIn(m, "second", second.ID[:8], nil)
	w.must(m.Start(t.Context(), "second"))
	if r := must(m.inventory.Get("second")); r.Host.NetworkMode != "twin" || r.Network.Endpoints["twin"].NetworkID != second.ID {
		t.Errorf("mode %q, networks %v, want twin, the second of that name", r.Host.NetworkMode, r.Network.Endpoints)
	}
	w.must(m.Kill(t.Context(), "second", ""))
	w.createIn(m, "both", "", map[string]container.EndpointConfig{"n": {}, "later": {}})
	if record, _ := w.in(m, "both"); !slices.Equal(record, []string{"later", "n"}) {
		t.Errorf("networks = %v, want those asked for alone", record)
	}
	for name, want := range map[string][]string{n.ID: {"both"}, n.ID[:6]: {"both"}, "later": {"both"}, "n": {"both"}, "bridge": nil} {
		list, err := m.inventory.List(t.Context(), container.ListOptions{All: true, Filters: map[string][]string{"network": {name}}})
		w.must(err)
		var names []string
		for _, r := range list {
			names = append(names, r.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("list of network %s = %v, want %v", name, names, want)
		}
	}
}

// TestReconfigureNetwork: a start with another NetworkMode leaves the old networks.
func TestReconfigureNetwork(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	w.nets.add("n", 10)
	w.createIn(m, "web", "", map[string]container.EndpointConfig{"bridge": {}, "n": {}})
	w.must(m.Reconfigure(t.Context(), "web", container.HostConfig{Memory: 8 << 20}))
	if record, _ := w.in(m, "web"); !slices.Equal(record, []string{"bridge", "n"}) {
		t.Errorf("networks with the same mode = %v, want all that it had", record)
	}
	w.must(m.Reconfigure(t.Context(), "web", container.HostConfig{NetworkMode: "none"}))
	if record, _ := w.in(m, "web"); !slices.Equal(record, []string{"none"}) {
		t.Errorf("networks with another mode = %v, want none's", record)
	}
}
