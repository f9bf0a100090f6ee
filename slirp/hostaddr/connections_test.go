package hostaddr

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"moss/slirp/slirptest"
)

// tell answers every datagram to the address with a text until the test ends, and returns the port.
func (h host) tell(at, text string) (port string) {
	h.t.Helper()
	conn, err := net.ListenPacket("udp4", at)
	must(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for buf := make([]byte, 64); ; {
			_, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo([]byte(text), from)
		}
	}()
	_, port, _ = net.SplitHostPort(conn.LocalAddr().String())
	return port
}

// accept takes one connection to the address and returns what to say on it, and the port.
func (h host) accept(at string) (said <-chan net.Conn, port string) {
	h.t.Helper()
	l, err := net.Listen("tcp4", at)
	must(h.t, err)
	h.t.Cleanup(func() { _ = l.Close() })
	conns := make(chan net.Conn, 1)
	go func() {
		if conn, err := l.Accept(); err == nil {
			conns <- conn
		}
		close(conns)
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return conns, port
}

// dial opens a connection from the container to the fixed address.
func dial(t *testing.T, container, network, port string) (conn net.Conn) {
	t.Helper()
	slirptest.In(t, container, func() (err error) {
		conn, err = net.DialTimeout(network, net.JoinHostPort(fixed.String(), port), patience)
		return err
	})
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A connection that leads to the right place outlives whatever makes the engine set the table: a container may have opened
// it just after the table was set, and the next engine sets the same one again.
func TestKeepsConnections(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t)
	detached := slirptest.Detached(t, dir)
	container := newContainer(t, dir, detached)
	h.moveTo("192.0.2.1/24", "192.0.2.254")
	opts := Options{NetNS: detached, Uplink: "tap0", Addr: fixed, To: netip.MustParseAddr("192.0.2.1"), Log: zerolog.Nop()}
	f, err := Start(context.Background(), opts)
	must(t, err)
	conns, port := h.accept("192.0.2.1:0")
	client := dial(t, container, "tcp4", port)
	server, ok := <-conns
	if !ok {
		t.Fatal("no connection came")
	}
	defer func() { _ = server.Close() }()

	must(t, f.setTarget(f.Target()))
	must(t, f.Close())
	f, err = Start(context.Background(), opts)
	must(t, err)
	// The kernel would begin anew with a packet of the client, but knows no way for one of the server.
	must(t, server.SetDeadline(time.Now().Add(patience)))
	if _, err := server.Write([]byte("x")); err != nil {
		t.Errorf("write on a connection from before: %v", err)
	}
	must(t, client.SetDeadline(time.Now().Add(patience)))
	if n, err := client.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("read on a connection from before = %d, %v; want 1 byte", n, err)
	}
	must(t, f.Close())
}

// A client that sends on from the same port would reach the former address for as long as it does.
func TestForgetsConnections(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t)
	detached := slirptest.Detached(t, dir)
	container := newContainer(t, dir, detached)
	h.moveTo("192.0.2.1/24", "192.0.2.254")
	f, err := Start(context.Background(), Options{
		NetNS: detached, Uplink: "tap0", Addr: fixed, To: netip.MustParseAddr("192.0.2.1"), Log: zerolog.Nop(),
	})
	must(t, err)
	port := h.tell("192.0.2.1:0", "office")
	client := dial(t, container, "udp4", port)
	answer := func() string {
		must(t, client.SetDeadline(time.Now().Add(patience)))
		if _, err := client.Write([]byte("who")); err != nil {
			return err.Error()
		}
		buf := make([]byte, 64)
		n, err := client.Read(buf)
		if err != nil {
			return err.Error()
		}
		return string(buf[:n])
	}
	if got := answer(); got != "office" {
		t.Errorf("before the move: got %q, want %q", got, "office")
	}
	h.moveTo("198.18.0.7/24", "198.18.0.254")
	h.tell("198.18.0.7:"+port, "home")
	must(t, f.setTarget(netip.MustParseAddr("198.18.0.7")))
	if got := answer(); got != "home" {
		t.Errorf("after the move: got %q, want %q", got, "home")
	}
	must(t, f.Close())
}
