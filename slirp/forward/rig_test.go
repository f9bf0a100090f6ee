package forward_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/rootless-containers/rootlesskit/v3/pkg/port"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"moss/slirp/forward"
	"moss/slirp/slirptest"
)

func TestMain(m *testing.M) { slirptest.Main(m) }

// The container's network, and a client's address on the host that is not loopback.
const (
	gateway    = "172.30.0.1"
	container  = "172.30.0.2"
	gateway6   = "fd00:30::1"
	container6 = "fd00:30::2"
	client     = "203.0.113.7"
	client6    = "2001:db8:7::7"
)

// rig is a host with a detached namespace and a container behind it, and both halves of the driver.
type rig struct {
	ports     *forward.Parent
	dir       string
	detached  string // path of the namespace
	container string
	// sourceWait is how long a connection with the client's address is waited for.
	sourceWait time.Duration
}

// newRig leaves the driver's routing out if routed is false: nobody brings replies to a client's address back then.
func newRig(t testing.TB, routed bool) rig {
	t.Helper()
	r := rig{dir: t.TempDir()}
	r.detached = slirptest.Detached(t, r.dir)
	inner := t.TempDir()
	r.container = filepath.Join(inner, "netns")
	makeContainer(t, r.detached, r.container)
	for _, ip := range []string{container, container6} { // the kernel may take a second to use a new link
		slirptest.In(t, r.detached, func() error { return reach(ip) })
	}
	if routed {
		check(t, slirptest.Enter(r.detached, bringBack))
	}
	lo, err := netlink.LinkByName("lo")
	check(t, err)
	for _, text := range []string{client + "/32", client6 + "/128"} {
		addr, err := netlink.ParseAddr(text)
		check(t, err)
		addr.Flags = unix.IFA_F_NODAD
		check(t, netlink.AddrAdd(lo, addr))
		t.Cleanup(func() { check(t, netlink.AddrDel(lo, addr)) })
	}
	check(t, reach(client6))   // it is not there as soon as it has been added
	r.sourceWait = time.Minute // nothing is lost
	if !routed {
		r.sourceWait = 15 * time.Second // what one connection takes, and the next must not, on a busy machine
	}
	r.ports = run(t, r)
	return r
}

// reach waits until an address answers, which nobody listens at.
func reach(ip string) error {
	for end := time.Now().Add(patience); ; {
		_, err := net.DialTimeout("tcp", net.JoinHostPort(ip, "9"), patience)
		if errors.Is(err, unix.ECONNREFUSED) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("reach %s: %w", ip, err)
		}
	}
}

// run starts both halves; they end with the test.
func run(t testing.TB, r rig) *forward.Parent {
	t.Helper()
	parent, err := forward.NewParent(t.Output(), r.dir, false)
	check(t, err)
	child := forward.NewChild(t.Output())
	ended := make(chan error, 2)
	quitParent, quitChild := make(chan struct{}), make(chan struct{})
	ready := make(chan struct{})
	go func() { ended <- child.RunChildDriver(parent.OpaqueForChild(), quitChild, r.detached) }()
	go func() { ended <- parent.RunParentDriver(ready, quitParent, nil) }()
	<-ready
	parent.SetSourceWait(r.sourceWait)
	t.Cleanup(func() {
		close(quitParent)
		close(quitChild)
		check(t, errors.Join(<-ended, <-ended))
	})
	return parent
}

// makeContainer makes a namespace at path with an eth0 that leads to the detached one.
func makeContainer(t testing.TB, detached, path string) {
	t.Helper()
	check(t, os.WriteFile(path, nil, 0o600))
	check(t, slirptest.Enter(detached, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	}))
	t.Cleanup(func() { check(t, unix.Unmount(path, unix.MNT_DETACH)) })
	ns, err := netns.GetFromPath(path)
	check(t, err)
	defer func() { _ = ns.Close() }()
	check(t, slirptest.Enter(detached, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = "c0", 65520
		// Neighbours are asked from the device's own address, which otherwise takes a second to be one.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0); err != nil {
			return err
		}
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)}
		if err := netlink.LinkAdd(pair); err != nil {
			return err
		}
		return bringUp("c0", gateway+"/24", gateway6+"/64")
	}))
	check(t, slirptest.Enter(path, func() error {
		err := errors.Join(bringUp("eth0", container+"/24", container6+"/64"), bringUp("lo"))
		for _, gw := range []string{gateway, gateway6} {
			err = errors.Join(err, netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gw)}))
		}
		return err
	}))
}

func bringUp(name string, addrs ...string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, text := range addrs {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if addr.IP.To4() == nil {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(link)
}

// bringBack is what the package's comment asks of whoever rules the namespace.
func bringBack() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	for family, all := range map[int]string{unix.AF_INET: "0.0.0.0/0", unix.AF_INET6: "::/0"} {
		rule := netlink.NewRule()
		rule.Family, rule.Mark, rule.Table, rule.Priority = family, forward.ReplyMark, forward.Table, 100
		_, dst, err := net.ParseCIDR(all)
		if err != nil {
			return err
		}
		local := &netlink.Route{
			LinkIndex: lo.Attrs().Index, Dst: dst, Table: forward.Table, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST, Family: family,
		}
		if err := errors.Join(netlink.RuleAdd(rule), netlink.RouteAdd(local)); err != nil {
			return err
		}
	}
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseLasting() }()
	t := conn.AddTable(&nftables.Table{Name: "t", Family: nftables.TableFamilyINet})
	out := conn.AddChain(&nftables.Chain{
		Name: "out", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityMangle,
	})
	is := func(n uint32) expr.Any {
		return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(n)}
	}
	set := &expr.Immediate{Register: 1, Data: binaryutil.NativeEndian.PutUint32(forward.ReplyMark)}
	conn.AddRule(&nftables.Rule{Table: t, Chain: out, Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, is(forward.DialMark),
		set, &expr.Ct{Key: expr.CtKeyMARK, Register: 1, SourceRegister: true},
	}})
	in := conn.AddChain(&nftables.Chain{
		Name: "in", Table: t, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityMangle,
	})
	conn.AddRule(&nftables.Rule{Table: t, Chain: in, Exprs: []expr.Any{
		&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{1}},
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1}, is(forward.ReplyMark),
		set, &expr.Meta{Key: expr.MetaKeyMARK, Register: 1, SourceRegister: true},
	}})
	return conn.Flush()
}

// open publishes a free port of the host to the container's port and returns where it listens.
func (r rig) open(t testing.TB, proto, host, child string, childPort int) (netip.AddrPort, int) {
	t.Helper()
	at := freePort(t, proto, host)
	st, err := r.ports.AddPort(context.Background(), port.Spec{
		Proto: proto, ParentIP: host, ParentPort: int(at.Port()), ChildIP: child, ChildPort: childPort,
	})
	check(t, err)
	return at, st.ID
}

func freePort(t testing.TB, proto, host string) netip.AddrPort {
	t.Helper()
	var at net.Addr
	if proto[:3] == "udp" {
		c, err := net.ListenPacket(proto, net.JoinHostPort(host, "0"))
		check(t, err)
		at = c.LocalAddr()
		check(t, c.Close())
	} else {
		l, err := net.Listen(proto, net.JoinHostPort(host, "0"))
		check(t, err)
		at = l.Addr()
		check(t, l.Close())
	}
	ap, err := netip.ParseAddrPort(at.String())
	check(t, err)
	return ap
}

// listen listens on TCP in the container and serves each connection.
func (r rig) listen(t testing.TB, addr string, serve func(*net.TCPConn)) {
	t.Helper()
	var l net.Listener
	slirptest.In(t, r.container, func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	})
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c.(*net.TCPConn))
		}
	}()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
