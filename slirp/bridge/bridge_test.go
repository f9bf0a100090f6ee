package bridge

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"moss/slirp/slirptest"
)

func TestMain(m *testing.M) { slirptest.Main(m) }

func TestEnsureSetsUpTheNamespace(t *testing.T) {
	p := newPlace(t)
	b := p.bridge(t)
	c, err := b.Ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c.Subnet.String() != "172.17.0.0/16" || c.Gateway.String() != "172.17.0.1" || len(c.ID) != 64 {
		t.Errorf("Ensure() = %+v, want 172.17.0.0/16 with 172.17.0.1 and an id of 64 digits", c)
	}
	h := handle(t, p.opts.NetNS)
	link, err := h.LinkByName(Device)
	if err != nil {
		t.Fatal(err)
	}
	if a := link.Attrs(); a.MTU != 65520 || a.Flags&net.FlagUp == 0 || a.HardwareAddr.String() != "02:42:ac:11:00:01" {
		t.Errorf("%s has MTU %d, flags %s, address %s; want 65520, up, 02:42:ac:11:00:01", Device, a.MTU, a.Flags, a.HardwareAddr)
	}
	for path, want := range map[string]string{
		"net/ipv4/ip_forward":                "1",
		"net/ipv6/conf/moss0/disable_ipv6":   "1",
		"net/ipv6/conf/moss0/accept_ra":      "0",
		"net/ipv6/conf/tap0/accept_ra":       "0",
		"net/ipv6/conf/default/accept_ra":    "0",
		"net/ipv4/conf/moss0/route_localnet": "0",
	} {
		if got := sysctlIn(t, p.opts.NetNS, path); got != want {
			t.Errorf("%s = %s, want %s", path, got, want)
		}
	}
	rules := nsenter(t, "--net="+p.opts.NetNS, "nft", "list", "table", "ip", "moss")
	for _, want := range []string{
		"type nat hook postrouting priority srcnat", `ip saddr 172.17.0.0/16 oifname "tap0" masquerade`,
		"ct state established,related accept", `iifname "tap0" oifname "moss0" drop`,
	} {
		if !strings.Contains(rules, want) {
			t.Errorf("rules lack %q:\n%s", want, rules)
		}
	}
	// The engine itself must not have moved.
	if got, want := nsOf(t, "/proc/self/ns/net"), nsOf(t, "/proc/thread-self/ns/net"); got != want || got == nsOf(t, p.opts.NetNS) {
		t.Errorf("the main thread is in network namespace %d, this one in %d, the detached one is %d", got, want, nsOf(t, p.opts.NetNS))
	}
}

func TestEnsureAgainChangesNothing(t *testing.T) {
	p := newPlace(t)
	first, err := p.bridge(t).Ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nft := []string{"--net=" + p.opts.NetNS, "nft", "list", "ruleset"}
	links, rules := nsenter(t, "--net="+p.opts.NetNS, "ip", "-d", "-o", "addr"), nsenter(t, nft...)
	second, err := p.bridge(t).Ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Errorf("second engine got %+v, first %+v", second, first)
	}
	if again := nsenter(t, "--net="+p.opts.NetNS, "ip", "-d", "-o", "addr"); again != links {
		t.Errorf("devices changed:\n%s\nwere:\n%s", again, links)
	}
	if again := nsenter(t, nft...); again != rules {
		t.Errorf("rules changed:\n%s\nwere:\n%s", again, rules)
	}
}

func TestEnsureFinishesWhatACrashCutShort(t *testing.T) {
	p := newPlace(t)
	h := handle(t, p.opts.NetNS)
	if _, err := makeDevice(h, 1500, netip.MustParseAddr("172.17.0.1")); err != nil { // and no address, not up
		t.Fatal(err)
	}
	if _, err := p.bridge(t).Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	link, err := h.LinkByName(Device)
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := h.AddrList(link, unix.AF_INET)
	if err != nil || len(addrs) != 1 || addrs[0].IPNet.String() != "172.17.0.1/16" {
		t.Errorf("addresses of %s = %v, %v; want 172.17.0.1/16", Device, addrs, err)
	}
	if link.Attrs().MTU != 65520 || link.Attrs().Flags&net.FlagUp == 0 {
		t.Errorf("%s: MTU %d, flags %s; want 65520 and up", Device, link.Attrs().MTU, link.Attrs().Flags)
	}
}

func TestSubnetFollowsHostRoutesAndStays(t *testing.T) {
	lan := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lan"}}
	if err := netlink.LinkAdd(lan); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netlink.LinkDel(lan); err != nil {
			t.Error(err)
		}
	})
	addr := &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix("172.17.9.1/24"))}
	if err := netlink.AddrAdd(lan, addr); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lan); err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	c, err := p.bridge(t).Ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c.Subnet.String() != "172.18.0.0/16" {
		t.Errorf("with a host route to 172.17.9.0/24 the subnet is %s, want 172.18.0.0/16", c.Subnet)
	}
	if err := netlink.AddrDel(lan, addr); err != nil {
		t.Fatal(err)
	}
	next := newPlace(t) // another boot: a new namespace, the same data
	next.opts.File = p.opts.File
	again, err := next.bridge(t).Ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again != c {
		t.Errorf("after another boot the network is %+v, want %+v as before", again, c)
	}
}
