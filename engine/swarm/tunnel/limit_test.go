package tunnel

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/tun"

	"moss/engine/swarm/swarmtest"
	"moss/engine/swarm/table"
	"moss/slirp/slirptest"
)

// sendSegments sends so many times what one call can: 64 datagrams of 1,300 bytes are one packet up to the tunnel.
func sendSegments(t testing.TB, c *net.UDPConn, to *net.UDPAddr, times int) {
	t.Helper()
	check(t, c.SetDeadline(time.Now().Add(time.Minute)))
	raw, err := c.SyscallConn()
	check(t, err)
	check(t, errors.Join(raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1300)
	}), err))
	data := make([]byte, 45*1300)
	for range times {
		if _, err := c.WriteTo(data, to); err != nil && !errors.Is(err, unix.ENOBUFS) {
			t.Fatal(err)
		}
	}
}

// heapMiB returns what is in use now, without what nobody holds any more: the collector lets that grow to as much again.
func heapMiB() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse >> 20)
}

// TestFloodsAreBounded has a container send more than the tunnel can carry, to a peer and to one that does not answer.
func TestFloodsAreBounded(t *testing.T) {
	all := newMachines(t, 2)
	a, b := all[0], all[1]
	meet(t, all)
	private, err := NewPrivateKey()
	check(t, err)
	dead := Peer{Data: netip.MustParseAddrPort("192.0.2.200:7946"), Addrs: []netip.Addr{netip.MustParseAddr("10.208.1.100")}}
	dead.Key, err = private.Public()
	check(t, err)
	check(t, a.tunnel.Set([]Peer{b.peer(), dead}))
	out := udpIn(t, a.container, ":0")
	conn, _, err := swarmtest.Dial(a.container, b.addr.String(), swarmtest.Listen(t, b.container))
	check(t, err)
	defer func() { _ = conn.Close() }()
	runtime.GC()
	before, waiting := heapMiB(), 0 // waiting are those for the dead peer: they do so for ten seconds at the most
	for name, addr := range map[string]netip.Addr{"a live peer": b.addr, "a dead peer": dead.Addrs[0]} {
		most, held := 0, [stages]int{}
		for range 50 {
			sendSegments(t, out, &net.UDPAddr{IP: addr.AsSlice(), Port: 9}, 50)
			most, waiting = max(most, heapMiB()), max(waiting, a.tunnel.ledger.waitingFor(dead.Key))
			for _, m := range all {
				for s, n := range m.tunnel.ledger.heldPackets() {
					held[s] = max(held[s], n)
				}
			}
		}
		t.Logf("flood of %s: at most %v packets, %d MiB more", name, held, most-before)
		for s, n := range held {
			if n > [stages]int{mostOutbound, mostInbound, mostHandshakes}[s] {
				t.Errorf("flood of %s: %d packets at stage %d", name, n, s)
			}
		}
		if most-before > 64 { // of both nodes, with what is not collected
			t.Errorf("flood of %s: %d MiB more", name, most-before)
		}
		echo(t, conn) // others get through
	}
	if waiting != mostOutbound/2 {
		t.Errorf("%d packets wait for the dead peer, want %d", waiting, mostOutbound/2)
	}
}

func (l *ledger) waitingFor(peer table.Key) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flows[flow{stage: outbound, peer: peer}]
}

// TestDroppedPacketsDoNotArrive flushes what waits for a peer before it comes.
func TestDroppedPacketsDoNotArrive(t *testing.T) {
	all := newMachines(t, 2)
	a, b := all[0], all[1]
	check(t, a.tunnel.Set([]Peer{b.peer()}))
	in, out := udpIn(t, b.container, ":0"), udpIn(t, a.container, ":0")
	to := &net.UDPAddr{IP: b.addr.AsSlice(), Port: in.LocalAddr().(*net.UDPAddr).Port}
	for i, text := range []string{"old", "any"} { // once the second is read, the first waits where it can be dropped
		_, err := out.WriteTo([]byte(text), to)
		check(t, err)
		awaitCondition(t, func() bool { return a.tunnel.ledger.heldPackets()[outbound] == i+1 })
	}
	a.tunnel.dropWaiting(b.public)
	a.tunnel.dropWaiting(table.Key{9}) // nobody
	_, err := out.WriteTo([]byte("new"), to)
	check(t, err)
	check(t, b.tunnel.Set([]Peer{a.peer()}))
	for got := ""; got != "new"; {
		buf := make([]byte, 10)
		n, _, err := in.ReadFrom(buf)
		check(t, err)
		if got = string(buf[:n]); got == "old" {
			t.Error("the dropped packet arrived")
		}
	}
}

// TestHostChangesItsAddress takes the address away that the peer calls: the node sends from its other one.
func TestHostChangesItsAddress(t *testing.T) {
	all := newMachines(t, 2)
	a, b := all[0], all[1]
	meet(t, all)
	conn, _, err := swarmtest.Dial(a.container, b.addr.String(), swarmtest.Listen(t, b.container))
	check(t, err)
	defer func() { _ = conn.Close() }()
	echo(t, conn)
	slirptest.In(t, a.host, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		for addr, change := range map[string]func(netlink.Link, *netlink.Addr) error{
			"192.0.2.1/24": netlink.AddrDel, "192.0.2.77/25": netlink.AddrAdd,
		} {
			parsed, err := netlink.ParseAddr(addr)
			if err != nil {
				return err
			}
			if err := change(link, parsed); err != nil {
				return err
			}
		}
		return nil
	})
	check(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
	echo(t, conn)
}

// brokenDevice is one whose packets cannot be read.
type brokenDevice struct {
	tun.Device

	err error
}

func (d *brokenDevice) Read([][]byte, []int, int) (int, error) { return 0, d.err }

// TestPacketsThatCannotBeRead looks at what the library is told: any error but one ends the tunnel.
func TestPacketsThatCannotBeRead(t *testing.T) {
	told := 0
	d := &limitedDevice{
		ledger: newLedger(nil), holders: &atomic.Pointer[map[netip.Addr]table.Key]{}, report: func(error) { told++ },
	}
	d.holders.Store(&map[netip.Addr]table.Key{})
	gone := &fs.PathError{Op: "read", Path: "/dev/net/tun", Err: unix.EIO}
	for _, tc := range []struct {
		err, want error
		told      int
	}{{errors.New("strange header"), nil, 1}, {tun.ErrTooManySegments, nil, 2}, {gone, gone, 2}, {os.ErrClosed, os.ErrClosed, 2}} {
		d.Device = &brokenDevice{err: tc.err}
		n, err := d.Read([][]byte{make([]byte, 100)}, []int{0}, 16)
		if n != 0 || !errors.Is(err, tc.want) || told != tc.told {
			t.Errorf("Read() = %d, %v after %v, want %v; told %d times, want %d", n, err, tc.err, tc.want, told, tc.told)
		}
	}
}
