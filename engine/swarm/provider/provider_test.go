package provider

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/manager/allocator/networkallocator"

	"moss/engine/fault"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newAllocator(t testing.TB, p *Provider, pool ...string) *Allocator {
	t.Helper()
	a, err := p.NewAllocator(&networkallocator.Config{DefaultAddrPool: pool})
	check(t, err)
	return a.(*Allocator)
}

func TestParsePool(t *testing.T) {
	for _, tc := range []struct {
		name     string
		prefixes []string
		bits     uint32
		want     string // a part of the error
	}{
		{"the default", nil, 0, ""},
		{"two parts", []string{"10.1.0.0/16", "10.3.0.0/16"}, 26, ""},
		{"one part twice", []string{"10.1.0.0/16", "10.1.0.0/16"}, 0, ""},
		{"no prefix", []string{"10.1.0.0"}, 0, "invalid subnet"},
		{"bits behind the prefix", []string{"10.1.2.3/16"}, 0, "did you mean 10.1.0.0/16?"},
		{"IPv6", []string{"fd00::/48"}, 0, "IPv4 addresses only"},
		{"overlapping parts", []string{"10.0.0.0/8", "10.1.0.0/16"}, 0, "10.1.0.0/16 overlaps 10.0.0.0/8"},
		{"smaller than a subnet", []string{"10.1.0.0/25"}, 0, "smaller than its subnets"},
		{"the uplink", []string{"10.0.2.0/24"}, 0, "the uplink of the nodes"},
		{"loopback", []string{"127.0.0.0/8"}, 0, "cannot have addresses of it"},
		{"multicast", []string{"224.0.0.0/8"}, 0, "cannot have addresses of it"},
		{"subnets of one address", nil, 32, "invalid subnet size 32"},
		{"subnets of the whole world", nil, 1, "invalid subnet size 1"},
	} {
		_, err := ParsePool(tc.prefixes, tc.bits)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestChooseAvoids looks that subnets meet neither the uplink nor the routes of nodes.
func TestChooseAvoids(t *testing.T) {
	p := New(Options{Taken: func() []Taken {
		return []Taken{
			{netip.MustParsePrefix("10.0.0.0/24"), `node "a"`},
			{netip.MustParsePrefix("10.0.4.0/22"), `node "b"`},
			{netip.MustParsePrefix("10.0.3.7/32"), `node "c"`},
		}
	}})
	a := newAllocator(t, p, "10.0.0.0/20")
	for _, want := range []string{"10.0.1.0/24", "10.0.8.0/24", "10.0.9.0/24"} {
		n := &api.Network{ID: want}
		check(t, a.Allocate(n))
		if c := n.IPAM.Configs[0]; c.Subnet != want || n.DriverState.Name != "overlay" || n.IPAM.Driver.Name != "default" {
			t.Errorf("network has %v, %v; want %s", n.IPAM, n.DriverState, want)
		}
	}
}

func networkWith(id string, c api.IPAMConfig) *api.Network {
	spec := api.NetworkSpec{Annotations: api.Annotations{Name: "net-" + id}, IPAM: &api.IPAMOptions{Configs: []*api.IPAMConfig{&c}}}
	return &api.Network{ID: id, Spec: spec}
}

func TestCheckNetwork(t *testing.T) {
	p := New(Options{Taken: func() []Taken { return []Taken{{netip.MustParsePrefix("10.9.0.0/16"), `node "web1"`}} }})
	old := networkWith("old", api.IPAMConfig{Subnet: "10.7.0.0/24"})
	check(t, newAllocator(t, p).Allocate(old))
	for _, tc := range []struct {
		c    api.IPAMConfig
		kind fault.Constructor
		want string
	}{
		{api.IPAMConfig{Subnet: "10.6.0.0/24", Range: "10.6.0.128/25", Gateway: "10.6.0.9"}, nil, ""},
		{api.IPAMConfig{Subnet: "10.9.3.0/24"}, fault.Conflict, `10.9.3.0/24 with 10.9.0.0/16 of node "web1"`},
		{api.IPAMConfig{Subnet: "10.0.0.0/16"}, fault.Conflict, "uplink"},
		{api.IPAMConfig{Subnet: "10.7.0.0/16"}, fault.Conflict, "network net-old"},
		{api.IPAMConfig{Subnet: "10.6.0.0/30"}, fault.Invalid, "between 12 and 29 bits"},
		{api.IPAMConfig{Subnet: "10.0.0.0/8"}, fault.Invalid, "between 12 and 29 bits"},
		{api.IPAMConfig{Subnet: "fd00::/64"}, fault.Invalid, "IPv4"},
		{api.IPAMConfig{Range: "10.6.0.0/25"}, fault.Invalid, "needs a subnet"},
		{api.IPAMConfig{Subnet: "10.6.0.0/24", Range: "10.5.0.0/25"}, fault.Invalid, "range"},
		{api.IPAMConfig{Subnet: "10.6.0.0/24", Range: "10.6.0.0/16"}, fault.Invalid, "range"},
		{api.IPAMConfig{Subnet: "10.6.0.0/24", Gateway: "10.6.0.0"}, fault.Invalid, "gateway"},
		{api.IPAMConfig{Subnet: "10.6.0.0/24", Gateway: "10.6.0.255"}, fault.Invalid, "gateway"},
	} {
		n := networkWith("new", tc.c)
		err := p.CheckNetwork(&n.Spec, []*api.Network{old})
		if tc.kind == nil && err != nil || tc.kind != nil && (!fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("CheckNetwork(%v) = %v, want %q", tc.c, err, tc.want)
		}
		// The allocator holds to the same.
		a := newAllocator(t, p)
		check(t, a.Allocate(old))
		if got := a.Allocate(n); (got == nil) != (err == nil) {
			t.Errorf("Allocate(%v) = %v, CheckNetwork says %v", tc.c, got, err)
		}
	}
	fresh := networkWith("fresh", api.IPAMConfig{Subnet: "10.6.0.0/24"}) // has asked for its subnet, and does not have it yet
	same := networkWith("new", api.IPAMConfig{Subnet: "10.6.0.128/25"})
	if err := p.CheckNetwork(&same.Spec, []*api.Network{fresh}); !fault.Is(err, fault.Conflict) {
		t.Errorf("what another one has asked for: %v, want a conflict", err)
	}
	two := &api.NetworkSpec{IPAM: &api.IPAMOptions{Configs: []*api.IPAMConfig{{Subnet: "10.6.0.0/24"}, {Subnet: "10.5.0.0/24"}}}}
	if err := p.CheckNetwork(two, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("two subnets: %v", err)
	}
}

// TestRecordStays looks that a network keeps its subnet although a node has a route to it meanwhile.
func TestRecordStays(t *testing.T) {
	n := &api.Network{ID: "n"}
	check(t, newAllocator(t, New(Options{})).Allocate(n))
	subnet := n.IPAM.Configs[0].Subnet
	p := New(Options{Taken: func() []Taken { return []Taken{{netip.MustParsePrefix(subnet), `node "late"`}} }})
	a := newAllocator(t, p, "10.77.0.0/16")
	check(t, a.Allocate(n))
	if got := n.IPAM.Configs[0].Subnet; got != subnet || !a.IsAllocated(n) {
		t.Errorf("subnet %s became %s", subnet, got)
	}
}

func TestRangeAndGateway(t *testing.T) {
	a := newAllocator(t, New(Options{}))
	n := networkWith("n", api.IPAMConfig{Subnet: "10.6.0.0/24", Range: "10.6.0.8/29", Gateway: "10.6.0.10"})
	check(t, a.Allocate(n))
	var got []string
	for i := 0; ; i++ {
		task := &api.Task{ID: string(rune('a' + i)), Networks: []*api.NetworkAttachment{{Network: n}}}
		if err := a.AllocateTask(task); err != nil {
			if !fault.Is(err, fault.Unavailable) {
				t.Error(err)
			}
			break
		}
		got = append(got, task.Networks[0].Addresses[0])
	}
	want := "10.6.0.9/24 10.6.0.11/24 10.6.0.12/24 10.6.0.13/24 10.6.0.14/24 10.6.0.15/24 10.6.0.8/24"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("addresses %s, want %s", s, want)
	}
	asked := &api.Task{ID: "asked", Networks: []*api.NetworkAttachment{{Network: n, Addresses: []string{"10.6.0.77"}}}}
	check(t, a.AllocateTask(asked))
	if got := asked.Networks[0].Addresses[0]; got != "10.6.0.77/24" {
		t.Errorf("asked-for address is %s", got)
	}
	for text, kind := range map[string]fault.Constructor{
		"10.6.0.77": fault.Conflict, "10.6.0.10": fault.Conflict, "10.6.0.255": fault.Conflict,
		"10.6.1.1": fault.Invalid, "x": fault.Invalid,
	} {
		other := &api.Task{ID: "other", Networks: []*api.NetworkAttachment{{Network: n, Addresses: []string{text}}}}
		if err := a.AllocateTask(other); !fault.Is(err, kind) {
			t.Errorf("address %s for another task: %v", text, err)
		}
	}
}

// TestFreedAddressRests looks that an address is not given again at once.
func TestFreedAddressRests(t *testing.T) {
	a := newAllocator(t, New(Options{}))
	n := &api.Network{ID: "n"}
	check(t, a.Allocate(n))
	seen := map[string]bool{}
	for i := range 200 {
		task := &api.Task{ID: string(rune('a' + i)), Networks: []*api.NetworkAttachment{{Network: n}}}
		check(t, a.AllocateTask(task))
		addr := task.Networks[0].Addresses[0]
		if seen[addr] {
			t.Fatalf("%s came again after %d", addr, i)
		}
		seen[addr] = true
		check(t, a.DeallocateTask(task))
	}
}

// TestLateReleaseTakesNobodysAddress looks that an event that comes twice does not free what has a new holder.
func TestLateReleaseTakesNobodysAddress(t *testing.T) {
	a := newAllocator(t, New(Options{}))
	n := networkWith("n", api.IPAMConfig{Subnet: "10.6.0.0/24"})
	check(t, a.Allocate(n))
	old := &api.Task{ID: "old", Networks: []*api.NetworkAttachment{{Network: n, Addresses: []string{"10.6.0.5"}}}}
	check(t, a.AllocateTask(old))
	check(t, a.DeallocateTask(old.Copy()))
	heir := &api.Task{ID: "heir", Networks: []*api.NetworkAttachment{{Network: n, Addresses: []string{"10.6.0.5"}}}}
	check(t, a.AllocateTask(heir))
	check(t, a.DeallocateTask(old))
	if !a.IsTaskAllocated(heir) {
		t.Error("the address went with its former holder")
	}
	if a.IsTaskAllocated(&api.Task{ID: "none"}) {
		t.Error("a task without networks is allocated: SwarmKit would not wait for its service")
	}
}

// TestTaskGetsAllOrNothing looks that a task that cannot have one of its addresses holds none.
func TestTaskGetsAllOrNothing(t *testing.T) {
	a := newAllocator(t, New(Options{}))
	n := networkWith("n", api.IPAMConfig{Subnet: "10.6.0.0/24"})
	check(t, a.Allocate(n))
	task := &api.Task{ID: "t", Networks: []*api.NetworkAttachment{
		{Network: n, Addresses: []string{"10.6.0.5"}}, {Network: &api.Network{ID: "nowhere"}},
	}}
	if err := a.AllocateTask(task); !fault.Is(err, fault.Unavailable) || a.IsTaskAllocated(task) {
		t.Fatalf("a network without a subnet: %v", err)
	}
	other := &api.Task{ID: "u", Networks: []*api.NetworkAttachment{{Network: n, Addresses: []string{"10.6.0.5"}}}}
	check(t, a.AllocateTask(other))
}

func TestServiceModes(t *testing.T) {
	a := newAllocator(t, New(Options{}))
	n, ingress := &api.Network{ID: "n"}, &api.Network{ID: "i", Spec: api.NetworkSpec{Ingress: true}}
	check(t, a.Allocate(n))
	check(t, a.Allocate(ingress))
	if err := a.Allocate(&api.Network{ID: "j", Spec: api.NetworkSpec{Ingress: true}}); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second ingress network: %v", err)
	}
	s := &api.Service{ID: "s", Spec: specOf("n")}
	look := func(what string, want ...string) {
		t.Helper()
		check(t, a.AllocateService(s))
		got := make([]string, 0, len(s.Endpoint.VirtualIPs))
		for _, v := range s.Endpoint.VirtualIPs {
			got = append(got, v.NetworkID)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") || !a.IsServiceAllocated(s) {
			t.Errorf("%s: addresses in %v, want %v", what, got, want)
		}
	}
	look("vip", "n")
	addr := s.Endpoint.VirtualIPs[0].Addr
	s.Spec.Endpoint = &api.EndpointSpec{Ports: []*api.PortConfig{{TargetPort: 80}}}
	if a.IsServiceAllocated(s) {
		t.Error("a service with published ports needs no address in the ingress network")
	}
	look("published ports", "n", "i")
	if got := s.Endpoint.VirtualIPs[0].Addr; got != addr {
		t.Errorf("the address %s became %s", addr, got)
	}
	s.Spec.Endpoint = &api.EndpointSpec{Mode: api.ResolutionModeDNSRoundRobin}
	if a.IsServiceAllocated(s) {
		t.Error("a service whose names lead to the tasks keeps its address")
	}
	look("dnsrr")
	taker := &api.Task{ID: "t", Networks: []*api.NetworkAttachment{{Network: n, Addresses: []string{addr}}}}
	check(t, a.AllocateTask(taker)) // it is free again
}

func TestDrivers(t *testing.T) {
	p := New(Options{})
	for _, d := range []*api.Driver{nil, {}, {Name: "overlay"}} {
		check(t, p.ValidateNetworkDriver(d))
		check(t, p.ValidateIngressNetworkDriver(d))
	}
	check(t, p.ValidateIPAMDriver(&api.Driver{Name: "default"}))
	if p.ValidateNetworkDriver(&api.Driver{Name: "macvlan"}) == nil || p.ValidateIPAMDriver(&api.Driver{Name: "dhcp"}) == nil ||
		p.ValidateIngressNetworkDriver(&api.Driver{Name: "bridge"}) == nil {
		t.Error("a driver that is not there is taken")
	}
}
