package forward_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rootless-containers/rootlesskit/v3/pkg/port"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const patience = time.Minute

// tell answers a connection with the address it comes from.
func tell(c *net.TCPConn) {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	_, _ = io.WriteString(c, host)
	_ = c.Close()
}

// dial connects from an address of the host.
func dial(t testing.TB, from string, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", to.String())
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	check(t, c.SetDeadline(time.Now().Add(patience)))
	return c.(*net.TCPConn)
}

func TestTCPSource(t *testing.T) {
	r := newRig(t, true)
	r.listen(t, ":80", tell)
	for _, tc := range []struct{ name, proto, host, child, from, to, want string }{
		{"a client elsewhere", "tcp4", "0.0.0.0", container, client, client, client},
		{"the loopback", "tcp4", "0.0.0.0", container, "127.0.0.1", "127.0.0.1", gateway},
		{"another address of the loopback", "tcp4", "127.0.0.1", container, "127.0.0.2", "127.0.0.1", gateway},
		{"a client elsewhere by IPv6", "tcp6", "::", container6, client6, client6, client6},
		{"the IPv6 loopback", "tcp6", "::", container6, "::1", "::1", gateway6},
		{"IPv6 to a container with IPv4 only", "tcp6", "::", container, client6, client6, gateway},
	} {
		at, _ := r.open(t, tc.proto, tc.host, tc.child, 80)
		to := netip.AddrPortFrom(netip.MustParseAddr(tc.to), at.Port())
		begin := time.Now()
		got, err := io.ReadAll(dial(t, tc.from, to))
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: the container sees %q, %v; want %s", tc.name, got, err, tc.want)
		}
		t.Logf("%s: %s", tc.name, time.Since(begin))
	}
}

// echo sends everything back.
func echo(c *net.TCPConn) {
	_, _ = io.Copy(c, c)
	_ = c.Close()
}

func TestTCPHalfClose(t *testing.T) {
	r := newRig(t, true)
	r.listen(t, ":80", func(c *net.TCPConn) { // answers after the last word only
		data, _ := io.ReadAll(c)
		_, _ = fmt.Fprintf(c, "%x", sha256.Sum256(data))
		_ = c.Close()
	})
	r.listen(t, ":81", func(c *net.TCPConn) { // ends its direction first
		_, _ = io.WriteString(c, "bye")
		_ = c.CloseWrite()
		data, _ := io.ReadAll(c)
		later <- string(data)
		_ = c.Close()
	})
	at, _ := r.open(t, "tcp4", "127.0.0.1", container, 80)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	c := dial(t, "127.0.0.1", at)
	go func() {
		_, _ = c.Write(data)
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if want := fmt.Sprintf("%x", sha256.Sum256(data)); err != nil || string(got) != want {
		t.Errorf("answer after the client's end = %q, %v; want %s", got, err, want)
	}
	at, _ = r.open(t, "tcp4", "127.0.0.1", container, 81)
	c = dial(t, "127.0.0.1", at)
	if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
		t.Errorf("what the container said = %q, %v; want bye", got, err)
	}
	_, err = io.WriteString(c, "still here")
	check(t, errors.Join(err, c.CloseWrite()))
	if got := <-later; got != "still here" {
		t.Errorf("the container got %q after its own end, want still here", got)
	}
}

// later is what the second server of TestTCPHalfClose got.
var later = make(chan string, 1)

func TestTCPResets(t *testing.T) {
	r := newRig(t, true)
	gone := make(chan error, 1)
	r.listen(t, ":80", func(c *net.TCPConn) {
		_, err := io.ReadAll(c)
		gone <- err
		_ = c.Close()
	})
	r.listen(t, ":81", func(c *net.TCPConn) {
		_ = c.SetLinger(0)
		_ = c.Close()
	})
	at, _ := r.open(t, "tcp4", "127.0.0.1", container, 81)
	reached, err := net.DialTimeout("tcp", at.String(), patience)
	if err == nil { // otherwise the reset was quicker
		check(t, reached.SetDeadline(time.Now().Add(patience)))
		_, err = io.ReadAll(reached)
		_ = reached.Close()
	}
	if !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the container resets: the client's read = %v, want a reset", err)
	}
	at, _ = r.open(t, "tcp4", "127.0.0.1", container, 80)
	c := dial(t, "127.0.0.1", at)
	_, err = io.WriteString(c, "x")
	check(t, errors.Join(err, c.SetLinger(0), c.Close()))
	if err := <-gone; !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the client resets: the container's read = %v, want a reset", err)
	}
}

// Clients that wait for a port must be able to connect before anybody listens in the container, and those that ask at once
// must learn that there is no answer: see refuseClient.
func TestTCPNobodyListens(t *testing.T) {
	r := newRig(t, true)
	silent, _ := r.open(t, "tcp4", "127.0.0.1", container, 82)
	r.ports.SetRefuseWait(patience) // however busy the machine is, those that ask are heard
	asking, _ := r.open(t, "tcp4", "127.0.0.1", container, 82)
	for i := range 50 {
		at, want := silent, error(nil)
		if i%10 != 0 { // most clients ask at once
			at = asking
		}
		c := dial(t, "127.0.0.1", at)
		if at == asking {
			_, err := io.WriteString(c, "x")
			check(t, err)
			want = unix.ECONNRESET
		}
		text, err := io.ReadAll(c)
		if !errors.Is(err, want) || len(text) > 0 {
			t.Fatalf("client %d: the read = %q, %v, want %v", i, text, err, want)
		}
		check(t, c.Close())
	}
}

func TestRemovePort(t *testing.T) {
	r := newRig(t, true)
	const size = 3 << 20
	sent := make(chan struct{}, 1)
	r.listen(t, ":80", echo)
	r.listen(t, ":81", func(c *net.TCPConn) {
		_, _ = c.Write(make([]byte, size))
		_ = c.Close()
		sent <- struct{}{}
	})
	at, id := r.open(t, "tcp4", "127.0.0.1", container, 80)
	c := dial(t, "127.0.0.1", at)
	_, err := io.WriteString(c, "x")
	check(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	check(t, err)
	check(t, r.ports.RemovePort(t.Context(), id))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("an open connection's read after RemovePort = %v, want a reset", err)
	}
	if _, err := net.DialTimeout("tcp", at.String(), patience); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("dial after RemovePort = %v, want connection refused", err)
	}
	if err := r.ports.RemovePort(t.Context(), id); err == nil || !strings.Contains(err.Error(), "unknown id") {
		t.Errorf("RemovePort again = %v, want unknown id", err)
	}
	// What a container has sent before its end arrives although its port is closed.
	r.ports.SetCutWait(patience) // its end may be seen late
	at, id = r.open(t, "tcp4", "127.0.0.1", container, 81)
	c = dial(t, "127.0.0.1", at)
	<-sent
	check(t, r.ports.RemovePort(t.Context(), id))
	if data, err := io.ReadAll(c); err != nil || len(data) != size {
		t.Errorf("of a container that has ended %d bytes arrive, %v; want %d", len(data), err, size)
	}
}

// TestTCPSourceWithoutWayBack has nobody who brings replies to a client's address back.
func TestTCPSourceWithoutWayBack(t *testing.T) {
	r := newRig(t, false)
	r.listen(t, ":80", tell)
	at, _ := r.open(t, "tcp4", "0.0.0.0", container, 80)
	to := netip.AddrPortFrom(netip.MustParseAddr(client), at.Port())
	for i := range 2 {
		begin := time.Now()
		got, err := io.ReadAll(dial(t, client, to))
		if err != nil || string(got) != gateway {
			t.Errorf("the container sees %q, %v; want its gateway %s", got, err, gateway)
		}
		if took := time.Since(begin); i == 1 && took >= r.sourceWait {
			t.Errorf("the second connection took %s: nothing was learned from the first", took)
		}
	}
}

// TestTCPForeignSource: clients whose address means something among the containers.
func TestTCPForeignSource(t *testing.T) {
	r := newRig(t, true)
	r.listen(t, ":80", tell)
	at, _ := r.open(t, "tcp4", "0.0.0.0", container, 80)
	lo, err := netlink.LinkByName("lo")
	check(t, err)
	for _, ip := range []string{"172.30.0.77", gateway} { // in the container's subnet
		addr, err := netlink.ParseAddr(ip + "/32")
		check(t, err)
		check(t, netlink.AddrAdd(lo, addr))
		begin := time.Now()
		got, err := io.ReadAll(dial(t, ip, netip.AddrPortFrom(netip.MustParseAddr(ip), at.Port())))
		if err != nil || string(got) != gateway {
			t.Errorf("a client %s: the container sees %q, %v; want its gateway %s", ip, got, err, gateway)
		}
		if took := time.Since(begin); took >= r.sourceWait {
			t.Errorf("a client %s waited %s", ip, took)
		}
		check(t, netlink.AddrDel(lo, addr))
	}
}

func TestAddPortConflicts(t *testing.T) {
	r := newRig(t, true)
	at, _ := r.open(t, "tcp4", "127.0.0.1", container, 80)
	spec := port.Spec{Proto: "tcp4", ParentIP: "127.0.0.1", ParentPort: int(at.Port()), ChildIP: container, ChildPort: 81}
	if _, err := r.ports.AddPort(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "conflict with ID") {
		t.Errorf("AddPort of an open port = %v, want a conflict", err)
	}
	spec.ParentIP = "0.0.0.0"
	if _, err := r.ports.AddPort(t.Context(), spec); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("AddPort of an open port on all addresses = %v, want address in use", err)
	}
	spec.Proto = "udp4"
	if _, err := r.ports.AddPort(t.Context(), spec); err != nil {
		t.Errorf("AddPort of the same port by UDP = %v", err)
	}
	if list, err := r.ports.ListPorts(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("ListPorts = %+v, %v; want two", list, err)
	}
}

// TestTCPCrowd has more clients at once than sockets are kept, and leaves nothing behind.
func TestTCPCrowd(t *testing.T) {
	r := newRig(t, true)
	r.listen(t, ":80", echo)
	at, _ := r.open(t, "tcp4", "127.0.0.1", container, 80)
	before := descriptors(t)
	for range 3 {
		all := make([]*net.TCPConn, 0, 200)
		for range 200 {
			all = append(all, dial(t, "127.0.0.1", at))
		}
		for i, c := range all {
			_, err := fmt.Fprintf(c, "%04d", i)
			check(t, err)
		}
		for i, c := range all {
			got := make([]byte, 4)
			_, err := io.ReadFull(c, got)
			if want := fmt.Sprintf("%04d", i); err != nil || string(got) != want {
				t.Fatalf("client %d gets %q, %v", i, got, err)
			}
			_ = c.Close()
		}
	}
	deadline := time.Now().Add(patience)
	for descriptors(t) > before+64 { // spare sockets and pipes
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors are open, %d before", descriptors(t), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(list)
}
