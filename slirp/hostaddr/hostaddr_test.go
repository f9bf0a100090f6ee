package hostaddr

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/rs/zerolog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/slirp/slirptest"
)

func TestMain(m *testing.M) { slirptest.Main(m) }

// fixed is what containers call the host; the pretended uplink of slirptest has it itself.
var fixed = netip.MustParseAddr(slirptest.OutsideAddr)

// patience is for a busy machine: what is refused is so at once, and nothing here is dropped.
const patience = time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func addr(s string) *netlink.Addr {
	ip, ipnet, _ := net.ParseCIDR(s)
	return &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: ipnet.Mask}}
}

// host is the test's own network namespace with a device that leads outside.
type host struct {
	t    *testing.T
	link netlink.Link
}

func newHost(t *testing.T) host {
	t.Helper()
	h := host{t, &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lan"}}}
	must(t, netlink.LinkAdd(h.link))
	t.Cleanup(func() { must(t, netlink.LinkDel(h.link)) })
	must(t, netlink.LinkSetUp(h.link))
	return h
}

// moveTo leaves the network that the host is in for another, as a laptop does.
func (h host) moveTo(own, gateway string) {
	h.t.Helper()
	old, err := netlink.AddrList(h.link, unix.AF_INET)
	must(h.t, err)
	for _, a := range old {
		must(h.t, netlink.AddrDel(h.link, &a)) // its routes go with it
	}
	if own == "" {
		return
	}
	must(h.t, netlink.AddrAdd(h.link, addr(own)))
	must(h.t, netlink.RouteAdd(&netlink.Route{LinkIndex: h.link.Attrs().Index, Gw: net.ParseIP(gateway)}))
}

// serve answers every connection to the address with a text until the test ends, and returns the port.
func (h host) serve(at, text string) (port string) {
	h.t.Helper()
	l, err := net.Listen("tcp4", at)
	must(h.t, err)
	h.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// newContainer makes a namespace behind the detached one and returns its path.
func newContainer(t *testing.T, dir, detached string) string {
	t.Helper()
	path := filepath.Join(dir, "container")
	must(t, os.WriteFile(path, nil, 0o600))
	slirptest.In(t, detached, func() error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			return err
		}
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	})
	t.Cleanup(func() { must(t, unix.Unmount(path, unix.MNT_DETACH)) })
	inside, err := os.Open(path)
	must(t, err)
	defer func() { _ = inside.Close() }()
	slirptest.In(t, detached, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "moss0"
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(inside.Fd()))}
		if err := netlink.LinkAdd(pair); err != nil {
			return err
		}
		if err := netlink.AddrAdd(pair, addr("172.30.0.1/24")); err != nil {
			return err
		}
		return netlink.LinkSetUp(pair)
	})
	slirptest.In(t, path, func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(eth0, addr("172.30.0.2/24")); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(eth0); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: net.IPv4(172, 30, 0, 1)})
	})
	// The pretended uplink translates no addresses.
	_, subnet, _ := net.ParseCIDR("172.30.0.0/24")
	must(t, netlink.RouteAdd(&netlink.Route{Dst: subnet, Gw: net.ParseIP(slirptest.UplinkAddr)}))
	return path
}

// ask returns what the container gets from the fixed address, or the empty string.
func ask(t *testing.T, container, port string) (got string) {
	t.Helper()
	slirptest.In(t, container, func() error {
		conn, err := net.DialTimeout("tcp4", net.JoinHostPort(fixed.String(), port), patience)
		if err != nil {
			return nil // nothing is an answer too
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		all, _ := io.ReadAll(conn)
		got = string(all)
		return nil
	})
	return got
}

func hasTable(t *testing.T, detached string) (has bool) {
	t.Helper()
	slirptest.In(t, detached, func() error {
		conn, err := nftables.New()
		if err != nil {
			return err
		}
		all, err := conn.ListTablesOfFamily(nftables.TableFamilyIPv4)
		for _, one := range all {
			has = has || one.Name == table
		}
		return err
	})
	return has
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestFollowsTheHost(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t)
	detached := slirptest.Detached(t, dir)
	container := newContainer(t, dir, detached)
	h.moveTo("192.0.2.1/24", "192.0.2.254")
	office := h.serve("192.0.2.1:0", "office")
	secret := h.serve("127.0.0.1:0", "secret")
	if got := ask(t, container, office); got != "" {
		t.Fatalf("without a table %s leads to %q", fixed, got)
	}

	opts := Options{NetNS: detached, Uplink: "tap0", Addr: fixed, Log: zerolog.Nop()}
	f, err := Start(context.Background(), opts)
	must(t, err)
	if got := ask(t, container, office); got != "office" {
		t.Errorf("a server on the host's outward address: got %q, want %q", got, "office")
	}
	if got := ask(t, container, secret); got != "" {
		t.Errorf("a server on the host's loopback answers %q", got)
	}

	h.moveTo("198.18.0.7/24", "198.18.0.254")
	eventually(t, "the new address", func() bool { return f.Target() == netip.MustParseAddr("198.18.0.7") })
	home := h.serve("198.18.0.7:0", "home")
	if got := ask(t, container, home); got != "home" {
		t.Errorf("after the move: got %q, want %q", got, "home")
	}

	h.moveTo("", "")
	eventually(t, "no address", func() bool { return !f.Target().IsValid() })
	eventually(t, "no table", func() bool { return !hasTable(t, detached) })

	h.moveTo("192.0.2.1/24", "192.0.2.254")
	eventually(t, "the first address again", func() bool { return ask(t, container, office) == "office" })

	// The next engine begins with what it finds, and the table works meanwhile.
	must(t, f.Close())
	if got := ask(t, container, office); got != "office" {
		t.Errorf("between two engines: got %q, want %q", got, "office")
	}
	h.moveTo("198.18.0.7/24", "198.18.0.254")
	f, err = Start(context.Background(), opts)
	must(t, err)
	if got := ask(t, container, home); got != "home" {
		t.Errorf("the next engine: got %q, want %q", got, "home")
	}
	must(t, f.Close())
}

func TestFixedTarget(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t)
	detached := slirptest.Detached(t, dir)
	container := newContainer(t, dir, detached)
	h.moveTo("192.0.2.1/24", "192.0.2.254")
	port := h.serve("192.0.2.1:0", "there")
	f, err := Start(context.Background(), Options{
		NetNS: detached, Uplink: "tap0", Addr: fixed, To: netip.MustParseAddr("192.0.2.1"), Log: zerolog.Nop(),
	})
	must(t, err)
	h.moveTo("198.18.0.7/24", "198.18.0.254")
	must(t, netlink.AddrAdd(h.link, addr("192.0.2.1/24")))
	if got := ask(t, container, port); got != "there" {
		t.Errorf("got %q, want %q", got, "there")
	}
	must(t, f.Close())
}

func TestOutwardIsNeverLoopback(t *testing.T) {
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	route := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: &net.IPNet{IP: outside, Mask: net.CIDRMask(32, 32)}, Scope: netlink.SCOPE_LINK}
	must(t, netlink.RouteAdd(route))
	defer func() { must(t, netlink.RouteDel(route)) }()
	if got, err := outwardAddr(); err != nil || got.IsValid() {
		t.Errorf("outward() = %v, %v; want no address and no error", got, err)
	}
	blackhole := &netlink.Route{Dst: &net.IPNet{IP: outside, Mask: net.CIDRMask(32, 32)}, Type: unix.RTN_BLACKHOLE, Priority: 1}
	must(t, netlink.RouteDel(route))
	must(t, netlink.RouteAdd(blackhole))
	if got, err := outwardAddr(); err != nil || got.IsValid() {
		t.Errorf("outward() with a blackhole = %v, %v; want no address and no error", got, err)
	}
	must(t, netlink.RouteDel(blackhole))
	must(t, netlink.RouteAdd(route))
}

func TestStartRefuses(t *testing.T) {
	if _, err := Start(context.Background(), Options{Uplink: "tap0", Addr: fixed}); !fault.Is(err, fault.Internal) {
		t.Errorf("Start without a namespace = %v, want an Internal fault", err)
	}
	_, err := Start(context.Background(), Options{NetNS: filepath.Join(t.TempDir(), "none"), Uplink: "tap0", Addr: fixed})
	if !os.IsNotExist(err) && err == nil {
		t.Errorf("Start with a namespace that is not there = %v, want an error", err)
	}
}
