package bridge

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/slirp/slirptest"
)

// TestNobodySpeaksForOthers: a container that makes its packets itself (CAP_NET_RAW is one of the default capabilities)
// neither takes part in the connections of another network nor opens any in its name. What is forged is sent first each
// time, so that it would be read first.
func TestNobodySpeaksForOthers(t *testing.T) {
	p := newPlace(t)
	f := p.fabric(t)
	up(t, f, first(), second())
	one := attach(t, f, "one", endpoint(first(), "eth0", 2))
	two := attach(t, f, "two", endpoint(second(), "eth0", 2))

	outside := listenUDP(t, "/proc/self/ns/net", slirptest.OutsideAddr)
	at := outside.LocalAddr().(*net.UDPAddr).AddrPort()
	var client *net.UDPConn
	slirptest.In(t, two, func() (err error) {
		client, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
		return err
	})
	defer func() { _ = client.Close() }()

	own := netip.AddrPortFrom(netip.MustParseAddr("172.18.0.2"), 7)
	forge(t, one, own, at, "forged question")
	_, err := client.Write([]byte("question"))
	must(t, err)
	got, peer := receive(t, outside)
	if got != "question" {
		t.Errorf("the outside got %q from container two, want its question", got)
	}
	forge(t, one, at, peer, "forged answer")
	forge(t, one, at, netip.AddrPortFrom(own.Addr(), client.LocalAddr().(*net.UDPAddr).AddrPort().Port()), "forged answer")
	_, err = outside.WriteToUDPAddrPort([]byte("answer"), peer)
	must(t, err)
	if got, _ := receive(t, client); got != "answer" {
		t.Errorf("container two got %q, want the answer from outside", got)
	}

	// What the detached namespace itself speaks with a container, as the forwarder of ports does.
	inside := listenUDP(t, two, own.Addr().String())
	server := inside.LocalAddr().(*net.UDPAddr).AddrPort()
	var forwarder *net.UDPConn
	slirptest.In(t, p.opts.NetNS, func() (err error) {
		forwarder, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(server))
		return err
	})
	defer func() { _ = forwarder.Close() }()
	_, err = forwarder.Write([]byte("question"))
	must(t, err)
	_, peer = receive(t, inside)
	forge(t, one, server, peer, "forged answer")
	_, err = inside.WriteToUDPAddrPort([]byte("answer"), peer)
	must(t, err)
	if got, _ := receive(t, forwarder); got != "answer" {
		t.Errorf("the forwarder got %q, want the container's answer", got)
	}
}

func listenUDP(t testing.TB, ns, addr string) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	slirptest.In(t, ns, func() (err error) {
		c, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(addr)})
		return err
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func receive(t testing.TB, c *net.UDPConn) (string, netip.AddrPort) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	buf := make([]byte, 100)
	n, from, err := c.ReadFromUDPAddrPort(buf)
	must(t, err)
	return string(buf[:n]), netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
}

// forge sends a datagram by IPv4 from whatever address.
func forge(t testing.TB, ns string, from, to netip.AddrPort, text string) {
	t.Helper()
	const header, udp = 20, 8
	packet := make([]byte, header+udp, header+udp+len(text))
	packet[0], packet[8], packet[9] = 0x45, 64, unix.IPPROTO_UDP // the kernel fills in length and checksum
	copy(packet[12:], from.Addr().AsSlice())
	copy(packet[16:], to.Addr().AsSlice())
	binary.BigEndian.PutUint16(packet[header:], from.Port())
	binary.BigEndian.PutUint16(packet[header+2:], to.Port())
	binary.BigEndian.PutUint16(packet[header+4:], uint16(udp+len(text))) // no checksum
	packet = append(packet, text...)
	slirptest.In(t, ns, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		return unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: to.Addr().As4()})
	})
}
