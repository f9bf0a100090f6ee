package forward_test

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"moss/slirp/slirptest"
)

// answer listens on UDP in the container and answers each datagram with the address it came from and itself.
func (r rig) answer(t testing.TB, addr string) {
	t.Helper()
	var c net.PacketConn
	slirptest.In(t, r.container, func() (err error) {
		c, err = net.ListenPacket("udp", addr)
		return err
	})
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(from.String())
			_, _ = c.WriteTo(append([]byte(host+" "), buf[:n]...), from)
		}
	}()
}

// socket is a client's; it hears only from where it sends to.
func socket(t testing.TB, from string, to netip.AddrPort) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("udp", to.String())
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	check(t, c.SetDeadline(time.Now().Add(patience)))
	return c
}

func say(t testing.TB, c net.Conn, text string) string {
	t.Helper()
	_, err := c.Write([]byte(text))
	check(t, err)
	return hear(t, c)
}

func hear(t testing.TB, c net.Conn) string {
	t.Helper()
	buf := make([]byte, 1<<16)
	n, err := c.Read(buf)
	check(t, err)
	return string(buf[:n])
}

func TestUDPSource(t *testing.T) {
	r := newRig(t, true)
	r.answer(t, ":53")
	for _, tc := range []struct{ name, proto, host, child, from, to, want string }{
		{"a client elsewhere", "udp4", "0.0.0.0", container, client, client, client},
		{"a client elsewhere, one address of the host", "udp4", client, container, client, client, client},
		{"the loopback", "udp4", "0.0.0.0", container, "127.0.0.1", "127.0.0.1", gateway},
		{"another address of the loopback", "udp4", "0.0.0.0", container, "127.0.0.1", "127.0.0.2", gateway},
		{"a client elsewhere by IPv6", "udp6", "::", container6, client6, client6, client6},
		{"the IPv6 loopback", "udp6", "::", container6, "::1", "::1", gateway6},
		{"IPv6 to a container with IPv4 only", "udp6", "::", container, client6, client6, gateway},
	} {
		at, id := r.open(t, tc.proto, tc.host, tc.child, 53)
		c := socket(t, tc.from, netip.AddrPortFrom(netip.MustParseAddr(tc.to), at.Port()))
		for i := range 3 {
			if got, want := say(t, c, fmt.Sprint("n", i)), fmt.Sprint(tc.want, " n", i); got != want {
				t.Errorf("%s: answer %d = %q, want %q", tc.name, i, got, want)
			}
		}
		check(t, r.ports.RemovePort(t.Context(), id))
	}
}

// TestUDPNewClientInOrder: the first datagrams of a client, sent at once, make one client and stay in order.
func TestUDPNewClientInOrder(t *testing.T) {
	r := newRig(t, true)
	r.answer(t, ":53")
	at, _ := r.open(t, "udp4", "127.0.0.1", container, 53)
	for range 20 {
		c := socket(t, "127.0.0.1", at)
		for i := range 5 {
			_, err := fmt.Fprint(c, i)
			check(t, err)
		}
		for i := range 5 {
			if got, want := hear(t, c), fmt.Sprint(gateway, " ", i); got != want {
				t.Fatalf("answer %d = %q, want %q", i, got, want)
			}
		}
	}
}

// TestUDPOneClientAskedTwice: for the container the two would have one address, so only one keeps its own.
func TestUDPOneClientAskedTwice(t *testing.T) {
	r := newRig(t, true)
	r.answer(t, ":53")
	at, _ := r.open(t, "udp4", "0.0.0.0", container, 53)
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(client)})
	check(t, err)
	defer func() { _ = c.Close() }()
	check(t, c.SetDeadline(time.Now().Add(patience)))
	for i, to := range []string{client, "127.0.0.1", client} {
		dst := netip.AddrPortFrom(netip.MustParseAddr(to), at.Port())
		_, err := c.WriteToUDPAddrPort([]byte("x"), dst)
		check(t, err)
		buf := make([]byte, 100)
		n, from, err := c.ReadFromUDPAddrPort(buf)
		want := []string{client + " x", gateway + " x", client + " x"}[i]
		if err != nil || from != dst || string(buf[:n]) != want {
			t.Errorf("asked at %s: %q from %s, %v; want %q from there", dst, buf[:n], from, err, want)
		}
	}
}

func TestUDPLargeAndUnheard(t *testing.T) {
	r := newRig(t, true)
	at, _ := r.open(t, "udp4", "127.0.0.1", container, 53)
	c := socket(t, "127.0.0.1", at)
	_, err := c.Write([]byte("nobody listens"))
	check(t, err)
	r.answer(t, ":53")
	data := bytes.Repeat([]byte("x"), 60000)
	// The word that nobody listened may come before or after the next datagram, which it can cost.
	for i := range 50 {
		_, err := c.Write(data)
		check(t, err)
		check(t, c.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
		buf := make([]byte, 1<<16)
		n, err := c.Read(buf)
		for err == nil && string(buf[:n]) == gateway+" nobody listens" { // it was on its way longer than it took to listen
			n, err = c.Read(buf)
		}
		if err == nil {
			if want := gateway + " " + string(data); string(buf[:n]) != want {
				t.Errorf("%d bytes come back, want %d", n, len(want))
			}
			return
		}
		t.Logf("try %d: %v", i, err)
	}
	t.Error("no answer")
}

// TestUDPManyClients has more clients than a port keeps: all are answered.
func TestUDPManyClients(t *testing.T) {
	r := newRig(t, true)
	r.answer(t, ":53")
	at, id := r.open(t, "udp4", "127.0.0.1", container, 53)
	before := descriptors(t)
	for i := range 1100 {
		d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP("127.0.0.1")}}
		c, err := d.Dial("udp4", at.String())
		check(t, err)
		check(t, c.SetDeadline(time.Now().Add(patience)))
		if got, want := say(t, c, strconv.Itoa(i)), gateway+" "+strconv.Itoa(i); got != want {
			t.Fatalf("client %d hears %q, want %q", i, got, want)
		}
		check(t, c.Close())
	}
	if n := descriptors(t) - before; n > 1024+64 {
		t.Errorf("%d clients are kept, want no more than 1024", n)
	}
	check(t, r.ports.RemovePort(t.Context(), id))
	if n := descriptors(t) - before; n > 64 {
		t.Errorf("%d descriptors are left after RemovePort", n)
	}
}
