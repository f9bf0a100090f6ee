package slirp

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/slirp/bridge"
)

func pool(subnet string) network.Pool { return network.Pool{Subnet: netip.MustParsePrefix(subnet)} }

func TestDefaultSubnetFollowsHostRoutesAndStays(t *testing.T) {
	lan := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lan"}}
	must(t, netlink.LinkAdd(lan))
	t.Cleanup(func() { must(t, netlink.LinkDel(lan)) })
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP("172.17.9.1"), Mask: net.CIDRMask(24, 32)}}
	must(t, netlink.AddrAdd(lan, addr))
	must(t, netlink.LinkSetUp(lan))
	m := newMachine(t)
	n := m.engine(t)
	if got := n.Info().Subnet; got != "172.18.0.0/16" {
		t.Errorf("with a host route to 172.17.9.0/24 the subnet is %s, want 172.18.0.0/16", got)
	}
	if made := m.add(t, n, network.Network{Name: "web"}); made.IPAM.Pools[0].Subnet.String() != "172.19.0.0/16" {
		t.Errorf("the next network has %s, want 172.19.0.0/16", made.IPAM.Pools[0].Subnet)
	}
	// A client that asks for it gets it all the same.
	m.add(t, n, network.Network{Name: "asked", IPAM: network.IPAM{Pools: []network.Pool{pool("172.17.9.0/25")}}})
	must(t, netlink.AddrDel(lan, addr))
	next := newMachine(t) // another boot: a new namespace, the same records
	next.networks = m.networks
	if got := next.engine(t).Info().Subnet; got != "172.18.0.0/16" {
		t.Errorf("after another boot the subnet is %s, want 172.18.0.0/16 as before", got)
	}
	// And another one, with the host in a network that overlaps. What stands stays, what does not gives way.
	stands := next.engine(t)
	must(t, stands.Warm(t.Context()))
	addr.IP = net.ParseIP("172.18.9.1")
	must(t, netlink.AddrAdd(lan, addr))
	if got := next.engine(t).Info().Subnet; got != "172.18.0.0/16" {
		t.Errorf("with a device that stands the subnet is %s, want 172.18.0.0/16 as before", got)
	}
	third := newMachine(t)
	third.networks = map[string]*network.Network{network.Bridge: m.networks[network.Bridge]}
	if got := third.engine(t).Info().Subnet; got != "172.17.0.0/16" {
		t.Errorf("with a host route to 172.18.9.0/24 the subnet is %s, want 172.17.0.0/16", got)
	}
}

func TestAddNetworkFillsIn(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	made := m.add(t, n, network.Network{
		Name: "web", EnableIPv6: true, Options: map[string]string{network.OptionMTU: "1400", network.OptionName: "br-web", network.OptionPrefix: "net"},
		IPAM: network.IPAM{Pools: []network.Pool{{
			Subnet: netip.MustParsePrefix("10.9.0.0/24"), Range: netip.MustParsePrefix("10.9.0.128/25"), Gateway: netip.MustParseAddr("10.9.0.254"),
			Aux: map[string]netip.Addr{"router": netip.MustParseAddr("10.9.0.129")},
		}}},
	})
	six, ok := made.Pool(true)
	if !ok || !strings.HasPrefix(six.Subnet.String(), "fd") || six.Subnet.Bits() != 64 || six.Gateway != six.Subnet.Addr().Next() || made.Device != "br-web" {
		t.Errorf("AddNetwork = %+v", made)
	}
	s := join(t, n, m.request("c", "web"))
	e := s.Endpoints["web"]
	if e.IPAddress != "10.9.0.128" || e.Gateway != "10.9.0.254" || e.IPPrefixLen != 24 || e.Device != "net0" || !alive(t, s) ||
		e.GlobalIPv6Address != six.Gateway.Next().String() || e.GlobalIPv6PrefixLen != 64 || e.IPv6Gateway != six.Gateway.String() {
		t.Errorf("Join = %+v", e)
	}
	if got := join(t, n, m.request("d", "web")).Endpoints["web"].IPAddress; got != "10.9.0.130" {
		t.Errorf("the next address is %s, want 10.9.0.130: .129 is the router's", got)
	}
	fixed := m.request("f", "web")
	fixed.Attach[0].IPv4, fixed.Attach[0].IPv6 = netip.MustParseAddr("10.9.0.7"), six.Subnet.Addr().Next().Next().Next().Next().Next()
	fixed.Attach[0].LinkLocal = []netip.Addr{netip.MustParseAddr("169.254.3.4"), netip.MustParseAddr("fe80::77")}
	s = join(t, n, fixed)
	if e := s.Endpoints["web"]; e.IPAddress != "10.9.0.7" || e.GlobalIPv6Address != fixed.Attach[0].IPv6.String() || !alive(t, s) {
		t.Errorf("Join with addresses = %+v", e)
	}
	for _, bad := range []struct {
		addr string
		want fault.Constructor
	}{
		{"10.9.0.7", fault.Conflict},
		{"10.9.0.254", fault.Conflict},
		{"10.9.0.129", fault.Conflict},
		{"10.9.0.255", fault.Conflict},
		{"10.9.0.0", fault.Conflict},
		{"10.9.1.1", fault.Invalid},
	} {
		req := m.request("bad", "web")
		req.Attach[0].IPv4 = netip.MustParseAddr(bad.addr)
		if _, err := n.Join(t.Context(), req); !fault.Is(err, bad.want) {
			t.Errorf("Join with %s = %v, want kind %v", bad.addr, err, fault.KindOf(bad.want("")))
		}
	}
}

func TestAddNetworkRefuses(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	m.add(t, n, network.Network{Name: "first", IPAM: network.IPAM{Pools: []network.Pool{pool("10.8.0.0/16")}}, Options: map[string]string{network.OptionName: "mine"}})
	for _, tc := range []struct {
		name string
		nw   network.Network
		want fault.Constructor
		text string
	}{
		{"overlap", network.Network{IPAM: network.IPAM{Pools: []network.Pool{pool("10.8.4.0/24")}}}, fault.Conflict, "Pool overlaps with other one on this address space: 10.8.4.0/24 with 10.8.0.0/16 of network first"},
		{"overlap with the default", network.Network{IPAM: network.IPAM{Pools: []network.Pool{pool("172.16.0.0/12")}}}, fault.Conflict, "of network bridge"},
		{"overlap with the uplink", network.Network{IPAM: network.IPAM{Pools: []network.Pool{pool("10.0.0.0/16")}}}, fault.Conflict, "10.0.2.0/24"},
		{"device of a network", network.Network{Options: map[string]string{network.OptionName: "mine"}}, fault.Conflict, "mine"},
		{"device of the default network", network.Network{Options: map[string]string{network.OptionName: "moss0"}}, fault.Conflict, "moss0"},
		{"device of the uplink", network.Network{Options: map[string]string{network.OptionName: "tap0"}}, fault.Conflict, "tap0"},
		{"no room", network.Network{IPAM: network.IPAM{Pools: []network.Pool{pool("10.7.0.0/31")}}}, fault.Invalid, "10.7.0.0/31"},
		{"option", network.Network{Options: map[string]string{network.OptionICC: "perhaps"}}, fault.Invalid, network.OptionICC},
	} {
		tc.nw.ID, tc.nw.Name, tc.nw.Driver = bridge.NewID(), tc.name, network.DriverBridge
		_, err := n.AddNetwork(t.Context(), &tc.nw)
		if !fault.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: AddNetwork = %v, want kind %v with %q", tc.name, err, fault.KindOf(tc.want("")), tc.text)
		}
	}
	devices, err := n.fabric.Devices(t.Context())
	must(t, err)
	if len(devices) != 1 {
		t.Errorf("bridges after failures: %v, want the first network's", devices)
	}
}

func TestRemoveNetwork(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	made := m.add(t, n, network.Network{Name: "web"})
	join(t, n, m.request("c", "web"))
	err := n.RemoveNetwork(t.Context(), made.ID)
	if want := "error while removing network: network web id " + made.ID + " has active endpoints"; !fault.Is(err, fault.Conflict) || err.Error() != want {
		t.Errorf("RemoveNetwork in use = %v, want a Conflict fault %q", err, want)
	}
	must(t, n.Leave(t.Context(), "c"))
	for range 2 { // the second knows it no more
		must(t, n.RemoveNetwork(t.Context(), made.ID))
	}
	if taken, err := n.fabric.Taken(t.Context(), made.Device); err != nil || taken {
		t.Errorf("the device is there after the network went: %v, %v", taken, err)
	}
	if _, err := n.Join(t.Context(), m.request("c", "web")); !fault.Is(err, fault.NotFound) {
		t.Errorf("Join of a network that is gone = %v, want a NotFound fault", err)
	}
	again := m.add(t, n, network.Network{Name: "again"})
	if again.IPAM.Pools[0].Subnet != made.IPAM.Pools[0].Subnet {
		t.Errorf("the next network has %s, want %s, which is free again", again.IPAM.Pools[0].Subnet, made.IPAM.Pools[0].Subnet)
	}
}
