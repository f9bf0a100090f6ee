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

func TestUpSetsUpTheNamespace(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	up(t, f, first(), second())
	h := handle(t, p.opts.NetNS)
	link, err := h.LinkByName("moss0")
	if err != nil {
		t.Fatal(err)
	}
	if a := link.Attrs(); a.MTU != 65520 || a.Flags&net.FlagUp == 0 || a.HardwareAddr.String() != "02:42:ac:11:00:01" {
		t.Errorf("moss0 has MTU %d, flags %s, address %s; want 65520, up, 02:42:ac:11:00:01", a.MTU, a.Flags, a.HardwareAddr)
	}
	for path, want := range map[string]string{
		"net/ipv4/ip_forward":                 "1",
		"net/ipv6/conf/all/forwarding":        "1",
		"net/ipv6/conf/moss0/disable_ipv6":    "1",
		"net/ipv6/conf/br-two/disable_ipv6":   "0",
		"net/ipv6/conf/moss0/accept_ra":       "0",
		"net/ipv6/conf/br-two/accept_ra":      "0",
		"net/ipv6/conf/tap0/accept_ra":        "0",
		"net/ipv6/conf/default/accept_ra":     "0",
		"net/ipv4/conf/moss0/route_localnet":  "0",
		"net/ipv4/conf/br-two/route_localnet": "0",
	} {
		if got := sysctlIn(t, p.opts.NetNS, path); got != want {
			t.Errorf("%s = %s, want %s", path, got, want)
		}
	}
	rules := nsenter(t, "--net="+p.opts.NetNS, "nft", "list", "ruleset")
	for _, want := range []string{
		"type nat hook postrouting priority srcnat", `oifname "tap0" ip saddr @masq masquerade`, `oifname "tap0" ip6 saddr @masq masquerade`,
		"ct state established,related accept", `iifname . oifname @same accept`, `iifname @bridges drop`, `iifname . oifname @across accept`,
		`iifname @open oifname "tap0" accept`, `iifname . ip daddr @own accept`, `"br-two" . fd00:18::1`, `"moss0" . 172.17.0.1`,
		`iifname . ip saddr != @from drop`, `iifname . ip6 saddr != @from drop`, `"br-two" . fd00:18::/64`, `"moss0" . 172.17.0.0/16`,
		"172.17.0.0/16, 172.18.0.0/16", "meta mark 0x00000101 ct mark set 0x00000102",
		"ct mark 0x00000102 ct direction reply meta mark set 0x00000102",
	} {
		if !strings.Contains(rules, want) {
			t.Errorf("rules lack %q:\n%s", want, rules)
		}
	}
	for _, family := range []string{"-4", "-6"} {
		if got := nsenter(t, "--net="+p.opts.NetNS, "ip", family, "rule"); !strings.Contains(got, "100:\tfrom all fwmark 0x102 lookup 103") {
			t.Errorf("ip %s rule:\n%s", family, got)
		}
		if got := nsenter(t, "--net="+p.opts.NetNS, "ip", family, "route", "show", "table", "103"); !strings.Contains(got, "local default dev lo") {
			t.Errorf("ip %s route show table 103:\n%s", family, got)
		}
	}
	// The engine itself must not have moved.
	if got, want := nsOf(t, "/proc/self/ns/net"), nsOf(t, "/proc/thread-self/ns/net"); got != want || got == nsOf(t, p.opts.NetNS) {
		t.Errorf("the main thread is in network namespace %d, this one in %d, the detached one is %d", got, want, nsOf(t, p.opts.NetNS))
	}
}

func TestUpAgainChangesNothing(t *testing.T) {
	p := newPlace(t)
	up(t, p.fabric(t), first(), second())
	look := func() string { // without what the kernel adds in its own time: addresses of IPv6 that are the link's
		return nsenter(t, "--net="+p.opts.NetNS, "ip", "-d", "-o", "addr", "show", "scope", "global") + nsenter(t, "--net="+p.opts.NetNS, "nft", "list", "ruleset") +
			nsenter(t, "--net="+p.opts.NetNS, "ip", "rule") + nsenter(t, "--net="+p.opts.NetNS, "ip", "-6", "rule")
	}
	before := look()
	next := p.fabric(t)
	standing, err := next.Keep(t.Context(), []Net{first(), second(), {ID: "three", Device: "br-three", IPv4: netip.MustParsePrefix("172.19.0.1/16"), MTU: 1500}}, nil, nil)
	if err != nil || len(standing) != 2 {
		t.Errorf("Keep = %v, %v; want the two that stand", standing, err)
	}
	up(t, next, first())
	if after := look(); after != before {
		t.Errorf("a new engine changed:\n%s\nwas:\n%s", after, before)
	}
}

func TestUpFinishesWhatACrashCutShort(t *testing.T) {
	p := newPlace(t)
	h := handle(t, p.opts.NetNS)
	must(t, h.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "moss0", MTU: 1500}})) // no address, not up
	up(t, p.fabric(t), first())
	link, err := h.LinkByName("moss0")
	must(t, err)
	addrs, err := h.AddrList(link, unix.AF_INET)
	if err != nil || len(addrs) != 1 || addrs[0].IPNet.String() != "172.17.0.1/16" {
		t.Errorf("addresses of moss0 = %v, %v; want 172.17.0.1/16", addrs, err)
	}
	if link.Attrs().MTU != 65520 || link.Attrs().Flags&net.FlagUp == 0 {
		t.Errorf("moss0: MTU %d, flags %s; want 65520 and up", link.Attrs().MTU, link.Attrs().Flags)
	}
}

func TestKeepClearsWhatIsNobodys(t *testing.T) {
	p := newPlace(t)
	old := p.fabric(t)
	up(t, old, first(), second())
	kept, lost := endpoint(first(), "eth0", 2), endpoint(first(), "eth1", 3)
	one := attach(t, old, "one", kept, lost)
	attach(t, old, "two", endpoint(second(), "eth0", 2))
	f := p.fabric(t) // a new engine
	standing, err := f.Keep(t.Context(), []Net{first()}, []string{kept.ID}, nil)
	must(t, err)
	if len(standing) != 1 || standing[0] != "one" {
		t.Errorf("Keep = %v, want the first network", standing)
	}
	devices, err := f.Devices(t.Context())
	must(t, err)
	if len(devices) != 1 || devices[0].Name != "moss0" || len(devices[0].Addrs) != 1 || devices[0].Addrs[0].String() != "172.17.0.1/16" {
		t.Errorf("Devices = %v, want moss0 with 172.17.0.1/16", devices)
	}
	inside := nsenter(t, "--net="+one, "ip", "-o", "link")
	if !strings.Contains(inside, "eth0") || strings.Contains(inside, "eth1") {
		t.Errorf("the container that lives has\n%s\nwant eth0 and no eth1", inside)
	}
	if rules := nsenter(t, "--net="+p.opts.NetNS, "nft", "list", "ruleset"); strings.Contains(rules, "br-two") {
		t.Errorf("rules of a network that is gone:\n%s", rules)
	}
}

func TestDownTakesDeviceAndRulesAway(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	up(t, f, first(), second())
	for range 2 { // the second finds nothing
		must(t, f.Down(t.Context(), second()))
	}
	if taken, err := f.Taken(t.Context(), "br-two"); err != nil || taken {
		t.Errorf("Taken(br-two) = %v, %v; want nothing there", taken, err)
	}
	if rules := nsenter(t, "--net="+p.opts.NetNS, "nft", "list", "ruleset"); strings.Contains(rules, "br-two") || strings.Contains(rules, "172.18") || !strings.Contains(rules, "moss0") {
		t.Errorf("rules after Down:\n%s", rules)
	}
}

func TestInterval(t *testing.T) {
	for _, tc := range []struct{ prefix, end string }{
		{"172.17.0.0/16", "172.18.0.0"}, {"10.255.0.0/16", "11.0.0.0"}, {"192.168.240.0/20", "192.169.0.0"}, {"fd00::/64", "fd00:0:0:1::"}, {"255.0.0.0/8", ""},
	} {
		got := intervalOf(netip.MustParsePrefix(tc.prefix))
		var end string
		if len(got) == 2 && got[1].IntervalEnd {
			a, _ := netip.AddrFromSlice(got[1].Key)
			end = a.String()
		}
		if end != tc.end {
			t.Errorf("interval(%s) ends at %q, want %q", tc.prefix, end, tc.end)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
