package network

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"moss/engine/fault"
)

const swarmID = "b3x1yt8c6vhm4k0s9dq2w7z5a"

// overlay returns a network as a manager describes it.
func overlay(subnet string) *Network {
	p := netip.MustParsePrefix(subnet)
	return &Network{
		ID: swarmID, Name: "mesh", IPAM: IPAM{Pools: []Pool{{Subnet: p, Gateway: p.Addr().Next()}}},
		Overlay: &Overlay{Tunnel: "moss-swarm0", MTU: 1420, Own: p.Addr().Next().Next()},
	}
}

func TestNetworkOfASwarm(t *testing.T) {
	dir := t.TempDir()
	s, _, events := open(t, dir)
	must(t, s.PutSwarm(t.Context(), overlay("10.208.1.0/24")))
	must(t, s.PutSwarm(t.Context(), overlay("10.208.1.0/24")))
	n, err := s.Find(swarmID[:6])
	must(t, err)
	if n.Driver != DriverOverlay || n.Scope() != ScopeSwarm || n.Device == "" || n.Builtin() {
		t.Errorf("the network is %+v", n)
	}
	if local, err := s.Find(Bridge); err != nil || local.Scope() != ScopeLocal {
		t.Errorf("the default network is %+v, %v", local, err)
	}
	if got := strings.Join(events.list, "|"); got != "network create "+swarmID+" mesh overlay" {
		t.Errorf("events %q, want one of its making", got)
	}

	changed := overlay("10.208.1.0/24")
	changed.Overlay.MTU = 1300
	must(t, s.PutSwarm(t.Context(), changed))
	// Another engine finds it as it was left.
	next, d, _ := open(t, dir)
	if again := next.SwarmNetworks(); len(again) != 1 || again[0].Overlay.MTU != 1300 || !again[0].Created.Equal(n.Created) {
		t.Errorf("after a new start: %+v", again)
	}
	if ids := d.ids(); len(ids) != 2 {
		t.Errorf("the driver knows %v", ids)
	}

	// Clients neither remove nor prune it.
	if err := next.Remove(t.Context(), "mesh"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("removed by a client: %v", err)
	}
	if gone, err := next.Prune(t.Context(), nil, PruneOptions{Used: func(string) bool { return false }}); err != nil || len(gone) > 0 {
		t.Errorf("pruned: %v, %v", gone, err)
	}
	d.busy[swarmID] = true
	if err := next.DropSwarm(t.Context(), swarmID); !fault.Is(err, fault.Conflict) {
		t.Errorf("dropped with a container: %v", err)
	}
	d.busy[swarmID] = false
	must(t, next.DropSwarm(t.Context(), swarmID))
	must(t, next.DropSwarm(t.Context(), swarmID))
	bridge, err := s.Find(Bridge)
	must(t, err)
	must(t, next.DropSwarm(t.Context(), bridge.ID))
	if _, err := s.Find(Bridge); err != nil {
		t.Errorf("a local network was dropped: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, swarmID+recordSuffix)); !os.IsNotExist(err) {
		t.Errorf("its record is there: %v", err)
	}
}

func TestNetworkThatNoSwarmHas(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := open(t, dir)
	for name, change := range map[string]func(*Network){
		"id of a local network":  func(n *Network) { n.ID = strings.Repeat("a", 64) },
		"id with a path":         func(n *Network) { n.ID = "../" + swarmID[:22] },
		"no settings":            func(n *Network) { n.Overlay = nil },
		"name of a local one":    func(n *Network) { n.Name = Bridge },
		"name with a path":       func(n *Network) { n.Name = "../up" },
		"no subnet":              func(n *Network) { n.IPAM.Pools = nil },
		"gateway elsewhere":      func(n *Network) { n.IPAM.Pools[0].Gateway = netip.MustParseAddr("10.9.0.1") },
		"own address elsewhere":  func(n *Network) { n.Overlay.Own = netip.MustParseAddr("10.9.0.1") },
		"tunnel with a path":     func(n *Network) { n.Overlay.Tunnel = "../all" },
		"no tunnel":              func(n *Network) { n.Overlay.Tunnel = "" },
		"MTU 0":                  func(n *Network) { n.Overlay.MTU = 0 },
		"addresses of multicast": func(n *Network) { *n = *overlay("224.1.0.0/24") },
		"IPv6":                   func(n *Network) { n.EnableIPv6 = true },
		"options of bridges":     func(n *Network) { n.Options = map[string]string{OptionName: "moss0"} },
	} {
		n := overlay("10.208.1.0/24")
		change(n)
		if err := s.PutSwarm(t.Context(), n); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	if all := s.SwarmNetworks(); len(all) != 0 {
		t.Errorf("networks of the swarm: %v", all)
	}

	// A record that nobody can have written is set aside.
	must(t, os.WriteFile(filepath.Join(dir, swarmID+recordSuffix), []byte(`{"ID":"`+swarmID+`","Name":"mesh","Driver":"overlay"}`), 0o600))
	s, _, _ = open(t, dir)
	if all := s.SwarmNetworks(); len(all) != 0 {
		t.Errorf("networks of the swarm from a damaged record: %v", all)
	}
}
