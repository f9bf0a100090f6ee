package balance

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"moss/engine/swarm/table"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestClientOf(t *testing.T) {
	in := func(network, a string) map[string]table.Attachment {
		return map[string]table.Attachment{network: {Addr: addr(a)}}
	}
	tab := &table.Table{
		Networks: map[string]table.Network{"red": {}, "blue": {}, "ingress": {Ingress: true}},
		Services: map[string]table.Service{
			"web":  {VIPs: map[string]netip.Addr{"red": addr("10.0.1.2"), "blue": addr("10.0.2.2"), "ingress": addr("10.0.9.2")}},
			"rr":   {DNSRR: true, VIPs: map[string]netip.Addr{"red": addr("10.0.1.3")}},
			"idle": {VIPs: map[string]netip.Addr{"red": addr("10.0.1.1")}},
		},
		Tasks: map[string]table.Task{
			"w1": {Service: "web", Ready: true, Attachments: in("red", "10.0.1.9")},
			"w2": {Service: "web", Ready: true, Attachments: in("red", "10.0.1.8")},
			"w3": {Service: "web", Attachments: in("red", "10.0.1.7")},
			"w4": {Service: "web", Ready: true, Attachments: in("blue", "10.0.2.9")},
			"r1": {Service: "rr", Ready: true, Attachments: in("red", "10.0.1.6")},
			"i1": {Service: "idle", Attachments: in("red", "10.0.1.5")},
		},
	}
	for _, tc := range []struct {
		networks []string
		want     string
	}{
		{nil, "[]"},
		{[]string{"red"}, "[{10.0.1.1 []} {10.0.1.2 [10.0.1.8 10.0.1.9]}]"},
		{[]string{"blue", "ingress"}, "[{10.0.2.2 [10.0.2.9]}]"},
	} {
		if got := fmt.Sprint(ClientOf(tab, tc.networks).VIPs); got != tc.want {
			t.Errorf("ClientOf(%v) = %s, want %s", tc.networks, got, tc.want)
		}
	}
}

// TestOnlyReadyTasksAreIn draws tables and looks at the rules of each.
func TestOnlyReadyTasksAreIn(t *testing.T) {
	draw := rand.New(rand.NewPCG(4, 4))
	total := 0
	for range 300 {
		tab := &table.Table{
			Networks: map[string]table.Network{"n": {Subnet: netip.MustParsePrefix("10.0.1.0/24")}, "i": {Ingress: true}},
			Nodes:    map[string]table.Node{"me": {Addrs: map[string]netip.Addr{"i": addr("10.0.9.3")}}},
			Services: map[string]table.Service{}, Tasks: map[string]table.Task{},
		}
		ready := map[netip.Addr]string{}
		for i := range draw.IntN(6) {
			id := strconv.Itoa(i)
			tab.Services[id] = table.Service{
				VIPs: map[string]netip.Addr{
					"n": netip.AddrFrom4([4]byte{10, 0, 2, byte(i)}), "i": netip.AddrFrom4([4]byte{10, 0, 9, byte(100 + i)}),
				},
				Ports: []table.Port{{Proto: table.TCP, Published: uint16(30000 + i), Target: 80}},
			}
		}
		for i := range draw.IntN(30) {
			a, b := netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), netip.AddrFrom4([4]byte{10, 0, 9, byte(i)})
			task := table.Task{
				Service: strconv.Itoa(draw.IntN(6)), Ready: draw.IntN(2) == 0,
				Attachments: map[string]table.Attachment{"n": {Addr: a}, "i": {Addr: b}},
			}
			tab.Tasks[strconv.Itoa(i)] = task
			if _, ok := tab.Services[task.Service]; ok && task.Ready {
				ready[a], ready[b] = task.Service, task.Service
			}
		}
		got := map[netip.Addr]string{}
		c, g := ClientOf(tab, []string{"n", "i"}), GateOf(tab, "me", "tun", map[string]string{"n": "br0"})
		if len(c.VIPs) != len(tab.Services) || len(g.Ports) != len(tab.Services) ||
			g.Ingress != addr("10.0.9.3") || len(g.Members) != 1 {
			t.Fatalf("rules %+v %+v of %+v", c, g, tab)
		}
		for i, v := range c.VIPs {
			for _, b := range v.Backends {
				got[b] = strconv.Itoa(i)
			}
			if !slices.IsSortedFunc(v.Backends, netip.Addr.Compare) {
				t.Errorf("backends %v are not in order", v.Backends)
			}
		}
		for i, p := range g.Ports {
			for _, b := range p.Backends {
				got[b] = strconv.Itoa(i)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(ready) {
			t.Fatalf("backends %v, want %v", got, ready)
		}
		total += len(got)
	}
	if total == 0 {
		t.Error("no task was ready")
	}
}

// doubled is a view with two services at one address and at one port, as no honest manager has it.
func doubled() *table.Table {
	in := func(a, b string) map[string]table.Attachment {
		return map[string]table.Attachment{"red": {Addr: addr(a)}, "ingress": {Addr: addr(b)}}
	}
	vips := func(a string) map[string]netip.Addr { return map[string]netip.Addr{"red": addr(a)} }
	tcp := func(published, target uint16) table.Port {
		return table.Port{Proto: table.TCP, Published: published, Target: target}
	}
	return &table.Table{
		Networks: map[string]table.Network{
			"red": {Subnet: netip.MustParsePrefix("10.208.1.0/24")}, "ingress": {Subnet: netip.MustParsePrefix("10.208.9.0/24"), Ingress: true},
		},
		Nodes: map[string]table.Node{"me": {Addrs: map[string]netip.Addr{"ingress": addr("10.208.9.3")}}},
		Services: map[string]table.Service{
			"s1": {Name: "web", VIPs: vips("10.208.1.200"), Ports: []table.Port{tcp(80, 8000), tcp(80, 8001), tcp(80, 8000)}},
			"s2": {Name: "api", VIPs: vips("10.208.1.200"), Ports: []table.Port{
				tcp(80, 9000), {Proto: table.UDP, Published: 80, Target: 1}, tcp(81, 9000),
			}},
		},
		Tasks: map[string]table.Task{
			"t1": {Service: "s1", Node: "me", Ready: true, Attachments: in("10.208.1.10", "10.208.9.10")},
			"t2": {Service: "s2", Node: "me", Ready: true, Attachments: in("10.208.1.11", "10.208.9.11")},
			"t3": {Service: "s2", Node: "me", Ready: true, Attachments: in("10.208.1.11", "10.208.9.11")},
		},
	}
}

// TestDoublesAreTheFirsts: the rules are the same whatever the order of the maps.
func TestDoublesAreTheFirsts(t *testing.T) {
	for range 20 {
		c, g := ClientOf(doubled(), []string{"red"}), GateOf(doubled(), "me", "tun", nil)
		if got, want := fmt.Sprint(c.VIPs), "[{10.208.1.200 [10.208.1.10]}]"; got != want {
			t.Fatalf("addresses %s, want %s", got, want)
		}
		want := "[{tcp 80 9000 [10.208.9.11 10.208.9.11]} {udp 80 1 [10.208.9.11 10.208.9.11]} {tcp 81 9000 [10.208.9.11 10.208.9.11]}]"
		if got := fmt.Sprint(g.Ports); got != want {
			t.Fatalf("ports %s, want %s", got, want)
		}
		if got, want := fmt.Sprint(g.Shared), "[10.208.9.10 10.208.9.11]"; got != want {
			t.Fatalf("shared %s, want %s", got, want)
		}
		_, taken := PortsOf(doubled())
		if got, want := fmt.Sprint(taken), "[{{tcp 80 8000} s1 web} {{tcp 80 8001} s1 web}]"; got != want {
			t.Fatalf("taken %s, want %s", got, want)
		}
	}
}
