package slirp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/slirp/slirptest"
)

// talkTo looks that the client reaches the server, which sees it by the address it has in the network they share.
func talkTo(t testing.TB, server, client network.Sandbox) {
	t.Helper()
	for name, e := range server.Endpoints {
		c, shared := client.Endpoints[name]
		if !shared {
			continue
		}
		l := listen(t, server.Path, net.JoinHostPort(e.IPAddress, "0"))
		go tellPeers(l)
		slirptest.In(t, client.Path, func() error {
			peer, err := readFrom(l.Addr().String())
			if err == nil && peer != c.IPAddress {
				err = fmt.Errorf("%s sees the client as %s, want %s", e.IPAddress, peer, c.IPAddress)
			}
			return err
		})
		_ = l.Close()
	}
}

// apart looks that the client does not reach the server by any of its addresses.
func apart(t testing.TB, server, client network.Sandbox) {
	t.Helper()
	for name, e := range server.Endpoints {
		l := listen(t, server.Path, net.JoinHostPort(e.IPAddress, "0"))
		slirptest.In(t, client.Path, func() error {
			conn, err := net.DialTimeout("tcp", l.Addr().String(), 300*time.Millisecond)
			if err != nil {
				return nil //nolint:nilerr // the point
			}
			return errors.Join(conn.Close(), fmt.Errorf("%s in network %s can be reached", e.IPAddress, name))
		})
		_ = l.Close()
	}
}

func defaultRoute(t testing.TB, s network.Sandbox) string {
	t.Helper()
	out, err := exec.Command("nsenter", "--net="+s.Path, "ip", "route", "show", "default").CombinedOutput()
	if err != nil {
		t.Fatalf("ip route: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestNetworksAreApart(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	m.add(t, n, network.Network{Name: "a"})
	m.add(t, n, network.Network{Name: "b"})
	m.add(t, n, network.Network{Name: "alone", Options: map[string]string{network.OptionICC: "false"}})
	a1, a2 := join(t, n, m.request("a1", "a")), join(t, n, m.request("a2", "a"))
	b1, both := join(t, n, m.request("b1", "b")), join(t, n, m.request("both", "a", "b"))
	d1 := m.join(t, n, "d1")
	x1, x2 := join(t, n, m.request("x1", "alone")), join(t, n, m.request("x2", "alone"))
	talkTo(t, a1, a2)
	talkTo(t, a1, both)
	talkTo(t, b1, both)
	for _, pair := range [][2]network.Sandbox{{a1, b1}, {b1, a1}, {d1, a1}, {a1, d1}, {x1, x2}} {
		apart(t, pair[0], pair[1])
	}
	if got := both.Endpoints; got["a"].Device != "eth0" || got["b"].Device != "eth1" || both.Primary != "a" {
		t.Errorf("a container in two networks has %+v, primary %s", got, both.Primary)
	}
	if got, want := defaultRoute(t, both), "default via "+both.Endpoints["a"].Gateway+" dev eth0"; got != want {
		t.Errorf("its default route is %q, want %q", got, want)
	}
	if !slices.Equal(a1.DNS, []string{"127.0.0.11"}) || !slices.Contains(a1.Options, "ndots:0") {
		t.Errorf("name servers %v, options %v in a network of its own; want 127.0.0.11 and ndots:0", a1.DNS, a1.Options)
	}
}

func TestConnectAndDisconnect(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	m.add(t, n, network.Network{Name: "a"})
	m.add(t, n, network.Network{Name: "b", EnableIPv6: true})
	m.add(t, n, network.Network{Name: "in", Internal: true})
	peer := join(t, n, m.request("peer", "b"))
	req := m.request("c", "in")
	req.Ports = []network.PortRequest{web(0)}
	s := join(t, n, req)
	if s.Primary != "" || len(s.Ports) != 0 || defaultRoute(t, s) != "" || s.Endpoints["in"].Gateway != "" || s.Host.IsValid() {
		t.Errorf("in an internal network only: %+v, default route %q; want no way out", s, defaultRoute(t, s))
	}

	b := m.request("c", "b").Attach[0]
	s, err := n.Connect(t.Context(), "c", b)
	must(t, err)
	if s.Primary != "b" || s.Endpoints["b"].Device != "eth1" || len(m.openPorts(t)) != 1 || !alive(t, s) || !s.Host.IsValid() {
		t.Errorf("Connect to b = %+v, want eth1 there, the port, and a way out", s)
	}
	talkTo(t, peer, s)
	go tellPeers(listen(t, s.Path, ":80"))
	if _, err := readFrom(fmt.Sprint("127.0.0.1:", s.Ports[0].HostPort)); err != nil {
		t.Errorf("the port that opened with the second network: %v", err)
	}
	if _, err := n.Connect(t.Context(), "c", b); !fault.Is(err, fault.Forbidden) {
		t.Errorf("Connect again = %v, want a Forbidden fault", err)
	}

	s, err = n.Connect(t.Context(), "c", m.request("c", "a").Attach[0])
	must(t, err)
	if s.Primary != "b" || s.Endpoints["a"].Device != "eth2" {
		t.Errorf("Connect to a = %+v, want eth2 there and b still the way out", s)
	}
	hostPort := s.Ports[0].HostPort

	s, err = n.Disconnect(t.Context(), "c", m.networks["b"].ID)
	must(t, err)
	if s.Primary != "a" || len(s.Endpoints) != 2 || !alive(t, s) || len(m.openPorts(t)) != 1 || s.Ports[0].HostPort != hostPort {
		t.Errorf("Disconnect from b = %+v, want a as the way out with the same port %d", s, hostPort)
	}
	if got, want := defaultRoute(t, s), "default via "+s.Endpoints["a"].Gateway+" dev eth2"; got != want {
		t.Errorf("default route %q, want %q", got, want)
	}
	if _, err := readFrom(fmt.Sprint("127.0.0.1:", hostPort)); err != nil {
		t.Errorf("the port after the primary network went: %v", err)
	}
	apart(t, peer, s)
	if _, err := n.Disconnect(t.Context(), "c", m.networks["b"].ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Disconnect again = %v, want a NotFound fault", err)
	}

	for _, name := range []string{"a", "in"} {
		s, err = n.Disconnect(t.Context(), "c", m.networks[name].ID)
		must(t, err)
	}
	if s.Primary != "" || len(s.Endpoints) != 0 || len(m.openPorts(t)) != 0 || !alive(t, s) {
		t.Errorf("in no network: %+v, open ports %v", s, m.openPorts(t))
	}
	if held(n) != 2 { // the peer's
		t.Errorf("%d addresses held, want the peer's", held(n))
	}
	s, err = n.Connect(t.Context(), "c", m.request("c").Attach[0])
	must(t, err)
	if s.Endpoints[network.Bridge].Device != "eth0" || s.Primary != network.Bridge || len(m.openPorts(t)) != 1 || !alive(t, s) {
		t.Errorf("Connect to bridge = %+v, want eth0 and the port", s)
	}
}

func TestConnectLeavesNothingAfterAnError(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	m.add(t, n, network.Network{Name: "a", Options: map[string]string{network.OptionPrefix: "lo"}}) // lo0 is free, but
	m.add(t, n, network.Network{Name: "b"})
	s := m.join(t, n, "c", web(0))
	wrong := m.request("c", "b").Attach[0]
	wrong.IPv4 = netip.MustParseAddr("192.0.2.9")
	if _, err := n.Connect(t.Context(), "c", wrong); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "no configured subnet or ip-range contain the IP address 192.0.2.9") {
		t.Errorf("Connect with an address from elsewhere = %v", err)
	}
	peer := join(t, n, m.request("peer", "b"))
	wrong.IPv4 = netip.MustParseAddr(peer.Endpoints["b"].IPAddress)
	if _, err := n.Connect(t.Context(), "c", wrong); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("Connect with a taken address = %v", err)
	}
	if _, err := n.Connect(t.Context(), "c", network.Attachment{Name: "x", Network: &network.Network{ID: "x", Name: "x"}}); !fault.Is(err, fault.NotFound) {
		t.Errorf("Connect to an unknown network = %v, want a NotFound fault", err)
	}
	if !alive(t, s) || held(n) != 2 || len(m.openPorts(t)) != 1 {
		t.Errorf("after failures: alive %v, %d addresses, ports %v", alive(t, s), held(n), m.openPorts(t))
	}
	must(t, n.RemoveNetwork(t.Context(), m.networks["a"].ID))
}
