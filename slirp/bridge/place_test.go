package bridge

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"moss/slirp/slirptest"
)

// place is a machine with a detached namespace; bridges over it come and go as engines do.
type place struct{ opts Options }

func newPlace(t testing.TB) place {
	t.Helper()
	dir := t.TempDir()
	return place{Options{
		NetNS: slirptest.Detached(t, dir), Dir: filepath.Join(dir, "run", "netns"), Uplink: "tap0",
		DialMark: 0x101, ReplyMark: 0x102, ReplyTable: 103,
	}}
}

func (p place) fabric(t testing.TB) *Fabric {
	t.Helper()
	f, err := New(p.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ids, err := f.Attached()
		if err != nil {
			t.Error(err)
		}
		for _, id := range ids {
			if err := f.Detach(id); err != nil {
				t.Error(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// first is the network of most tests.
func first() Net {
	return Net{ID: "one", Device: "moss0", IPv4: netip.MustParsePrefix("172.17.0.1/16"), MTU: 65520}
}

// second is another one, with IPv6.
func second() Net {
	return Net{
		ID: "two", Device: "br-two", IPv4: netip.MustParsePrefix("172.18.0.1/16"), IPv6: netip.MustParsePrefix("fd00:18::1/64"), MTU: 1500,
	}
}

func up(t testing.TB, f *Fabric, nets ...Net) {
	t.Helper()
	for _, n := range nets {
		if err := f.Up(t.Context(), n); err != nil {
			t.Fatalf("Up(%s): %v", n.Device, err)
		}
	}
}

// endpoint is the place with this number in a network.
func endpoint(n Net, device string, number byte) Endpoint {
	a := n.IPv4.Addr().As4()
	a[3] = number
	addr := netip.AddrFrom4(a)
	e := Endpoint{ID: NewID(), Net: n, Device: device, MAC: MACFor(addr), Addrs: []netip.Prefix{netip.PrefixFrom(addr, n.IPv4.Bits())}}
	if n.IPv6.IsValid() {
		b := n.IPv6.Addr().As16()
		b[15] = number
		e.Addrs = append(e.Addrs, netip.PrefixFrom(netip.AddrFrom16(b), n.IPv6.Bits()))
	}
	return e
}

// gateways lead out by the first of the endpoints.
func gateways(all ...Endpoint) []Gateway {
	var g []Gateway
	if len(all) > 0 && !all[0].Net.Internal {
		g = append(g, Gateway{all[0].Device, all[0].Net.IPv4.Addr()})
		if v6 := all[0].Net.IPv6; v6.IsValid() {
			g = append(g, Gateway{all[0].Device, v6.Addr()})
		}
	}
	return g
}

// attach makes a container with these endpoints and returns the path of its namespace.
func attach(t testing.TB, f *Fabric, id string, all ...Endpoint) string {
	t.Helper()
	s, err := f.Make(t.Context(), id)
	if err != nil {
		t.Fatalf("Make(%s): %v", id, err)
	}
	defer s.Close()
	if err := s.Furnish(t.Context(), all, gateways(all...)); err != nil {
		t.Fatalf("Furnish(%s): %v", id, err)
	}
	return s.Path()
}

func nsenter(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("nsenter", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("nsenter %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func sysctlIn(t testing.TB, ns, path string) string {
	t.Helper()
	var got []byte
	slirptest.In(t, ns, func() (err error) {
		got, err = os.ReadFile(filepath.Join("/proc/sys", path))
		return err
	})
	return string(bytes.TrimSpace(got))
}

// talk has a client in one namespace send a line to a server in another, and returns the address the server saw.
func talk(t testing.TB, server, listen, client, dial string) string {
	t.Helper()
	var l net.Listener
	slirptest.In(t, server, func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(listen, "0"))
		return err
	})
	defer func() { _ = l.Close() }()
	seen := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			seen <- err.Error()
			return
		}
		defer func() { _ = conn.Close() }()
		host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		_, _ = io.Copy(conn, conn)
		seen <- host
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	var conn net.Conn
	slirptest.In(t, client, func() (err error) {
		conn, err = net.DialTimeout("tcp", net.JoinHostPort(dial, port), time.Minute)
		return err
	})
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	sent := bytes.Repeat([]byte("moss"), 1<<18) // more than any packet
	go func() {
		_, _ = conn.Write(sent)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("echo gave %d bytes, %v; want the %d sent", len(got), err, len(sent))
	}
	return <-seen
}

// refused looks that a client in one namespace cannot open a connection to an address, where a server in another listens.
func refused(t testing.TB, server, listen, client, dial string) {
	t.Helper()
	var l net.Listener
	slirptest.In(t, server, func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(listen, "0"))
		return err
	})
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	slirptest.In(t, client, func() error {
		if conn, err := net.DialTimeout("tcp", net.JoinHostPort(dial, port), 300*time.Millisecond); err == nil {
			t.Errorf("%s can be reached and must not", dial)
			return conn.Close()
		}
		return nil
	})
}

func handle(t testing.TB, path string) *netlink.Handle {
	t.Helper()
	ns, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ns.Close() }()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func nsOf(t testing.TB, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func count(t testing.TB, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func ours(t testing.TB, p place) []string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, p.opts.Dir) {
			found = append(found, line)
		}
	}
	return found
}
