package slirp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/slirp/slirptest"
)

func TestJoinBridge(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	if i := n.Info(); i.Driver != "slirp4netns" || i.MTU != 65520 || i.Subnet != "172.17.0.0/16" || i.Gateway != "172.17.0.1" {
		t.Errorf("Info() = %+v", i)
	}
	s := m.join(t, n, "c1", web(0))
	e := s.Endpoints[network.Bridge]
	want := network.Endpoint{
		NetworkID: n.Info().NetworkID, EndpointID: e.EndpointID, Device: "eth0", Gateway: "172.17.0.1", IPAddress: "172.17.0.2", IPPrefixLen: 16,
		MacAddress: "02:42:ac:11:00:02",
	}
	if e != want || len(e.NetworkID) != 64 || len(e.EndpointID) != 64 || len(s.ID) != 64 || s.Primary != network.Bridge {
		t.Errorf("Join = %+v with endpoint %+v, want %+v", s, e, want)
	}
	if s.Mode != network.Bridge || s.Path != filepath.Join(m.opts.RunDir, "netns", "c1") || !slices.Equal(s.DNS, []string{"172.17.0.1"}) || s.Host.String() != "10.0.2.2" {
		t.Errorf("Join = mode %s, path %s, name servers %v, host %s", s.Mode, s.Path, s.DNS, s.Host)
	}
	if !alive(t, s) {
		t.Error("the namespace is not what Join says")
	}
	if len(s.Ports) == 0 || !slices.Equal(m.openPorts(t), []int{int(s.Ports[0].HostPort)}) {
		t.Errorf("Join says ports %v, open are %v", s.Ports, m.openPorts(t))
	}
	if _, err := n.Join(t.Context(), m.request("c1")); !fault.Is(err, fault.Conflict) {
		t.Errorf("Join again = %v, want a Conflict fault", err)
	}
}

func TestJoinPublishedPortReachesTheContainer(t *testing.T) {
	m := newMachine(t)
	s := m.join(t, m.engine(t), "c1", web(0))
	l := listen(t, s.Path, ":80")
	go tellPeers(l)
	if peer, err := readFrom(net.JoinHostPort("127.0.0.1", strconv.Itoa(int(s.Ports[0].HostPort)))); err != nil || peer != "172.17.0.1" {
		t.Errorf("a client on the host's loopback is seen as %q, %v; want the gateway 172.17.0.1", peer, err)
	}
	if peer, err := readFrom(net.JoinHostPort(slirptest.OutsideAddr, strconv.Itoa(int(s.Ports[0].HostPort)))); err != nil || peer != slirptest.OutsideAddr {
		t.Errorf("a client on another address of the host is seen as %q, %v; want %s", peer, err, slirptest.OutsideAddr)
	}
}

func listen(t testing.TB, ns, addr string) net.Listener {
	t.Helper()
	var l net.Listener
	slirptest.In(t, ns, func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	})
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestJoinOwnMAC(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	req := m.request("c1")
	req.Attach[0].MacAddress = "92:D0:C6:0A:29:33"
	s := join(t, n, req)
	if got := s.Endpoints[network.Bridge].MacAddress; got != "92:d0:c6:0a:29:33" || !alive(t, s) {
		t.Errorf("MAC address is %s, alive %v; want the one asked for", got, alive(t, s))
	}
	for _, bad := range []string{"x", "92:d0:c6:0a:29", "01:00:5e:00:00:01", "92:d0:c6:0a:29:33:00:00"} {
		req := m.request("c2")
		req.Attach[0].MacAddress = bad
		if _, err := n.Join(t.Context(), req); !fault.Is(err, fault.Invalid) {
			t.Errorf("Join with MAC address %q = %v, want an Invalid fault", bad, err)
		}
	}
}

func TestJoinWithoutNamespace(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	for _, mode := range []string{network.None, network.Host} {
		s, err := n.Join(t.Context(), network.Request{ContainerID: "c-" + mode, Mode: mode, Ports: []network.PortRequest{web(0)}})
		must(t, err)
		e, ok := s.Endpoints[mode]
		if s.Mode != mode || s.Path != "" || len(s.Ports) != 0 || !ok || e.IPAddress != "" || e.NetworkID != network.FixedID(mode) {
			t.Errorf("Join(%s) = %+v", mode, s)
		}
		if _, err := n.Connect(t.Context(), "c-"+mode, m.request("x").Attach[0]); !fault.Is(err, fault.Forbidden) {
			t.Errorf("Connect of a container with mode %s = %v, want a Forbidden fault", mode, err)
		}
		must(t, n.Leave(t.Context(), "c-"+mode))
	}
	if l := n.lans.findDefault(); l.isUp() {
		t.Error("the bridge was set up for nothing")
	}
	if _, err := n.Join(t.Context(), network.Request{ContainerID: "x", Mode: "overlay"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("Join(overlay) = %v, want an Invalid fault", err)
	}
	bare := join(t, n, network.Request{ContainerID: "bare", Mode: network.Bridge}) // in no network
	if bare.Path == "" || bare.Primary != "" || len(bare.DNS) != 0 || !alive(t, bare) {
		t.Errorf("Join without networks = %+v, want a namespace with lo only", bare)
	}
}

func TestJoinUndoesAHalf(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	m.add(t, n, network.Network{Name: "web"})
	first := m.join(t, n, "c1", web(0))
	taken := first.Ports[0].HostPort
	req := m.request("c2", network.Bridge, "web")
	req.Ports = []network.PortRequest{web(0), web(taken)}
	_, err := n.Join(t.Context(), req)
	if want := fmt.Sprintf("Bind for 0.0.0.0:%d failed: port is already allocated", taken); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("Join = %v, want %q at its end", err, want)
	}
	late := m.request("c2", network.Bridge, "web")
	late.Attach[1].IPv4 = netip.MustParseAddr("192.0.2.1")
	if _, err := n.Join(t.Context(), late); !fault.Is(err, fault.Invalid) {
		t.Errorf("Join with an address from elsewhere = %v, want an Invalid fault", err)
	}
	if got := m.files(t); !slices.Equal(got, []string{"c1"}) {
		t.Errorf("namespaces: %v, want the first container's only", got)
	}
	if got := m.openPorts(t); !slices.Equal(got, []int{int(taken)}) {
		t.Errorf("open ports: %v, want the first container's only", got)
	}
	if held(n) != 1 {
		t.Errorf("%d addresses held, want 1", held(n))
	}
	m.join(t, n, "c2")
}

func TestLeaveAndJoinManyAtOnce(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	m.add(t, n, network.Network{Name: "web", EnableIPv6: true})
	const count = 50
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seen = map[string]bool{}
	)
	for round := range 2 {
		for i := range count {
			wg.Go(func() {
				id := fmt.Sprint("c", i)
				req := m.request(id)
				if i%2 == 1 {
					req = m.request(id, "web", network.Bridge)
				}
				req.Ports = []network.PortRequest{web(0)}
				s, err := n.Join(t.Context(), req)
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range s.Endpoints {
					mu.Lock()
					if seen[e.IPAddress] || e.GlobalIPv6Address != "" && seen[e.GlobalIPv6Address] {
						t.Errorf("round %d: address %s or %s again", round, e.IPAddress, e.GlobalIPv6Address)
					}
					seen[e.IPAddress], seen[e.GlobalIPv6Address] = true, true
					mu.Unlock()
				}
				if !alive(t, s) {
					t.Errorf("round %d: %s is not what Join says", round, id)
				}
				if err := n.Leave(t.Context(), id); err != nil {
					t.Error(err)
				}
				if err := n.Leave(t.Context(), id); err != nil {
					t.Errorf("Leave again: %v", err)
				}
			})
		}
		wg.Wait()
	}
	if files, ports, held, mounts := m.files(t), m.openPorts(t), held(n), m.mounts(t); len(files)+len(ports)+held+mounts != 0 {
		t.Errorf("left: namespaces %v, ports %v, %d addresses, %d mounts", files, ports, held, mounts)
	}
}

func TestCloseRemovesEverything(t *testing.T) {
	m := newMachine(t)
	n := m.start(t)
	m.add(t, n, network.Network{Name: "web"})
	m.join(t, n, "c1", web(0))
	join(t, n, m.request("c2", "web"))
	must(t, n.Close(t.Context()))
	entries, err := os.ReadDir(m.opts.RunDir)
	must(t, err)
	if len(entries) != 0 || m.mounts(t) != 0 || len(m.openPorts(t)) != 0 {
		t.Errorf("after Close: %v, %d mounts, ports %v", entries, m.mounts(t), m.openPorts(t))
	}
	unused, err := New(t.Context(), m.opts)
	must(t, err)
	must(t, unused.Close(t.Context()))
}

func TestNewRefusesRelativePaths(t *testing.T) {
	if _, err := New(t.Context(), Options{StateDir: "/s", RunDir: "run"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("New = %v, want an Invalid fault", err)
	}
}

func BenchmarkJoinLeave(b *testing.B) {
	for _, tc := range []struct {
		name     string
		networks []string
		ports    []network.PortRequest
	}{
		{"default", []string{network.Bridge}, nil},
		{"port", []string{network.Bridge}, []network.PortRequest{web(0)}},
		{"own", []string{"web"}, nil},
		{"two", []string{"web", network.Bridge}, nil},
	} {
		b.Run(tc.name, func(b *testing.B) {
			m := newMachine(b)
			n := m.engine(b)
			m.add(b, n, network.Network{Name: "web"})
			must(b, n.Warm(b.Context()))
			for b.Loop() {
				req := m.request("c1", tc.networks...)
				req.Ports = tc.ports
				join(b, n, req)
				must(b, n.Leave(b.Context(), "c1"))
			}
		})
	}
}
