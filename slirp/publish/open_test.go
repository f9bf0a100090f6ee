package publish

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"moss/engine/network"
	"moss/slirp/slirptest"
)

// serve answers connections at an address in the detached namespace with a word.
func (r rig) serve(t *testing.T, addr, word string) {
	t.Helper()
	var l net.Listener
	slirptest.In(t, r.netns, func() (err error) {
		l, err = net.Listen("tcp4", net.JoinHostPort(addr, "80"))
		return err
	})
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, word)
			_ = conn.Close()
		}
	}()
}

func ask(t *testing.T, hostPort uint16) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp4", fmt.Sprint("127.0.0.1:", hostPort), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	data, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// second is another address in the detached namespace.
const second = "10.0.2.101"

func TestMove(t *testing.T) {
	r := newRig(t)
	slirptest.In(t, r.netns, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(second + "/32")
		if err != nil {
			return err
		}
		return netlink.AddrAdd(lo, addr)
	})
	r.serve(t, inner.String(), "old")
	r.serve(t, second, "new")
	p := New(r.socket, itself)
	was, err := p.Publish(t.Context(), target("a"), []network.PortRequest{tcp(0, 0), tcp(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	to := target("a")
	to.Addr = netip.MustParseAddr(second)
	got, err := p.Move(t.Context(), to)
	if err != nil || !slices.Equal(got, was) {
		t.Fatalf("Move = %v, %v; want the same ports %v", got, err, was)
	}
	for _, np := range got {
		if word := ask(t, np.HostPort); word != "new" {
			t.Errorf("port %d answers %q after Move, want new", np.HostPort, word)
		}
	}
	if got, err := p.Move(t.Context(), to); err != nil || !slices.Equal(got, was) {
		t.Errorf("Move to where they lead already = %v, %v; want %v", got, err, was)
	}
	if got, err := p.Move(t.Context(), target("nobody")); err != nil || len(got) != 0 {
		t.Errorf("Move of an owner without ports = %v, %v; want nothing", got, err)
	}
	to.Addr = netip.Addr{} // the driver refuses it
	got, err = p.Move(t.Context(), to)
	if err == nil || !strings.Contains(err.Error(), "move the published ports of a") || len(got) != len(was) {
		t.Errorf("Move to nowhere = %v, %v; want an error and all ports", got, err)
	}
	if word := ask(t, was[0].HostPort); word != "new" {
		t.Errorf("after a Move that failed the port answers %q, want new as before", word)
	}
	if err := p.Unpublish(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if specs := r.open(t); len(specs) != 0 {
		t.Errorf("open after Unpublish: %+v", specs)
	}
}

func TestPublishOrder(t *testing.T) {
	r := newRig(t)
	p := New(r.socket, itself)
	low := freeRun(t, 4)
	// Neither the range nor the ephemeral ports may take what somebody else can only have.
	reqs := []network.PortRequest{tcp(0, 0), tcp(low, low+3), tcp(low, low+3), tcp(low, low), tcp(low+2, low+2)}
	got, err := p.Publish(t.Context(), target("a"), reqs)
	if err != nil {
		t.Fatal(err)
	}
	var four []uint16
	for _, np := range got {
		if np.HostIP == "0.0.0.0" {
			four = append(four, np.HostPort)
		}
	}
	if want := []uint16{four[0], low + 1, low + 3, low, low + 2}; !slices.Equal(four, want) || slices.Contains(want[1:], four[0]) {
		t.Errorf("Publish gives %v, want %v in the order of the requests", four, want)
	}
}

func TestPublishMany(t *testing.T) {
	r := newRig(t)
	p := New(r.socket, itself)
	reqs := make([]network.PortRequest, 500)
	for i := range reqs {
		reqs[i] = network.PortRequest{Proto: []string{"tcp", "udp"}[i%2], ContainerPort: uint16(i + 1)}
	}
	begin := time.Now()
	got, err := p.Publish(t.Context(), target("a"), reqs)
	if err != nil || len(got) != 2*len(reqs) {
		t.Fatalf("Publish of %d = %d ports, %v", len(reqs), len(got), err)
	}
	t.Logf("open after %s", time.Since(begin))
	for i, np := range got {
		if want := reqs[i/2]; np.Proto != want.Proto || np.ContainerPort != want.ContainerPort || np.HostPort != got[i/2*2].HostPort {
			t.Fatalf("port %d is %+v, want one of %+v", i, np, want)
		}
	}
	begin = time.Now()
	if err := p.Unpublish(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	t.Logf("closed after %s", time.Since(begin))
	if specs := r.open(t); len(specs) != 0 {
		t.Errorf("%d ports are open after Unpublish", len(specs))
	}
}

func TestParseHostAddress(t *testing.T) {
	proc := t.TempDir()
	six := filepath.Join(proc, "net/if_inet6")
	if err := os.Mkdir(filepath.Dir(six), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, inet6, ip string
		want            []string
	}{
		{"none given", "00000000000000000000000000000001 01 80 10 80 lo\n", "", []string{"0.0.0.0", "::"}},
		{"none given, no IPv6", "", "", []string{"0.0.0.0"}},
		{"all of IPv4", "00000000000000000000000000000001 01 80 10 80 lo\n", "0.0.0.0", []string{"0.0.0.0"}},
		{"all of IPv6", "", "::", []string{"::"}},
		{"one", "", "::ffff:10.1.2.3", []string{"10.1.2.3"}},
	} {
		if err := os.WriteFile(six, []byte(tc.inet6), 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := host{proc: proc}.parseRequest(network.PortRequest{ContainerPort: 80, HostIP: tc.ip})
		if got := fmt.Sprint(w.ips); err != nil || got != fmt.Sprint(tc.want) {
			t.Errorf("%s: parse gives the addresses %s, %v; want %s", tc.name, got, err, tc.want)
		}
	}
}

func BenchmarkPublishUnpublish(b *testing.B) {
	dir := b.TempDir()
	slirptest.Outer(b, dir, slirptest.Detached(b, dir))
	p := New(filepath.Join(dir, "api.sock"), itself)
	for b.Loop() {
		if _, err := p.Publish(b.Context(), target("a"), []network.PortRequest{tcp(0, 0)}); err != nil {
			b.Fatal(err)
		}
		if err := p.Unpublish(b.Context(), "a"); err != nil {
			b.Fatal(err)
		}
	}
}
