// Package swarmtest makes hosts and containers of pretended nodes for the tests of packages of a swarm's network: network
// namespaces and the wires between them. Its callers run in the namespaces of package slirptest.
package swarmtest

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"moss/engine/thread"
	"moss/slirp/slirptest"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NewNetNS makes a network namespace that is bound to a file until the test ends.
func NewNetNS(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	check(t, os.WriteFile(path, nil, 0o600))
	check(t, thread.Apart(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err == nil {
			err = unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
		}
		return err
	}))
	t.Cleanup(func() { check(t, unix.Unmount(path, unix.MNT_DETACH)) })
	return path
}

// Connect makes a veth pair between two namespaces. An empty address leaves the device to a bridge; MTU in bytes.
func Connect(t testing.TB, mtu int, nsA, a, addrA, nsB, b, addrB string) {
	t.Helper()
	slirptest.In(t, nsA, func() error {
		other, err := os.Open(nsB)
		if err != nil {
			return err
		}
		defer func() { _ = other.Close() }()
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = a, mtu
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: b, PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(other.Fd())}
		return netlink.LinkAdd(pair)
	})
	slirptest.In(t, nsB, func() error {
		link, err := netlink.LinkByName(b)
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	})
	for _, end := range []struct{ ns, name, addr string }{{nsA, a, addrA}, {nsB, b, addrB}} {
		slirptest.In(t, end.ns, func() error { return setUp(end.name, end.addr) })
	}
}

func setUp(name, addr string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if addr != "" {
		parsed, err := netlink.ParseAddr(addr)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, parsed); err != nil {
			return err
		}
	}
	if err := netlink.LinkSetUp(link); err != nil || link.Type() != "veth" {
		return err
	}
	return awaitUp(name)
}

// awaitUp waits until the kernel has seen that the other end is there: before, a bridge does not forward what comes.
func awaitUp(name string) error {
	deadline := time.After(time.Minute)
	for {
		link, err := netlink.LinkByName(name)
		if err != nil || link.Attrs().OperState == netlink.OperUp {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			return fmt.Errorf("%s is %s", name, link.Attrs().OperState)
		}
	}
}

// AddBridge makes a bridge, in the network namespace of the calling thread. An empty address is none; MTU in bytes.
func AddBridge(name, addr string, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, mtu
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return err
	}
	return setUp(name, addr)
}

// Enslave makes a device a port of a bridge, in the network namespace of the calling thread.
func Enslave(name, bridge string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return err
	}
	return netlink.LinkSetMaster(link, master)
}

// Listen accepts connections in a container, tells each who it is, and echoes.
func Listen(t testing.TB, ns string) string {
	t.Helper()
	var l net.Listener
	slirptest.In(t, ns, func() (err error) {
		l, err = net.Listen("tcp4", ":0")
		return err
	})
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
				_, _ = fmt.Fprintf(conn, "%-20s", host)
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// Dial connects from a container and returns who the other side says that this is.
func Dial(ns, addr, port string) (conn net.Conn, seen string, err error) {
	err = slirptest.Enter(ns, func() (err error) {
		conn, err = net.DialTimeout("tcp4", net.JoinHostPort(addr, port), time.Minute)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	var name [20]byte
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err = io.ReadFull(conn, name[:]); err != nil {
		_ = conn.Close()
		return nil, "", err
	}
	_, err = fmt.Sscan(string(name[:]), &seen)
	return conn, seen, err
}

// AddAddr gives a device another address, in the network namespace of the calling thread.
func AddAddr(name, addr string) error { return setUp(name, addr) }

// AddRoute makes a route to a device, in the network namespace of the calling thread.
func AddRoute(prefix, name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	dst, err := netlink.ParseIPNet(prefix)
	if err != nil {
		return err
	}
	return netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK})
}

// AnswerARP makes a device in the namespace at this path answer for all addresses that are elsewhere.
func AnswerARP(netNS, name string) error {
	return slirptest.Enter(netNS, func() error {
		for _, file := range []string{"conf/" + name + "/proxy_arp", "neigh/" + name + "/proxy_delay"} {
			value := "1"
			if filepath.Base(file) == "proxy_delay" {
				value = "0"
			}
			if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv4", file), []byte(value), 0); err != nil {
				return err
			}
		}
		return nil
	})
}
