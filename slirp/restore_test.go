package slirp

import (
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/network"
)

// TestRestoreAfterACrash has an engine killed with containers of every kind, and another one go on.
func TestRestoreAfterACrash(t *testing.T) {
	m := newMachine(t)
	old := m.start(t)
	m.add(t, old, network.Network{Name: "web", EnableIPv6: true})
	m.add(t, old, network.Network{Name: "forgotten"}) // made, but the engine was killed before its record
	live := map[string]network.Joined{}
	keep := func(req network.Request) network.Sandbox {
		s := join(t, old, req)
		live[req.ContainerID] = network.Joined{Request: req, Sandbox: s}
		return s
	}
	dead := m.join(t, old, "dead", web(0))
	published := m.request("lives")
	published.Ports = []network.PortRequest{web(0)}
	lives, quiet := keep(published), keep(m.request("quiet"))
	both := keep(m.request("both", "web", network.Bridge))
	hosts := keep(network.Request{ContainerID: "hosts", Mode: network.Host})
	inode := nsID(t, lives.Path)
	// Killed in the middle of verbs: a container that is bound and in no record, and a place in a network that is in none.
	m.join(t, old, "half")
	_, err := old.Connect(t.Context(), "quiet", m.request("quiet", "web").Attach[0])
	must(t, err)
	delete(m.networks, "forgotten")
	old.crash(t)

	n := m.engine(t)
	must(t, n.Restore(t.Context(), live))
	if got := m.files(t); !slices.Equal(got, []string{"both", "lives", "quiet"}) {
		t.Errorf("namespaces after Restore: %v, want those of both, lives and quiet", got)
	}
	if got := m.openPorts(t); !slices.Equal(got, []int{int(lives.Ports[0].HostPort)}) {
		t.Errorf("open ports after Restore: %v, want %d; %d is a dead container's", got, lives.Ports[0].HostPort, dead.Ports[0].HostPort)
	}
	if nsID(t, lives.Path) != inode || !alive(t, lives) || !alive(t, quiet) || !alive(t, both) {
		t.Error("a living container's network changed")
	}
	devices, err := n.fabric.Devices(t.Context())
	must(t, err)
	if len(devices) != 2 {
		t.Errorf("bridges after Restore: %v, want those of bridge and web", devices)
	}
	if _, err := n.Join(t.Context(), m.request("lives")); !fault.Is(err, fault.Conflict) {
		t.Errorf("Join of a restored container = %v, want a Conflict fault", err)
	}
	used := []string{dead.Endpoints[network.Bridge].IPAddress, "172.17.0.3", "172.17.0.4", "172.17.0.5", "172.17.0.6"}
	if ip := m.join(t, n, "new").Endpoints[network.Bridge].IPAddress; slices.Contains(used, ip) {
		t.Errorf("the first new container has %s, which was in use a moment ago", ip)
	}
	if held(n) != 6 { // both has three
		t.Errorf("%d addresses held, want those of lives, quiet, both and new", held(n))
	}
	if err := n.RemoveNetwork(t.Context(), m.networks["web"].ID); !fault.Is(err, fault.Conflict) {
		t.Errorf("RemoveNetwork with a restored container in it = %v, want a Conflict fault", err)
	}
	talkTo(t, both, quiet)
	if hosts.Path != "" {
		t.Errorf("host has a namespace %s", hosts.Path)
	}
	for _, id := range []string{"lives", "quiet", "both", "hosts", "new"} {
		must(t, n.Leave(t.Context(), id))
	}
	if files, ports, held := m.files(t), m.openPorts(t), held(n); len(files)+len(ports)+held != 0 {
		t.Errorf("left: namespaces %v, ports %v, %d addresses", files, ports, held)
	}
}

// TestRestoreLaysLostCablesAgain: a place that the record has and the kernel has not, as after a Disconnect that was cut.
func TestRestoreLaysLostCablesAgain(t *testing.T) {
	m := newMachine(t)
	old := m.start(t)
	m.add(t, old, network.Network{Name: "web"})
	req := m.request("c1", "web", network.Bridge)
	s := join(t, old, req)
	peer := join(t, old, m.request("peer", "web"))
	must(t, old.fabric.Unplug(t.Context(), "c1", s.Endpoints["web"].EndpointID, nil))
	old.crash(t)
	n := m.engine(t)
	must(t, n.Restore(t.Context(), map[string]network.Joined{
		"c1": {Request: req, Sandbox: s}, "peer": {Request: m.request("peer", "web"), Sandbox: peer},
	}))
	if !alive(t, s) {
		t.Error("the container is not what its record says")
	}
	talkTo(t, peer, s)
	if got := defaultRoute(t, s); !strings.Contains(got, s.Endpoints["web"].Gateway) {
		t.Errorf("default route %q, want by %s", got, s.Endpoints["web"].Gateway)
	}
}

// TestRestoreMakesTheDefaultBridgeAgain: it has gone, and so has the name server at its address, which comes back once.
func TestRestoreMakesTheDefaultBridgeAgain(t *testing.T) {
	m := newMachine(t)
	old := m.start(t)
	req := m.request("c1")
	s := join(t, old, req)
	must(t, old.fabric.Unplug(t.Context(), "c1", s.Endpoints[network.Bridge].EndpointID, nil))
	must(t, old.fabric.Down(t.Context(), old.lans.findDefault().link))
	old.crash(t)
	n := m.engine(t)
	must(t, n.Restore(t.Context(), map[string]network.Joined{"c1": {Request: req, Sandbox: s}}))
	if !alive(t, s) || !n.names.shared.Load() {
		t.Errorf("alive %t, name server %t, want both", alive(t, s), n.names.shared.Load())
	}
}

// TestRestoreWithoutContainers is the start after a clean end: nothing is made.
func TestRestoreWithoutContainers(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	must(t, n.Restore(t.Context(), nil))
	devices, err := n.fabric.Devices(t.Context())
	must(t, err)
	if len(devices) != 0 {
		t.Errorf("bridges after Restore: %v, want none", devices)
	}
}
