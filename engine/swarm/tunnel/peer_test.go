package tunnel

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"moss/engine/swarm/table"
)

func addrOf(text string) netip.Addr { return netip.MustParseAddr(text) }

// taskOn puts a task into the networks of a view: each word is a network and an address.
func taskOn(node string, places ...string) table.Task {
	t := table.Task{Node: node, Attachments: map[string]table.Attachment{}}
	for _, p := range places {
		network, a, _ := strings.Cut(p, " ")
		t.Attachments[network] = table.Attachment{Addr: addrOf(a)}
	}
	return t
}

func viewOf(nodes map[string]table.Node, tasks ...table.Task) *table.Table {
	t := &table.Table{Nodes: nodes, Tasks: map[string]table.Task{}, Networks: map[string]table.Network{
		"red":  {Subnet: netip.MustParsePrefix("10.208.1.0/24"), Gateway: addrOf("10.208.1.1")},
		"blue": {Subnet: netip.MustParsePrefix("10.208.2.0/24"), Gateway: addrOf("10.208.2.1")},
	}}
	for i, task := range tasks {
		t.Tasks[fmt.Sprint("t", i)] = task
	}
	return t
}

// textOf writes peers down: the first byte of the key, where they are called, and what they may send from.
func textOf(peers []Peer) string {
	lines := make([]string, 0, len(peers))
	for _, p := range peers {
		lines = append(lines, strings.TrimSpace(fmt.Sprintln(p.Key[0], p.Data, p.Addrs, p.Keepalive)))
	}
	return strings.Join(lines, "\n")
}

func TestPeersOf(t *testing.T) {
	at := netip.MustParseAddrPort
	own := func(network, a string) map[string]netip.Addr { return map[string]netip.Addr{network: addrOf(a)} }
	nodes := func(change func(map[string]table.Node)) map[string]table.Node {
		all := map[string]table.Node{
			"me":  {Key: table.Key{1}, Data: at("192.0.2.1:4789"), Addrs: own("red", "10.208.1.2")},
			"you": {Key: table.Key{2}, Data: at("192.0.2.2:4789"), Addrs: own("red", "10.208.1.3")},
			"him": {Key: table.Key{3}, Addrs: own("red", "10.208.1.4")},
			"new": {Addrs: own("red", "10.208.1.5")},
		}
		if change != nil {
			change(all)
		}
		return all
	}
	for name, tc := range map[string]struct {
		view *table.Table
		want string
	}{
		"tasks and nodes": {
			viewOf(nodes(nil), taskOn("you", "red 10.208.1.20", "blue 10.208.2.20"), taskOn("him", "red 10.208.1.30"),
				taskOn("me", "red 10.208.1.10"), taskOn("new", "red 10.208.1.50"), taskOn("gone", "red 10.208.1.60")),
			"2 192.0.2.2:4789 [10.208.1.3 10.208.1.20 10.208.2.20] false\n3 invalid AddrPort [10.208.1.4 10.208.1.30] false",
		},
		"behind NAT": {
			viewOf(nodes(func(all map[string]table.Node) { all["me"] = table.Node{Key: table.Key{1}} })),
			"2 192.0.2.2:4789 [10.208.1.3] true\n3 invalid AddrPort [10.208.1.4] false",
		},
		"another one's key": { // a key is no secret: "liar" has only seen it
			viewOf(nodes(func(all map[string]table.Node) {
				all["liar"] = table.Node{Key: table.Key{3}, Addrs: own("red", "10.208.1.6")}
			}), taskOn("him", "red 10.208.1.30"), taskOn("liar", "red 10.208.1.40")),
			"2 192.0.2.2:4789 [10.208.1.3] false\n3 invalid AddrPort [10.208.1.4 10.208.1.6 10.208.1.30 10.208.1.40] false",
		},
		"this node's key": {
			viewOf(nodes(func(all map[string]table.Node) { all["you"] = table.Node{Key: table.Key{1}} }), taskOn("you", "red 10.208.1.20")),
			"3 invalid AddrPort [10.208.1.4] false",
		},
		"an address of two": {
			viewOf(nodes(nil), taskOn("you", "red 10.208.1.20"), taskOn("him", "red 10.208.1.20"), taskOn("you", "red 10.208.1.20"),
				taskOn("you", "red 10.208.1.21")),
			"2 192.0.2.2:4789 [10.208.1.3 10.208.1.21] false\n3 invalid AddrPort [10.208.1.4] false",
		},
		"an address of this node": {
			viewOf(nodes(nil), taskOn("me", "red 10.208.1.10"), taskOn("you", "red 10.208.1.10", "blue 10.208.1.2"), taskOn("him", "red 10.208.1.2")),
			"2 192.0.2.2:4789 [10.208.1.3] false\n3 invalid AddrPort [10.208.1.4] false",
		},
		"addresses of others": { // their routes would take them from the host, the uplink and other networks
			viewOf(nodes(nil), taskOn("you", "red 8.8.8.8", "blue 10.208.1.9", "unknown 10.208.1.8"), taskOn("you", "red 127.0.0.1"),
				taskOn("you", "red 10.208.1.0"), taskOn("you", "red 10.208.1.1"), taskOn("you", "red 10.208.1.255"), taskOn("you", "red fd00::1"),
				taskOn("you", "red ::ffff:10.208.1.7"), taskOn("you", "red fe80::1%a\nb")),
			"2 192.0.2.2:4789 [10.208.1.3] false\n3 invalid AddrPort [10.208.1.4] false",
		},
		"nobody": {&table.Table{}, ""},
	} {
		for range 10 { // whatever the order of the maps
			if got := textOf(PeersOf(tc.view, "me")); got != tc.want {
				t.Errorf("%s: got\n%s\nwant\n%s", name, got, tc.want)
				break
			}
		}
	}
}

// TestDataAddressIsOneLine: the configuration is made of lines, and a zone may hold any.
func TestDataAddressIsOneLine(t *testing.T) {
	hostile := netip.AddrPortFrom(addrOf("fe80::1%x]:1\nallowed_ip=0.0.0.0/0\nendpoint=[fe80::1%y"), 4789)
	got := configFor(nil, map[table.Key]Peer{{}: {Data: hostile}})
	if want := "public_key=" + strings.Repeat("0", 64) + "\nendpoint=[fe80::1]:4789\n"; got != want {
		t.Errorf("the configuration is %q, want %q", got, want)
	}
}
