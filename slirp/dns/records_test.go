package dns

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// TestRecords has names of a network beside those of its containers, which they come before.
func TestRecords(t *testing.T) {
	host, _ := hostWith(t, "nameserver 127.0.0.53\n")
	outside := serve(t, "", "127.0.0.53", says("192.0.2.1"))
	s := newServer(t, Options{Host: host})
	furnish(s)
	s.SetRecords("n1", Records{
		Network: "front",
		Addrs: map[string][]netip.Addr{
			"web": addrs("10.208.1.9"), "tasks.Web": addrs("10.208.1.4", "10.208.1.5"), "idle": nil, "web.2.far": addrs("10.208.1.5"),
		},
		Names: map[netip.Addr]string{netip.MustParseAddr("10.208.1.5"): "web.2.far"},
	})
	s.SetRecords("n5", Records{Network: "alone", Addrs: map[string][]netip.Addr{"hidden": addrs("10.208.5.5")}})
	c := newContainer(t, s, "c1", View{Networks: []string{"n1", "n2"}, Outside: true})
	for _, tc := range []struct {
		name string
		kind uint16
		want string
	}{
		{"web", dns.TypeA, "10.208.1.9"},
		{"WEB.Front", dns.TypeA, "10.208.1.9"},
		{"web", dns.TypeAAAA, ""},
		{"tasks.web", dns.TypeA, "10.208.1.4 10.208.1.5"},
		{"tasks.web.front", dns.TypeA, "10.208.1.4 10.208.1.5"},
		{"web.2.far", dns.TypeA, "10.208.1.5"},
		{"idle", dns.TypeA, "NXDOMAIN"},
		{"db", dns.TypeA, "172.18.0.3"},
		{"5.1.208.10.in-addr.arpa", dns.TypePTR, "web.2.far.front."},
		{"2.0.18.172.in-addr.arpa", dns.TypePTR, "web.front."},
	} {
		if got := c.ask(tc.name, tc.kind); got != tc.want {
			t.Errorf("%s of %s is %q, want %q", dns.TypeToString[tc.kind], tc.name, got, tc.want)
		}
	}
	if asked := outside.asked(); len(asked) != 0 {
		t.Errorf("names of the network were asked for outside: %q", asked)
	}
	if got := c.ask("hidden", dns.TypeA); got != "192.0.2.1" {
		t.Errorf("a name of another network is %q", got)
	}

	first := map[string]int{} // a client takes the first: it must not always be the same
	for range 64 {
		reply := c.exchange("udp", question("tasks.web", dns.TypeA))
		first[reply.Answer[0].(*dns.A).A.String()]++ //nolint:forcetypeassert // as asked
	}
	if len(first) != 2 {
		t.Errorf("the first address was always %v", first)
	}

	s.SetRecords("n1", Records{})
	if got := c.ask("web", dns.TypeA); got != "172.18.0.2" {
		t.Errorf("without records web is %q, want the container's address", got)
	}
	s.SetRecords("n5", Records{})
	s.names.mu.RLock()
	defer s.names.mu.RUnlock()
	if _, left := s.names.networks["n5"]; left {
		t.Error("a network without names is kept")
	}
}
