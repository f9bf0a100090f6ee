package slirp

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"moss/engine/swarm/table"
	"moss/slirp/publish"
)

// swarmTable is a view of two networks with two services.
func swarmTable() *table.Table {
	at := netip.MustParseAddr
	vips := func(red, ingress string) map[string]netip.Addr {
		return map[string]netip.Addr{"red": at(red), "ingress": at(ingress)}
	}
	in := func(red, ingress string, aliases ...string) map[string]table.Attachment {
		return map[string]table.Attachment{"red": {Addr: at(red), Aliases: aliases}, "ingress": {Addr: at(ingress)}}
	}
	return &table.Table{
		Nodes: map[string]table.Node{"me": {Addrs: map[string]netip.Addr{"ingress": at("10.208.0.2")}}},
		Networks: map[string]table.Network{
			"red": {Name: "front", Subnet: netip.MustParsePrefix("10.208.1.0/24")}, "blue": {Name: "a name with spaces"},
			"ingress": {Name: "ingress", Ingress: true, Subnet: netip.MustParsePrefix("10.208.0.0/24")},
		},
		Services: map[string]table.Service{
			"s1": {
				Name: "web", VIPs: vips("10.208.1.200", "10.208.0.200"), Aliases: map[string][]string{"red": {"www"}},
				Ports: []table.Port{{Proto: table.TCP, Published: 8080, Target: 80}, {Proto: table.UDP, Published: 53, Target: 53}},
			},
			"s2": {Name: "Agent", DNSRR: true, VIPs: vips("10.208.1.201", "10.208.0.201")},
			"s3": {Name: "elsewhere", Ports: []table.Port{{Proto: table.TCP, Published: 8080, Target: 90}}},
		},
		Tasks: map[string]table.Task{
			"t1": {Service: "s1", Node: "me", Slot: 1, Ready: true, Attachments: in("10.208.1.11", "10.208.0.11", "www", "first")},
			"t2": {Service: "s1", Node: "n2", Slot: 2, Attachments: in("10.208.1.12", "10.208.0.12", "www")},
			"t3": {Service: "s1", Node: "n2", Slot: 3, Ready: true, Attachments: in("10.208.1.10", "10.208.0.10", "www")},
			"a1": {Service: "s2", Node: "me", Ready: true, Attachments: in("10.208.1.21", "10.208.0.21")},
			"x":  {Node: "me", Ready: true, Attachments: in("10.208.1.31", "10.208.0.31")},
		},
	}
}

// namesOf writes the names of a network down, each in a line.
func namesOf(t *table.Table, networkID string) string {
	r := recordsOf(t)[networkID]
	lines := make([]string, 0, 1+len(r.Addrs)+len(r.Names))
	lines = append(lines, "network "+r.Network)
	for _, name := range slices.Sorted(maps.Keys(r.Addrs)) {
		lines = append(lines, fmt.Sprint(name, " ", r.Addrs[name]))
	}
	for _, a := range slices.SortedFunc(maps.Keys(r.Names), netip.Addr.Compare) {
		lines = append(lines, fmt.Sprint(a, " ", r.Names[a]))
	}
	return strings.Join(lines, "\n")
}

func TestNamesOfASwarm(t *testing.T) {
	tab := swarmTable()
	if _, has := recordsOf(tab)["ingress"]; has {
		t.Error("the ingress network has names")
	}
	want := `network front
agent [10.208.1.21]
agent.me.a1 [10.208.1.21]
first [10.208.1.11]
tasks.agent [10.208.1.21]
tasks.web [10.208.1.10 10.208.1.11]
web [10.208.1.200]
web.1.t1 [10.208.1.11]
web.2.t2 [10.208.1.12]
web.3.t3 [10.208.1.10]
www [10.208.1.200]
10.208.1.10 web.3.t3
10.208.1.11 web.1.t1
10.208.1.12 web.2.t2
10.208.1.21 Agent.me.a1`
	if got := namesOf(tab, "red"); got != want {
		t.Errorf("names\n%s\nwant\n%s", got, want)
	}
	if got, want := namesOf(tab, "blue"), "network "; got != want {
		t.Errorf("a network without tasks has the names %q, want %q", got, want)
	}

	// A service without a ready task is known, and does not resolve.
	for id, task := range tab.Tasks {
		task.Ready = false
		tab.Tasks[id] = task
	}
	r := recordsOf(tab)["red"]
	for _, name := range []string{"agent", "tasks.agent", "tasks.web"} {
		if addrs, known := r.Addrs[name]; !known || len(addrs) > 0 {
			t.Errorf("%s leads to %v, known %v: want it known and nowhere", name, addrs, known)
		}
	}
}

// TestNamesOfSeveral lead to all of them, whatever the order of the maps.
func TestNamesOfSeveral(t *testing.T) {
	tab := swarmTable()
	tab.Services["s2"] = table.Service{
		Name: "blue", VIPs: map[string]netip.Addr{"red": netip.MustParseAddr("10.208.1.201")},
		Aliases: map[string][]string{"red": {"web", "WWW"}},
	}
	tab.Services["s4"] = table.Service{Name: "WEB", VIPs: map[string]netip.Addr{"red": netip.MustParseAddr("10.208.1.204")}}
	for range 20 {
		r := recordsOf(tab)["red"]
		got := fmt.Sprint(r.Addrs["web"], r.Addrs["www"], r.Addrs["blue"])
		if want := "[10.208.1.200 10.208.1.201 10.208.1.204] [10.208.1.200 10.208.1.201] [10.208.1.201]"; got != want {
			t.Fatalf("web, www and blue lead to %s, want %s", got, want)
		}
	}
}

// TestNamesThatAreNone are left out, and cost nobody else.
func TestNamesThatAreNone(t *testing.T) {
	for _, odd := range []string{"", " ", "a b", "a\nb", "a\x00b", "\u202eweb", "a\u00a0b", strings.Repeat("a", 254), strings.Repeat("a", 1<<20)} {
		tab := swarmTable()
		tab.Networks["red"] = table.Network{Name: odd, Subnet: tab.Networks["red"].Subnet}
		tab.Services["s2"] = table.Service{
			Name: odd, VIPs: map[string]netip.Addr{"red": netip.MustParseAddr("10.208.1.201")}, Aliases: map[string][]string{"red": {odd}},
		}
		web := tab.Services["s1"]
		web.Aliases = map[string][]string{"red": {odd}}
		tab.Services["s1"] = web
		r := recordsOf(tab)["red"]
		for name := range r.Addrs {
			if strings.Contains(name, odd) && odd != "" || name == "" || name == "tasks." {
				t.Errorf("%.40q is the name of %v", name, r.Addrs[name])
			}
		}
		if r.Network != "" || len(r.Addrs["web"]) != 1 || len(r.Addrs["web.1.t1"]) != 1 {
			t.Errorf("beside %.40q the network is %.40q, web %v, its task %v", odd, r.Network, r.Addrs["web"], r.Addrs["web.1.t1"])
		}
	}
}

func TestIngressAddr(t *testing.T) {
	for node, want := range map[string]string{"me": "10.208.0.2", "n2": "invalid IP"} {
		if got := ingressAddr(&table.Hosted{Node: node, Table: swarmTable()}).String(); got != want {
			t.Errorf("node %s: %s, want %s", node, got, want)
		}
	}
	if got := ingressAddr(&table.Hosted{Table: &table.Table{}}); got.IsValid() {
		t.Errorf("without networks: %s", got)
	}
}

// TestPortsOfAnEarlierEngine: each port is looked for once, although two services have it.
func TestPortsOfAnEarlierEngine(t *testing.T) {
	side := &swarmSide{}
	if all := side.listPublished(); len(all) > 0 {
		t.Errorf("without a view: %v", all)
	}
	side.setView(&table.Hosted{Node: "n2", Table: swarmTable()})
	if all := side.listPublished(); len(all) > 0 {
		t.Errorf("without an address: %v", all)
	}
	side.setView(&table.Hosted{Node: "me", Table: swarmTable()})
	published := side.listPublished()
	got := make([]string, 0, len(published))
	for _, p := range published {
		got = append(got, fmt.Sprint(p.Owner, " ", p.Addr, " ", p.KeepOnly))
	}
	if want := "swarm/udp/53 10.208.0.2 true|swarm/tcp/8080 10.208.0.2 true"; strings.Join(got, "|") != want {
		t.Errorf("ports %q, want %q", got, want)
	}
}

// TestPortsWithoutAnAddress are problems in sentences, and so is the port that two services have.
func TestPortsWithoutAnAddress(t *testing.T) {
	side := &swarmSide{
		ports: map[string]openedPort{}, log: zerolog.Nop(),
		publisher: publish.New("/nowhere", func(string, string) (string, error) { return "", errors.New("there is none") }),
	}
	problems := side.setPorts(t.Context(), &table.Hosted{Node: "n2", Table: swarmTable()})
	want := []string{
		"port 8080/tcp of service web is not published on this node: it is service elsewhere's",
		"port 53/udp of service web is not published on this node: it has no address in the swarm's ingress network yet",
		"port 8080/tcp of service elsewhere is not published on this node: it has no address in the swarm's ingress network yet",
	}
	if !slices.Equal(problems, want) {
		t.Errorf("problems %q, want %q", problems, want)
	}
	if problems := side.setPorts(t.Context(), &table.Hosted{Table: &table.Table{}}); len(problems) > 0 {
		t.Errorf("without services: %q", problems)
	}
}
