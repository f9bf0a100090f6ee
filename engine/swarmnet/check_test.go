package swarmnet

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/swarm/table"
)

const (
	nodeID    = "n000000000000000000000001"
	redID     = "r000000000000000000000001"
	ingressID = "i000000000000000000000001"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func addr(text string) netip.Addr     { return netip.MustParseAddr(text) }
func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// hosted is a view in which all is as it should be.
func hosted() *table.Hosted {
	return &table.Hosted{
		Node: nodeID, Tunnel: "moss-swarm0", MTU: 1420,
		Table: &table.Table{
			Version: 7,
			Nodes: map[string]table.Node{
				nodeID: {Name: "alpha", Addrs: map[string]netip.Addr{redID: addr("10.208.1.2"), ingressID: addr("10.208.0.2")}},
			},
			Networks: map[string]table.Network{
				redID:     {Name: "front", Subnet: prefix("10.208.1.0/24"), Gateway: addr("10.208.1.1"), Internal: true},
				ingressID: {Name: "ingress", Subnet: prefix("10.208.0.0/24"), Gateway: addr("10.208.0.1"), Ingress: true},
			},
			Services: map[string]table.Service{"s1": {
				Name: "web", VIPs: map[string]netip.Addr{redID: addr("10.208.1.5"), ingressID: addr("10.208.0.5")},
				Ports: []table.Port{{Proto: table.TCP, Published: 8080, Target: 80}},
			}},
			Tasks: map[string]table.Task{"t1": {
				Service: "s1", Node: nodeID, Attachments: map[string]table.Attachment{redID: {Addr: addr("10.208.1.7")}},
			}},
		},
	}
}

// alter changes one entry of a map.
func alter[V any](m map[string]V, id string, change func(*V)) {
	v := m[id]
	change(&v)
	m[id] = v
}

// TestViewsThatNoSwarmHas: a hostile manager's view is refused as a whole, in words, and the next one counts.
func TestViewsThatNoSwarmHas(t *testing.T) {
	subnet := func(text string) func(*table.Hosted) {
		return func(h *table.Hosted) {
			alter(h.Table.Networks, redID, func(n *table.Network) { n.Subnet = prefix(text) })
		}
	}
	task := func(a netip.Addr) func(*table.Hosted) {
		return func(h *table.Hosted) { h.Table.Tasks["t1"].Attachments[redID] = table.Attachment{Addr: a} }
	}
	port := func(p table.Port) func(*table.Hosted) {
		return func(h *table.Hosted) {
			alter(h.Table.Services, "s1", func(s *table.Service) { s.Ports = append(s.Ports, p) })
		}
	}
	for name, change := range map[string]func(*table.Hosted){
		"no table":                  func(h *table.Hosted) { h.Table = nil },
		"no node":                   func(h *table.Hosted) { h.Node = "" },
		"node with a path":          func(h *table.Hosted) { h.Node = "../../../../../../../../a" },
		"no tunnel":                 func(h *table.Hosted) { h.Tunnel = "" },
		"tunnel with a space":       func(h *table.Hosted) { h.Tunnel = "a b" },
		"tunnel for all devices":    func(h *table.Hosted) { h.Tunnel = "all" },
		"long tunnel":               func(h *table.Hosted) { h.Tunnel = strings.Repeat("a", 16) },
		"MTU 0":                     func(h *table.Hosted) { h.MTU = 0 },
		"MTU 65536":                 func(h *table.Hosted) { h.MTU = 65536 },
		"network with a short id":   func(h *table.Hosted) { h.Table.Networks["red"] = h.Table.Networks[redID] },
		"no subnet":                 func(h *table.Hosted) { h.Table.Networks[redID] = table.Network{Gateway: addr("10.208.1.1")} },
		"subnet of IPv6":            subnet("fd00::/64"),
		"subnet with further bits":  subnet("10.208.1.1/24"),
		"all addresses":             subnet("0.0.0.0/0"),
		"subnet of another network": subnet("10.208.0.0/16"),
		"gateway elsewhere": func(h *table.Hosted) {
			alter(h.Table.Networks, redID, func(n *table.Network) { n.Gateway = addr("10.208.0.1") })
		},
		"no gateway": func(h *table.Hosted) {
			alter(h.Table.Networks, redID, func(n *table.Network) { n.Gateway = netip.Addr{} })
		},
		"two ingress networks": func(h *table.Hosted) {
			alter(h.Table.Networks, redID, func(n *table.Network) { n.Ingress = true })
		},
		"node's address elsewhere":    func(h *table.Hosted) { h.Table.Nodes[nodeID].Addrs[ingressID] = addr("192.0.2.1") },
		"node in an unknown network":  func(h *table.Hosted) { h.Table.Nodes[nodeID].Addrs["x"] = addr("10.208.1.3") },
		"service's address elsewhere": func(h *table.Hosted) { h.Table.Services["s1"].VIPs[redID] = addr("10.208.0.9") },
		"service at the gateway":      func(h *table.Hosted) { h.Table.Services["s1"].VIPs[redID] = addr("10.208.1.1") },
		"task's address elsewhere":    task(addr("8.8.8.8")),
		"task at a multicast address": task(addr("224.0.0.1")),
		"task at the host itself":     task(addr("127.0.0.1")),
		"task at the gateway":         task(addr("10.208.1.1")),
		"task at the network":         task(addr("10.208.1.0")),
		"task at the broadcast":       task(addr("10.208.1.255")),
		"task of IPv6":                task(addr("fd00::7")),
		"task of IPv4 in IPv6":        task(addr("::ffff:10.208.1.7")),
		"task with a zone":            task(addr("fe80::1%a\nb")),
		"task without an address":     task(netip.Addr{}),
		"task in an unknown network": func(h *table.Hosted) {
			h.Table.Tasks["t1"].Attachments["x"] = table.Attachment{Addr: addr("10.208.1.8")}
		},
		"port of another protocol": port(table.Port{Proto: "sctp", Published: 81, Target: 81}),
		"protocol with a space":    port(table.Port{Proto: "tcp ", Published: 81, Target: 81}),
		"port 0":                   port(table.Port{Proto: table.TCP, Target: 81}),
		"port of no target":        port(table.Port{Proto: table.TCP, Published: 81}),
	} {
		w := newWorld(t)
		s := w.open(t)
		h := hosted()
		change(h)
		if problems, err := s.Apply(t.Context(), h); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v, want it refused in a line", name, problems, err)
		}
		if len(w.calls) > 0 {
			t.Errorf("%s: %v all the same", name, w.calls)
		}
		if _, err := s.Apply(t.Context(), hosted()); err != nil {
			t.Errorf("%s: the view after it: %v", name, err)
		}
	}
}

// TestViewsThatASwarmMayHave look strange and are none of this package's business.
func TestViewsThatASwarmMayHave(t *testing.T) {
	for name, change := range map[string]func(*table.Hosted){
		"as it should be":   func(*table.Hosted) {},
		"node without keys": func(h *table.Hosted) { h.Table.Nodes["x"] = table.Node{} },
		"odd names": func(h *table.Hosted) {
			alter(h.Table.Services, "s1", func(s *table.Service) { s.Name = strings.Repeat("a b\n", 1<<16) })
		},
		"privileged port": func(h *table.Hosted) {
			h.Table.Services["s2"] = table.Service{Ports: []table.Port{{Proto: table.UDP, Published: 1, Target: 1}}}
		},
		"task without a node": func(h *table.Hosted) { h.Table.Tasks["t2"] = table.Task{Service: "none"} },
		"left":                func(h *table.Hosted) { *h = table.Hosted{Table: &table.Table{}} },
	} {
		h := hosted()
		change(h)
		if err := checkHosted(h); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyNetworks are looked at in no time.
func TestManyNetworks(t *testing.T) {
	h := hosted()
	for i := range 50_000 {
		at := netip.AddrFrom4([4]byte{11, byte(i >> 13), byte(i >> 5), byte(i << 3)})
		id := strconv.Itoa(i)
		id = strings.Repeat("0", 25-len(id)) + id
		h.Table.Networks[id] = table.Network{Subnet: netip.PrefixFrom(at, 29), Gateway: at.Next()}
	}
	check(t, checkHosted(h))
	last := "zzzzzzzzzzzzzzzzzzzzzzzzz"
	h.Table.Networks[last] = table.Network{Subnet: prefix("11.0.0.0/8"), Gateway: addr("11.0.0.1")}
	if err := checkHosted(h); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), last) {
		t.Errorf("a network around all: %v, want it refused by its id", err)
	}
}

// TestAddressesOfSeveral cost their holders, and nobody else.
func TestAddressesOfSeveral(t *testing.T) {
	w := newWorld(t)
	h := hosted()
	h.Table.Services["s2"] = table.Service{Name: "db", VIPs: map[string]netip.Addr{redID: addr("10.208.1.5")}}
	h.Table.Tasks["t2"] = table.Task{Attachments: map[string]table.Attachment{redID: {Addr: addr("10.208.1.2")}}}
	got, err := w.open(t).Apply(t.Context(), h)
	check(t, err)
	want := "the address 10.208.1.2 is of node " + nodeID + " and task t2: not all of them are reached|" +
		"the address 10.208.1.5 is of service s1 and service s2: not all of them are reached"
	if got := strings.Join(got.Problems, "|"); got != want {
		t.Errorf("problems %q, want %q", got, want)
	}
	if len(w.applied) != 1 {
		t.Errorf("the view was applied %d times, want once", len(w.applied))
	}
}

// FuzzView: any view is refused or made true, and one that is made true can be taken up again.
func FuzzView(f *testing.F) {
	f.Add([]byte(`{"node":"` + nodeID + `","tunnel":"moss-swarm0","mtu":1420,"table":{"networks":{"` + redID +
		`":{"subnet":"10.208.1.0/24","gateway":"10.208.1.1"}},"tasks":{"t":{"attachments":{"` + redID + `":{"addr":"10.208.1.7"}}}}}}`))
	f.Add([]byte(`{"table":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newWorld(t)
		h, err := decode(body)
		if err != nil {
			return
		}
		s := w.open(t)
		if _, err := s.Apply(context.Background(), h); err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: %v", body, err)
			}
			return
		}
		again := w.open(t)
		if len(w.aside) > 0 || (again.last == nil) != (len(h.Table.Networks) == 0) {
			t.Errorf("%s: set aside %v, taken up %v", body, w.aside, again.last)
		}
	})
}
