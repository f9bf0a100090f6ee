package tunnel

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/swarm/swarmtest"
	"moss/slirp/slirptest"
)

func TestContainersReachEachOther(t *testing.T) {
	all := newMachines(t, 3)
	meet(t, all)
	for _, server := range all {
		port := swarmtest.Listen(t, server.container)
		for _, client := range all {
			conn, seen, err := swarmtest.Dial(client.container, server.addr.String(), port)
			check(t, err)
			if seen != client.addr.String() {
				t.Errorf("container %s is seen as %s by %s", client.addr, seen, server.addr)
			}
			echo(t, conn)
			check(t, conn.Close())
		}
	}
}

// echo sends more than any packet holds.
func echo(t testing.TB, conn net.Conn) {
	t.Helper()
	check(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	sent := bytes.Repeat([]byte("moss"), 1<<18)
	go func() {
		_, _ = conn.Write(sent)
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("echo: %v", err)
	}
}

// udpIn opens a UDP socket in a namespace.
func udpIn(t testing.TB, ns, addr string) *net.UDPConn {
	t.Helper()
	var c net.PacketConn
	slirptest.In(t, ns, func() (err error) {
		c, err = net.ListenPacket("udp4", addr)
		return err
	})
	t.Cleanup(func() { _ = c.Close() })
	check(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c.(*net.UDPConn)
}

// TestNobodySpeaksForOthers has a node send from its own addresses, and from those of others. Packets in one tunnel keep
// their order, so that what comes first tells what did not come.
func TestNobodySpeaksForOthers(t *testing.T) {
	all := newMachines(t, 3)
	meet(t, all)
	liar, victim := all[0], all[1]
	strange := netip.MustParseAddr("10.208.1.99")
	slirptest.In(t, liar.container, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		for _, a := range []netip.Addr{strange, all[2].addr} {
			parsed, err := netlink.ParseAddr(a.String() + "/32")
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(link, parsed); err != nil {
				return err
			}
		}
		return nil
	})
	// The route back to the third would hide the lie at the liar's own node.
	slirptest.In(t, liar.inside, func() error {
		link, err := netlink.LinkByName(bridgeDevice)
		if err != nil {
			return err
		}
		dst, err := netlink.ParseIPNet(all[2].addr.String() + "/32")
		if err != nil {
			return err
		}
		return netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK})
	})
	in := udpIn(t, victim.container, ":0")
	to := &net.UDPAddr{IP: victim.addr.AsSlice(), Port: in.LocalAddr().(*net.UDPAddr).Port}
	send := func(from netip.Addr, text string) {
		t.Helper()
		_, err := udpIn(t, liar.container, from.String()+":0").WriteTo([]byte(text), to)
		check(t, err)
	}
	receive := func(want string) {
		t.Helper()
		buf := make([]byte, 100)
		n, from, err := in.ReadFrom(buf)
		check(t, err)
		if got := string(buf[:n]); got != want {
			t.Errorf("%q came from %s, want %q", got, from, want)
		}
	}
	send(liar.addr, "first")
	receive("first")
	send(strange, "of nobody")
	send(all[2].addr, "of another node")
	send(liar.addr, "own")
	receive("own")

	// As soon as the address is the liar's, the same passes.
	check(t, victim.tunnel.Set([]Peer{liar.peer(strange), all[2].peer()}))
	send(strange, "own as well")
	receive("own as well")
	check(t, victim.tunnel.Set([]Peer{liar.peer(), all[2].peer(strange)}))
	send(strange, "another's")
	send(liar.addr, "own still")
	receive("own still")
	check(t, victim.tunnel.Set([]Peer{liar.peer(strange), all[2].peer()}))
	send(strange, "own again")
	receive("own again")
	check(t, victim.tunnel.Set([]Peer{liar.peer(), all[2].peer()}))
	send(strange, "nobody's")
	send(liar.addr, "last")
	receive("last")
}

func TestSetChangesPeersAndRoutes(t *testing.T) {
	all := newMachines(t, 2)
	a, b := all[0], all[1]
	extra, other := netip.MustParseAddr("10.208.1.50"), netip.MustParseAddr("10.208.9.1")
	look := func(want ...string) {
		t.Helper()
		slirptest.In(t, a.inside, func() error {
			link, err := netlink.LinkByName(tunnelDevice)
			if err != nil {
				return err
			}
			routes, err := netlink.RouteList(link, unix.AF_INET)
			if err != nil {
				return err
			}
			var got []string
			for _, r := range routes {
				got = append(got, r.Dst.IP.String())
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("routes to %v, want %v", got, want)
			}
			return nil
		})
	}
	look()
	check(t, a.tunnel.Set([]Peer{b.peer(extra, other)}))
	look("10.208.1.12", "10.208.1.50", "10.208.9.1")
	check(t, a.tunnel.Set([]Peer{b.peer(other)}))
	look("10.208.1.12", "10.208.9.1")
	check(t, a.tunnel.Set([]Peer{b.peer(other, extra)}))
	look("10.208.1.12", "10.208.1.50", "10.208.9.1")
	check(t, a.tunnel.Set([]Peer{b.peer(other)}))
	twice := []Peer{b.peer(), {Key: a.public, Addrs: []netip.Addr{b.addr}}}
	if err := a.tunnel.Set(twice); !fault.Is(err, fault.Invalid) {
		t.Errorf("one address of two peers: %v", err)
	}
	look("10.208.1.12", "10.208.9.1")
	check(t, a.tunnel.Close())
	look("10.208.1.12", "10.208.9.1") // they outlive the process
	a.open(t)
	check(t, a.tunnel.Set([]Peer{b.peer(extra)}))
	look("10.208.1.12", "10.208.1.50")
	check(t, a.tunnel.Set(nil))
	look()
	check(t, a.tunnel.Close())
	check(t, Remove(a.inside, tunnelDevice))
	check(t, Remove(a.inside, tunnelDevice))
	slirptest.In(t, a.inside, func() error {
		if _, err := netlink.LinkByName(tunnelDevice); !isNotFound(err) {
			t.Errorf("the device is there: %v", err)
		}
		return nil
	})
}

// TestConnectionsOutliveTheProcess starts one side's tunnel again under a connection.
func TestConnectionsOutliveTheProcess(t *testing.T) {
	all := newMachines(t, 2)
	meet(t, all)
	a, b := all[0], all[1]
	conn, _, err := swarmtest.Dial(a.container, b.addr.String(), swarmtest.Listen(t, b.container))
	check(t, err)
	defer func() { _ = conn.Close() }()
	echo(t, conn)
	check(t, b.tunnel.Close())
	const text = "while nobody carries it"
	_, err = conn.Write([]byte(text))
	check(t, err)
	b.openAgain(t)
	check(t, b.tunnel.Set([]Peer{a.peer()}))
	if _, err := io.ReadFull(conn, make([]byte, len(text))); err != nil {
		t.Fatalf("the connection broke: %v", err)
	}
	echo(t, conn)
}

// TestPeersThatMeetAtOnceDoNotCross has nodes learn of each other at the same time: two handshakes that cross are both
// void, and the next comes after 5 s. A machine that is busy elsewhere may let one cross, and not most of them.
func TestPeersThatMeetAtOnceDoNotCross(t *testing.T) {
	all := newMachines(t, 2)
	a, b := all[0], all[1]
	if slices.Compare(a.public[:], b.public[:]) > 0 {
		a, b = b, a
	}
	begin := time.Now()
	check(t, a.tunnel.Set([]Peer{b.peer()}))
	if sent := a.sent(t); sent != "0" && time.Since(begin) < speakUpDelay {
		t.Errorf("the node with the lower key has sent %s bytes", sent)
	}
	check(t, b.tunnel.Set([]Peer{a.peer()}))
	if sent := b.sent(t); sent == "0" {
		t.Error("the node with the higher key has not begun")
	}
	crossed := 0
	for range 5 {
		var both sync.WaitGroup
		both.Go(func() { check(t, a.tunnel.Set([]Peer{b.peer()})) })
		both.Go(func() { check(t, b.tunnel.Set([]Peer{a.peer()})) })
		both.Wait()
		in, out := udpIn(t, b.container, ":0"), udpIn(t, a.container, ":0")
		to := &net.UDPAddr{IP: b.addr.AsSlice(), Port: in.LocalAddr().(*net.UDPAddr).Port}
		<-time.After(speakUpDelay) // what is sent itself begins a handshake
		_, err := out.WriteTo([]byte("x"), to)
		check(t, err)
		begin := time.Now()
		_, _, err = in.ReadFrom(make([]byte, 1))
		check(t, err)
		if time.Since(begin) > 3*time.Second {
			crossed++
		}
		check(t, a.tunnel.Set(nil))
		check(t, b.tunnel.Set(nil))
	}
	if crossed > 2 {
		t.Errorf("%d of 5 handshakes crossed", crossed)
	}
}

// TestProcessThatStartsAgainSpeaksUp starts the tunnel of a node again that has nothing to send: the other one would go on
// with keys that nobody knows any more.
func TestProcessThatStartsAgainSpeaksUp(t *testing.T) {
	all := newMachines(t, 2)
	meet(t, all)
	a, b := all[0], all[1]
	in, out := udpIn(t, b.container, ":0"), udpIn(t, a.container, ":0")
	to := &net.UDPAddr{IP: b.addr.AsSlice(), Port: in.LocalAddr().(*net.UDPAddr).Port}
	await := func(text string) time.Duration {
		t.Helper()
		begin := time.Now()
		arrived := make(chan error, 1)
		go func() {
			buf := make([]byte, 100)
			for {
				n, _, err := in.ReadFrom(buf)
				if err != nil || string(buf[:n]) == text {
					arrived <- err
					return
				}
			}
		}()
		for {
			_, err := out.WriteTo([]byte(text), to)
			check(t, err)
			select {
			case err := <-arrived:
				check(t, err)
				return time.Since(begin)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	await("before")
	check(t, b.tunnel.Close())
	_, err := out.WriteTo([]byte("while nobody carries it"), to)
	check(t, err)
	b.openAgain(t)
	check(t, b.tunnel.Set([]Peer{a.peer()}))
	if d := await("after"); d > 3*time.Second {
		t.Errorf("packets passed after %v, want less than 3 s", d)
	}
}

// TestPeerMoves gives a peer another data address: it is called there.
func TestPeerMoves(t *testing.T) {
	all := newMachines(t, 2)
	a, b := all[0], all[1]
	wrong, nameless := b.peer(), a.peer()
	wrong.Data = netip.MustParseAddrPort("192.0.2.200:7946")
	nameless.Data = netip.AddrPort{} // b does not call
	check(t, b.tunnel.Set([]Peer{nameless}))
	check(t, a.tunnel.Set([]Peer{wrong}))
	check(t, a.tunnel.Set([]Peer{b.peer()}))
	conn, _, err := swarmtest.Dial(a.container, b.addr.String(), swarmtest.Listen(t, b.container))
	check(t, err)
	check(t, conn.Close())
}

// TestNodeBehindNATCalls has one side that nobody can call.
func TestNodeBehindNATCalls(t *testing.T) {
	all := newMachines(t, 2)
	hidden, open := all[0], all[1]
	unreachable := hidden.peer()
	unreachable.Data = netip.AddrPort{}
	check(t, open.tunnel.Set([]Peer{unreachable}))
	p := open.peer()
	p.Keepalive = true
	check(t, hidden.tunnel.Set([]Peer{p}))
	port := swarmtest.Listen(t, hidden.container)
	// Before the hidden node has called, the kernel has nobody to send to and connecting goes on.
	conn, seen, err := swarmtest.Dial(open.container, hidden.addr.String(), port)
	check(t, err)
	if seen != open.addr.String() {
		t.Errorf("seen as %s", seen)
	}
	check(t, conn.Close())
}

func TestTwoTunnelsCannotShareADevice(t *testing.T) {
	m := newMachines(t, 1)[0]
	err := slirptest.Enter(m.host, func() error {
		second, err := Open(Options{NetNS: m.inside, Device: tunnelDevice, Key: m.key})
		if err == nil {
			return errors.Join(second.Close(), errors.New("it opened"))
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		return nil
	})
	check(t, err)
	if m.tunnel.Port() != 7946 {
		t.Errorf("Port() = %d", m.tunnel.Port())
	}
}
