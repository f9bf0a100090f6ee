package bridge

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"moss/slirp/slirptest"
)

func TestEndpointsConnect(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	up(t, f, first())
	one, two := attach(t, f, "one", endpoint(first(), "eth0", 2)), attach(t, f, "two", endpoint(first(), "eth0", 3))
	if one != filepath.Join(p.opts.Dir, "one") {
		t.Errorf("Path = %s, want a file named for the container in %s", one, p.opts.Dir)
	}
	if nsOf(t, one) == nsOf(t, two) || nsOf(t, one) == nsOf(t, p.opts.NetNS) {
		t.Error("containers share a network namespace")
	}
	eth, err := handle(t, one).LinkByName("eth0")
	must(t, err)
	if a := eth.Attrs(); a.MTU != 65520 || a.Flags&net.FlagUp == 0 || a.HardwareAddr.String() != "02:42:ac:11:00:02" {
		t.Errorf("eth0 has MTU %d, flags %s, address %s; want 65520, up, 02:42:ac:11:00:02", a.MTU, a.Flags, a.HardwareAddr)
	}
	if got := sysctlIn(t, one, "net/ipv6/conf/eth0/disable_ipv6"); got != "1" {
		t.Errorf("disable_ipv6 of eth0 = %s, want 1", got)
	}
	if got := talk(t, two, "172.17.0.3", one, "172.17.0.3"); got != "172.17.0.2" {
		t.Errorf("container two sees container one as %s, want 172.17.0.2", got)
	}
	if got := talk(t, one, "127.0.0.1", one, "127.0.0.1"); got != "127.0.0.1" {
		t.Errorf("a container sees itself on loopback as %s", got)
	}
	if got := talk(t, "/proc/self/ns/net", slirptest.OutsideAddr, one, slirptest.OutsideAddr); got != slirptest.UplinkAddr {
		t.Errorf("the outside sees a container as %s, want %s by masquerading", got, slirptest.UplinkAddr)
	}
	refused(t, one, "172.17.0.2", "/proc/self/ns/net", "172.17.0.2")
}

// TestTheFirstPacketArrives: what is lost in the moment after a container has been connected is sent again a second later
// only, since it is a neighbour's question. Here it is not sent again while the test lasts.
func TestTheFirstPacketArrives(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	for i := range byte(20) {
		n := first()
		n.ID, n.Device = fmt.Sprint("n", i), fmt.Sprint("br-", i) // the first container of a network, and the second
		n.IPv4 = netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 17 + i, 0, 1}), 16)
		up(t, f, n)
		askNeighbours(t, p.opts.NetNS, n.Device, "retrans", "600000")
		for j := range byte(2) {
			attach(t, f, fmt.Sprint("c", i, "-", j), endpoint(n, "eth0", 2+j))
			slirptest.In(t, p.opts.NetNS, func() error {
				_, err := net.DialTimeout("tcp4", fmt.Sprintf("172.%d.0.%d:9", 17+i, 2+j), time.Minute)
				if !errors.Is(err, unix.ECONNREFUSED) { // as nobody listens
					t.Errorf("container %d of network %d: %v, want that it is reached", j, i, err)
				}
				return nil
			})
		}
	}
}

func TestNetworksDoNotSeeEachOther(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	other := second()
	up(t, f, first(), other)
	one, two := attach(t, f, "one", endpoint(first(), "eth0", 2)), attach(t, f, "two", endpoint(other, "eth0", 2))
	three := attach(t, f, "three", endpoint(other, "eth0", 3))
	refused(t, two, "172.18.0.2", one, "172.18.0.2")
	refused(t, one, "172.17.0.2", two, "172.17.0.2")
	// A container reaches the host's address in its own network, and no other one of the host's.
	if got := talk(t, p.opts.NetNS, "172.17.0.1", one, "172.17.0.1"); got != "172.17.0.2" {
		t.Errorf("the gateway sees its container as %s, want 172.17.0.2", got)
	}
	refused(t, p.opts.NetNS, "172.18.0.1", one, "172.18.0.1")
	refused(t, p.opts.NetNS, slirptest.UplinkAddr, one, slirptest.UplinkAddr)
	refused(t, p.opts.NetNS, "172.17.0.1", "/proc/self/ns/net", "172.17.0.1")
	// IPv6 within the second one, and its gateway.
	if got := talk(t, three, "fd00:18::3", two, "fd00:18::3"); got != "fd00:18::2" {
		t.Errorf("container three sees container two as %s, want fd00:18::2", got)
	}
	if got := talk(t, p.opts.NetNS, "fd00:18::1", two, "fd00:18::1"); got != "fd00:18::2" {
		t.Errorf("the gateway sees container two as %s, want fd00:18::2", got)
	}
}

func TestInternalHasNoWayOut(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	inner := second()
	inner.Internal = true
	up(t, f, first(), inner)
	two, three := attach(t, f, "two", endpoint(inner, "eth0", 2)), attach(t, f, "three", endpoint(inner, "eth0", 3))
	if got := talk(t, three, "172.18.0.3", two, "172.18.0.3"); got != "172.18.0.2" {
		t.Errorf("container three sees container two as %s, want 172.18.0.2", got)
	}
	// Even one that helps itself to a route stays inside.
	h := handle(t, two)
	eth, err := h.LinkByName("eth0")
	must(t, err)
	must(t, h.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: net.ParseIP("172.18.0.1")}))
	refused(t, "/proc/self/ns/net", slirptest.OutsideAddr, two, slirptest.OutsideAddr)
	refused(t, two, "172.18.0.2", "/proc/self/ns/net", "172.18.0.2")
}

func TestIsolatedContainersDoNotReachEachOther(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	alone := second()
	alone.Isolated = true
	up(t, f, alone)
	two, three := attach(t, f, "two", endpoint(alone, "eth0", 2)), attach(t, f, "three", endpoint(alone, "eth0", 3))
	refused(t, three, "172.18.0.3", two, "172.18.0.3")
	refused(t, three, "fd00:18::3", two, "fd00:18::3")
	// Nor by the gateway.
	h := handle(t, two)
	eth, err := h.LinkByName("eth0")
	must(t, err)
	must(t, h.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: ipNet(netip.MustParsePrefix("172.18.0.3/32")), Gw: net.ParseIP("172.18.0.1")}))
	refused(t, three, "172.18.0.3", two, "172.18.0.3")
	if got := talk(t, "/proc/self/ns/net", slirptest.OutsideAddr, two, slirptest.OutsideAddr); got != slirptest.UplinkAddr {
		t.Errorf("the outside sees a container as %s, want %s", got, slirptest.UplinkAddr)
	}
}

func TestWithoutMasqueradeAddressesStay(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	bare := second()
	bare.NoMasq = true
	up(t, f, first(), bare)
	back := &netlink.Route{Dst: ipNet(bare.IPv4.Masked()), Gw: net.ParseIP(slirptest.UplinkAddr)}
	must(t, netlink.RouteAdd(back)) // the host finds the way back; it goes with the device
	two := attach(t, f, "two", endpoint(bare, "eth0", 2))
	if got := talk(t, "/proc/self/ns/net", slirptest.OutsideAddr, two, slirptest.OutsideAddr); got != "172.18.0.2" {
		t.Errorf("the outside sees a container as %s, want its own address", got)
	}
	refused(t, two, "172.18.0.2", "/proc/self/ns/net", "172.18.0.2")
}

func TestPublishedPortsAtTheGateway(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	inner := Net{ID: "inner", Device: "br-inner", IPv4: netip.MustParsePrefix("172.19.0.1/16"), MTU: 1500, Internal: true}
	web := PortKey{unix.IPPROTO_TCP, 8080}
	must(t, f.Ports(t.Context(), nil, map[PortKey]PortTarget{{unix.IPPROTO_TCP, 9}: {netip.MustParseAddr("172.17.0.9"), 9}})) // before any network
	up(t, f, first(), second(), inner)
	one, two := attach(t, f, "one", endpoint(first(), "eth0", 2)), attach(t, f, "two", endpoint(second(), "eth0", 2))
	three := attach(t, f, "three", endpoint(inner, "eth0", 2))
	serve := func(ns string, port string) {
		var l net.Listener
		slirptest.In(t, ns, func() (err error) {
			l, err = net.Listen("tcp4", ":"+port)
			return err
		})
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, ns)
				_ = c.Close()
			}
		}()
	}
	serve(one, "80")
	serve(two, "81")
	ask := func(ns, addr string, patience time.Duration) (text string) {
		slirptest.In(t, ns, func() error {
			c, err := net.DialTimeout("tcp4", addr, patience)
			if err != nil {
				text = "nobody"
				return nil //nolint:nilerr // an answer, too
			}
			data, _ := io.ReadAll(c)
			text = string(data)
			return c.Close()
		})
		return text
	}
	check := func(when, ns, addr, want string) {
		t.Helper()
		patience := time.Minute
		if want == "nobody" {
			patience = 300 * time.Millisecond
		}
		if got := ask(ns, addr, patience); got != want {
			t.Errorf("%s: at %s answers %s, want %s", when, addr, got, want)
		}
	}
	check("before", two, "172.18.0.1:8080", "nobody")
	must(t, f.Ports(t.Context(), nil, map[PortKey]PortTarget{web: {netip.MustParseAddr("172.17.0.2"), 80}}))
	check("from another network", two, "172.18.0.1:8080", one)
	check("from itself", one, "172.17.0.1:8080", one)
	check("another network's gateway", two, "172.17.0.1:8080", "nobody")
	check("from an internal network", three, "172.19.0.1:8080", "nobody")
	must(t, f.Ports(t.Context(), []PortKey{web}, map[PortKey]PortTarget{web: {netip.MustParseAddr("172.18.0.2"), 81}}))
	check("moved", one, "172.17.0.1:8080", two)
	up(t, f, Net{ID: "four", Device: "br-four", IPv4: netip.MustParsePrefix("172.20.0.1/16"), MTU: 1500})
	check("after a change of the networks", one, "172.17.0.1:8080", two)
	must(t, f.Ports(t.Context(), []PortKey{web, {unix.IPPROTO_UDP, 1}}, nil))
	check("dropped", one, "172.17.0.1:8080", "nobody")
}

// TestFramesWithinABridgePassTheRules has the kernel show them to the rules, as it does where br_netfilter is loaded and
// cannot be switched off.
func TestFramesWithinABridgePassTheRules(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	up(t, f, second())
	if !fileExists("/proc/sys/net/bridge") {
		t.Skip("br_netfilter is not loaded (as root: modprobe br_netfilter)")
	}
	slirptest.In(t, p.opts.NetNS, func() error {
		return applySysctls([]Sysctl{{"net/bridge/bridge-nf-call-iptables", "1"}, {"net/bridge/bridge-nf-call-ip6tables", "1"}})
	})
	two, three := attach(t, f, "two", endpoint(second(), "eth0", 2)), attach(t, f, "three", endpoint(second(), "eth0", 3))
	if got := talk(t, three, "172.18.0.3", two, "172.18.0.3"); got != "172.18.0.2" {
		t.Errorf("container three sees container two as %s, want 172.18.0.2", got)
	}
	if got := talk(t, three, "fd00:18::3", two, "fd00:18::3"); got != "fd00:18::2" {
		t.Errorf("container three sees container two as %s, want fd00:18::2", got)
	}
}

// TestTheWayOutIsNeverGone looks at the default route while it moves between two networks.
func TestTheWayOutIsNeverGone(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	up(t, f, first(), second())
	a, b := endpoint(first(), "eth0", 2), endpoint(second(), "eth1", 2)
	h := handle(t, attach(t, f, "one", a, b))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			for _, g := range [][]Gateway{gateways(b), gateways(a), gateways(a)} {
				if err := f.Route(t.Context(), "one", g); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for looks := 0; ; looks++ {
		select {
		case <-done:
			t.Logf("looked %d times", looks)
			return
		default:
		}
		if _, err := h.RouteGet(net.ParseIP("198.51.100.1")); err != nil {
			t.Fatalf("no way out: %v", err)
		}
	}
}

func TestPlugAndUnplug(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	up(t, f, first(), second())
	zero, more := endpoint(first(), "eth0", 2), endpoint(second(), "eth1", 2)
	one, peer := attach(t, f, "one", zero), attach(t, f, "peer", endpoint(second(), "eth0", 3))
	must(t, f.Plug(t.Context(), "one", more, gateways(zero)))
	if got := talk(t, peer, "172.18.0.3", one, "172.18.0.3"); got != "172.18.0.2" {
		t.Errorf("the peer sees the container as %s, want 172.18.0.2", got)
	}
	if got := talk(t, peer, "fd00:18::3", one, "fd00:18::3"); got != "fd00:18::2" {
		t.Errorf("the peer sees the container as %s, want fd00:18::2", got)
	}
	if there, err := f.Plugged(t.Context(), more.ID); err != nil || !there {
		t.Errorf("Plugged = %v, %v; want true", there, err)
	}
	for range 2 { // the second finds it gone
		must(t, f.Unplug(t.Context(), "one", zero.ID, gateways(more)))
	}
	if links := nsenter(t, "--net="+one, "ip", "-o", "link"); strings.Contains(links, "eth0") || !strings.Contains(links, "eth1") {
		t.Errorf("devices after Unplug:\n%s", links)
	}
	for family, want := range map[string]string{"-4": "default via 172.18.0.1 dev eth1", "-6": "default via fd00:18::1 dev eth1"} {
		if got := nsenter(t, "--net="+one, "ip", family, "route", "show", "default"); strings.Count(got, "default") != 1 || !strings.Contains(got, want) {
			t.Errorf("ip %s route: %s, want %s", family, got, want)
		}
	}
	if got := talk(t, "/proc/self/ns/net", slirptest.OutsideAddr, one, slirptest.OutsideAddr); got != slirptest.UplinkAddr {
		t.Errorf("by its second network the container gets out as %s, want %s", got, slirptest.UplinkAddr)
	}
	// A device that cannot be leaves the old state.
	clash := endpoint(first(), "eth1", 4)
	if err := f.Plug(t.Context(), "one", clash, gateways(clash)); err == nil {
		t.Error("Plug took a device name twice")
	}
	if there, err := f.Plugged(t.Context(), clash.ID); err != nil || there {
		t.Errorf("Plugged after a failed Plug = %v, %v; want false", there, err)
	}
	if got := nsenter(t, "--net="+one, "ip", "route", "show", "default"); !strings.Contains(got, "172.18.0.1") {
		t.Errorf("default route after a failed Plug: %s", got)
	}
}

// askNeighbours changes how a device's neighbours are asked for, which the kernel counts in milliseconds.
func askNeighbours(t testing.TB, ns, device, parameter, value string) {
	t.Helper()
	for _, table := range []string{"arp_cache", "ndisc_cache"} {
		nsenter(t, "--net="+ns, "ip", "ntable", "change", "name", table, "dev", device, parameter, value)
	}
}

// TestAnotherMACIsKnownAtOnce has an address change hands with the MAC address, which neighbours that have spoken to the
// old one would not notice for many seconds.
func TestAnotherMACIsKnownAtOnce(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	up(t, f, second())
	peer := attach(t, f, "peer", endpoint(second(), "eth0", 9))
	for _, table := range []string{"base_reachable", "delay_probe"} { // whoever must find out for itself does not while the test lasts
		askNeighbours(t, peer, "eth0", table, "600000")
		askNeighbours(t, p.opts.NetNS, second().Device, table, "600000")
	}
	for _, mac := range []string{"02:00:00:00:00:aa", "02:00:00:00:00:bb", "02:00:00:00:00:cc"} {
		e := endpoint(second(), "eth0", 2)
		e.MAC, _ = net.ParseMAC(mac)
		e.Announce = true
		path := attach(t, f, "one", e)
		talk(t, path, "172.18.0.2", peer, "172.18.0.2")
		talk(t, path, "fd00:18::2", peer, "fd00:18::2")
		talk(t, path, "172.18.0.2", p.opts.NetNS, "172.18.0.2")
		must(t, f.Detach("one"))
	}
}
