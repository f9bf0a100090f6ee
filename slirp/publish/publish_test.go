package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rootless-containers/rootlesskit/v3/pkg/port"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/slirp/slirptest"
)

func TestMain(m *testing.M) { slirptest.Main(m) }

// inner is the address that stands for a container: the detached namespace's own.
var inner = netip.MustParseAddr(slirptest.UplinkAddr)

type rig struct {
	netns, socket string
	outer         port.Manager
}

func newRig(t *testing.T) rig {
	t.Helper()
	dir := t.TempDir()
	ns := slirptest.Detached(t, dir)
	return rig{ns, filepath.Join(dir, "api.sock"), slirptest.Outer(t, dir, ns)}
}

func (r rig) open(t *testing.T) []port.Spec {
	t.Helper()
	list, err := r.outer.ListPorts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	specs := make([]port.Spec, 0, len(list))
	for _, st := range list {
		specs = append(specs, st.Spec)
	}
	return specs
}

func target(owner string) Target {
	return Target{Owner: owner, EndpointID: "e-" + owner, Addr: inner}
}

func tcp(low, high uint16) network.PortRequest {
	return network.PortRequest{Proto: "tcp", ContainerPort: 80, HostLow: low, HostHigh: high}
}

// freePort finds a TCP port that nobody uses at the moment.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).AddrPort().Port()
}

func occupy(t *testing.T, hostPort uint16) {
	t.Helper()
	l, err := net.Listen("tcp4", fmt.Sprint("0.0.0.0:", hostPort))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// freeRun finds n ports in a row.
func freeRun(t *testing.T, n uint16) uint16 {
	t.Helper()
next:
	for low := uint16(20000); low < 30000; low += n {
		for i := range n {
			l, err := net.Listen("tcp4", fmt.Sprint("0.0.0.0:", low+i))
			if err != nil {
				continue next
			}
			_ = l.Close()
		}
		return low
	}
	t.Fatal("no free ports")
	return 0
}

func TestPublishTCP(t *testing.T) {
	r := newRig(t)
	var l net.Listener
	slirptest.In(t, r.netns, func() (err error) {
		l, err = net.Listen("tcp4", net.JoinHostPort(inner.String(), "80"))
		return err
	})
	defer func() { _ = l.Close() }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, conn.RemoteAddr().String())
			_ = conn.Close()
		}
	}()
	p := New(r.socket, itself)
	want := freePort(t)
	got, err := p.Publish(t.Context(), target("a"), []network.PortRequest{tcp(want, want)})
	if err != nil {
		t.Fatal(err)
	}
	w := []network.Port{{Proto: "tcp", ContainerPort: 80, HostIP: "0.0.0.0", HostPort: want}, {Proto: "tcp", ContainerPort: 80, HostIP: "::", HostPort: want}}
	if !slices.Equal(got, w) {
		t.Errorf("Publish = %+v, want %+v", got, w)
	}
	for _, from := range []string{"127.0.0.1", "::1", slirptest.OutsideAddr} {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(from, strconv.Itoa(int(want))), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		seen, err := io.ReadAll(conn)
		_ = conn.Close()
		if err != nil || len(seen) == 0 || strings.HasPrefix(string(seen), "127.") {
			t.Errorf("the container sees a client of %s as %q, %v; want an address that is not loopback", from, seen, err)
		}
	}
	if err := p.Unpublish(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.DialTimeout("tcp4", fmt.Sprint("127.0.0.1:", want), time.Second); err == nil {
		_ = conn.Close()
		t.Error("the port is open after Unpublish")
	}
	if err := p.Unpublish(t.Context(), "a"); err != nil {
		t.Errorf("Unpublish again: %v", err)
	}
}

func TestPublishUDP(t *testing.T) {
	r := newRig(t)
	var c net.PacketConn
	slirptest.In(t, r.netns, func() (err error) {
		c, err = net.ListenPacket("udp4", net.JoinHostPort(inner.String(), "53"))
		return err
	})
	defer func() { _ = c.Close() }()
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(buf[:n], from)
		}
	}()
	p := New(r.socket, itself)
	got, err := p.Publish(t.Context(), target("a"), []network.PortRequest{{Proto: "udp", ContainerPort: 53, HostIP: "127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].HostIP != "127.0.0.1" || got[0].HostPort < 1024 {
		t.Fatalf("Publish = %+v, want an ephemeral port on 127.0.0.1", got)
	}
	conn, err := net.Dial("udp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(got[0].HostPort))))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if n, err := conn.Read(buf); err != nil || string(buf[:n]) != "ping" {
		t.Errorf("echo = %q, %v; want ping", buf[:n], err)
	}
}

func TestPublishIPv6HostAddressLeavesIPv4Alone(t *testing.T) {
	r := newRig(t)
	p := New(r.socket, itself)
	hostPort := freePort(t)
	six := network.PortRequest{Proto: "tcp", ContainerPort: 80, HostIP: "::", HostLow: hostPort}
	if _, err := p.Publish(t.Context(), target("six"), []network.PortRequest{six}); err != nil {
		t.Skipf("this kernel has no IPv6 (load the module ipv6 to run this): %v", err)
	}
	four := network.PortRequest{Proto: "tcp", ContainerPort: 80, HostIP: "0.0.0.0", HostLow: hostPort}
	if _, err := p.Publish(t.Context(), target("four"), []network.PortRequest{four}); err != nil {
		t.Errorf("the same port on IPv4: %v", err)
	}
	_, err := p.Publish(t.Context(), target("both"), []network.PortRequest{tcp(hostPort, hostPort)})
	if err == nil || !strings.Contains(err.Error(), "port is already allocated") {
		t.Errorf("the same port on all addresses = %v, want it to be allocated", err)
	}
}

func TestPublishRangeTakesTheFirstFree(t *testing.T) {
	r := newRig(t)
	p := New(r.socket, itself)
	low := freeRun(t, 3)
	occupy(t, low)
	for i, want := range []uint16{low + 1, low + 2} {
		got, err := p.Publish(t.Context(), target(strconv.Itoa(i)), []network.PortRequest{tcp(low, low+2)})
		if err != nil || got[0].HostPort != want {
			t.Fatalf("Publish number %d of %d-%d = %+v, %v; want port %d", i, low, low+2, got, err, want)
		}
	}
	_, err := p.Publish(t.Context(), target("late"), []network.PortRequest{tcp(low, low+2)})
	if want := fmt.Sprintf("Bind for 0.0.0.0:%d-%d failed: all ports are allocated", low, low+2); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Publish of a full range = %v, want %q", err, want)
	}
}

func TestPublishConflictUndoesWhatWasOpen(t *testing.T) {
	r := newRig(t)
	p := New(r.socket, itself)
	low := freeRun(t, 2)
	if _, err := p.Publish(t.Context(), target("first"), []network.PortRequest{tcp(low+1, 0)}); err != nil {
		t.Fatal(err)
	}
	_, err := p.Publish(t.Context(), target("second"), []network.PortRequest{tcp(low, 0), tcp(0, 0), tcp(low+1, 0)})
	want := fmt.Sprintf("driver failed programming external connectivity on endpoint e-second: Bind for 0.0.0.0:%d failed: port is already allocated", low+1)
	if err == nil || err.Error() != want {
		t.Errorf("Publish of a port in use = %v, want %s", err, want)
	}
	if !fault.Is(err, fault.Internal) {
		t.Errorf("its kind is %v, want internal as clients expect", fault.KindOf(err))
	}
	if specs := r.open(t); len(specs) != 2 || specs[0].ParentPort != int(low+1) || specs[1].ParentPort != int(low+1) {
		t.Errorf("open are %+v, want the first container's only", specs)
	}
	occupy(t, low) // by a stranger
	_, err = p.Publish(t.Context(), target("third"), []network.PortRequest{tcp(low, 0)})
	if err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf("Bind for 0.0.0.0:%d failed: port is already allocated", low)) {
		t.Errorf("Publish of a stranger's port = %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		req  network.PortRequest
		want fault.Constructor
	}{
		{"sctp", network.PortRequest{Proto: "sctp", ContainerPort: 80}, fault.Unsupported},
		{"protocol", network.PortRequest{Proto: "icmp", ContainerPort: 80}, fault.Invalid},
		{"container port", network.PortRequest{Proto: "tcp"}, fault.Invalid},
		{"upside down", network.PortRequest{Proto: "tcp", ContainerPort: 80, HostLow: 9, HostHigh: 8}, fault.Invalid},
		{"host name", network.PortRequest{Proto: "tcp", ContainerPort: 80, HostIP: "localhost"}, fault.Invalid},
		{"zone", network.PortRequest{Proto: "tcp", ContainerPort: 80, HostIP: "fe80::1%eth0"}, fault.Invalid},
	} {
		// The socket does not exist: what is wrong is said without asking.
		if _, err := New(t.TempDir()+"/none", itself).Publish(t.Context(), target("a"), []network.PortRequest{tc.req}); !fault.Is(err, tc.want) {
			t.Errorf("%s: Publish = %v, want kind %v", tc.name, err, fault.KindOf(tc.want("")))
		}
	}
}

func TestExplainPrivilegedPort(t *testing.T) {
	proc := t.TempDir()
	if err := os.MkdirAll(filepath.Join(proc, "sys/net/ipv4"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(proc, "sys/net/ipv4/ip_unprivileged_port_start"), []byte("500\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := host{proc: proc}
	denied := errors.New("listen tcp4 0.0.0.0:80: bind: permission denied")
	any4 := netip.IPv4Unspecified()
	err := h.explainRefusal(denied, any4, 80)
	for _, want := range []string{"Bind for 0.0.0.0:80 failed", "net.ipv4.ip_unprivileged_port_start=80", "cap_net_bind_service", "from 500 on"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("explain says %q, want %q in it", err, want)
		}
	}
	if err := h.explainRefusal(denied, any4, 500); strings.Contains(err.Error(), "sysctl") || !errors.Is(err, denied) {
		t.Errorf("explain of a port that needs no right says %q, want the error as it is", err)
	}
}

func TestRestore(t *testing.T) {
	r := newRig(t)
	old := New(r.socket, itself)
	publish := func(owner string) []network.Port {
		ports, err := old.Publish(t.Context(), target(owner), []network.PortRequest{tcp(0, 0)})
		if err != nil {
			t.Fatal(err)
		}
		return ports
	}
	lives, dead, lost := publish("lives"), publish("dead"), publish("lost")
	before, err := r.outer.ListPorts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Unpublish(t.Context(), "lost"); err != nil { // in the record, but forwarded by nobody
		t.Fatal(err)
	}

	p := New(r.socket, itself) // a new engine
	if err := p.Restore(t.Context(), []Published{
		{Target: target("lives"), Ports: lives}, {Target: target("lost"), Ports: lost},
	}); err != nil {
		t.Fatal(err)
	}
	specs := r.open(t)
	if len(specs) != 4 || slices.ContainsFunc(specs, func(s port.Spec) bool { return s.ParentPort == int(dead[0].HostPort) }) {
		t.Errorf("open after Restore are %+v, want those of lives and lost", specs)
	}
	after, err := r.outer.ListPorts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept := slices.ContainsFunc(after, func(a port.Status) bool {
		return a.Spec.ParentPort == int(lives[0].HostPort) && slices.Contains(before, a)
	})
	if !kept {
		t.Error("the living container's port was closed and opened again")
	}
	for _, owner := range []string{"lives", "lost"} {
		if err := p.Unpublish(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	if specs := r.open(t); len(specs) != 0 {
		t.Errorf("open after all is unpublished: %+v", specs)
	}
}

func TestRestoreWithoutOuterDoesNotWait(t *testing.T) {
	begin := time.Now()
	if err := New(filepath.Join(t.TempDir(), "api.sock"), itself).Restore(t.Context(), []Published{{Target: target("a")}}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took >= socketWait {
		t.Errorf("Restore took %s without a socket", took)
	}
}

func TestPublishWaitsForTheSocket(t *testing.T) {
	dir := t.TempDir()
	ns := slirptest.Detached(t, dir)
	p := New(filepath.Join(dir, "api.sock"), itself)
	done := make(chan error, 1)
	go func() {
		_, err := p.Publish(t.Context(), target("a"), []network.PortRequest{tcp(0, 0)})
		done <- err
	}()
	select { // time to look several times; one that does not wait comes back with an error, now or below
	case err := <-done:
		t.Fatalf("Publish came back before there was a socket: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	slirptest.Outer(t, dir, ns)
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(t.TempDir()+"/none", itself).Publish(ctx, target("a"), []network.PortRequest{tcp(0, 0)}); !errors.Is(err, context.Canceled) {
		t.Errorf("Publish after a hang-up = %v, want context canceled", err)
	}
}

func TestUnpublishWhenOuterIsGone(t *testing.T) {
	p := New("", itself)
	t.Run("while it runs", func(t *testing.T) {
		r := newRig(t)
		*p = Publisher{socket: r.socket, anchor: itself, host: p.host, held: p.held}
		if _, err := p.Publish(t.Context(), target("a"), []network.PortRequest{tcp(0, 0)}); err != nil {
			t.Fatal(err)
		}
	})
	if err := p.Unpublish(t.Context(), "a"); err != nil {
		t.Errorf("Unpublish without an outer process: %v", err)
	}
}

// itself is an anchor that holds nothing.
func itself(_, path string) (string, error) { return path, nil }
