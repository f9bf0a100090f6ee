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
		NetNS:  slirptest.Detached(t, dir),
		Dir:    filepath.Join(dir, "run", "netns"),
		File:   filepath.Join(dir, "data", "networks", "bridge.json"),
		Uplink: "tap0",
		MTU:    65520,
		Avoid:  []netip.Prefix{netip.MustParsePrefix("10.0.2.0/24")},
	}}
}

func (p place) bridge(t testing.TB) *Bridge {
	t.Helper()
	b, err := New(p.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ids, err := b.Attached()
		if err != nil {
			t.Error(err)
		}
		for _, id := range ids {
			if err := b.Detach(id); err != nil {
				t.Error(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func attach(t testing.TB, b *Bridge, id string, addr netip.Addr) string {
	t.Helper()
	path, err := b.Attach(t.Context(), Endpoint{ContainerID: id, ID: NewID(), Addr: addr, MAC: MACFor(addr)})
	if err != nil {
		t.Fatalf("Attach(%s): %v", id, err)
	}
	return path
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
		l, err = net.Listen("tcp4", net.JoinHostPort(listen, "0"))
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
		conn, err = net.DialTimeout("tcp4", net.JoinHostPort(dial, port), 5*time.Second)
		return err
	})
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
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
