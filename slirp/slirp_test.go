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

	"github.com/rootless-containers/rootlesskit/v3/pkg/port"
	"github.com/vishvananda/netns"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/slirp/slirptest"
)

// machine is a boot with an outer process; engines over it come and go.
type machine struct {
	opts  Options
	outer port.Manager
}

func newMachine(t testing.TB) machine {
	t.Helper()
	dir := t.TempDir()
	state := filepath.Join(dir, "rootlesskit")
	must(t, os.Mkdir(state, 0o700))
	ns := slirptest.Detached(t, state)
	return machine{
		opts:  Options{StateDir: state, RunDir: filepath.Join(dir, "run"), DataDir: filepath.Join(dir, "data")},
		outer: slirptest.Outer(t, state, ns),
	}
}

// engine starts one; unless the test closes it, it ends like a killed one.
func (m machine) engine(t testing.TB) *Network {
	t.Helper()
	n, err := New(m.opts)
	must(t, err)
	t.Cleanup(func() { must(t, n.Close(t.Context())) })
	return n
}

func join(t testing.TB, n *Network, id string, ports ...network.PortRequest) network.Sandbox {
	t.Helper()
	s, err := n.Join(t.Context(), network.Request{ContainerID: id, Mode: network.Bridge, Ports: ports})
	if err != nil {
		t.Fatalf("Join(%s): %v", id, err)
	}
	return s
}

func web(low uint16) network.PortRequest {
	return network.PortRequest{Proto: "tcp", ContainerPort: 80, HostLow: low}
}

func (m machine) openPorts(t testing.TB) []int {
	t.Helper()
	list, err := m.outer.ListPorts(t.Context())
	must(t, err)
	open := make([]int, 0, len(list))
	for _, st := range list {
		open = append(open, st.Spec.ParentPort)
	}
	return open
}

func (m machine) files(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(m.opts.RunDir, "netns"))
	must(t, err)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (m machine) mounts(t testing.TB) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	return strings.Count(string(data), m.opts.RunDir)
}

// alive reports whether the sandbox's namespace can be entered and has the sandbox's address.
func alive(t testing.TB, s network.Sandbox) bool {
	t.Helper()
	ok := false
	slirptest.In(t, s.Path, func() error {
		eth, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		addrs, err := eth.Addrs()
		e := s.Endpoints[network.Bridge]
		ok = err == nil && len(addrs) == 1 && addrs[0].String() == fmt.Sprint(e.IPAddress, "/", e.IPPrefixLen) && eth.HardwareAddr.String() == e.MacAddress
		return err
	})
	return ok
}

func TestJoinBridge(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	if i := n.Info(); i.Driver != "slirp4netns" || i.MTU != 65520 || i.Subnet != "" {
		t.Errorf("Info() before anything = %+v", i)
	}
	s := join(t, n, "c1", web(0))
	e := s.Endpoints[network.Bridge]
	want := network.Endpoint{
		NetworkID: n.Info().NetworkID, EndpointID: e.EndpointID, Gateway: "172.17.0.1", IPAddress: "172.17.0.2", IPPrefixLen: 16,
		MacAddress: "02:42:ac:11:00:02",
	}
	if e != want || len(e.NetworkID) != 64 || len(e.EndpointID) != 64 || len(s.ID) != 64 {
		t.Errorf("Join = %+v with endpoint %+v, want %+v", s, e, want)
	}
	if s.Mode != network.Bridge || s.Path != filepath.Join(m.opts.RunDir, "netns", "c1") || !slices.Equal(s.DNS, []string{"10.0.2.3"}) {
		t.Errorf("Join = mode %s, path %s, name servers %v", s.Mode, s.Path, s.DNS)
	}
	if !alive(t, s) {
		t.Error("the namespace is not what Join says")
	}
	if len(s.Ports) != 1 || !slices.Equal(m.openPorts(t), []int{int(s.Ports[0].HostPort)}) {
		t.Errorf("Join says ports %v, open are %v", s.Ports, m.openPorts(t))
	}
	if i := n.Info(); i.Subnet != "172.17.0.0/16" || i.Gateway != "172.17.0.1" {
		t.Errorf("Info() = %+v", i)
	}
	if _, err := n.Join(t.Context(), network.Request{ContainerID: "c1", Mode: network.Bridge}); !fault.Is(err, fault.Conflict) {
		t.Errorf("Join again = %v, want a Conflict fault", err)
	}
}

func TestJoinPublishedPortReachesTheContainer(t *testing.T) {
	m := newMachine(t)
	s := join(t, m.engine(t), "c1", web(0))
	var l net.Listener
	slirptest.In(t, s.Path, func() (err error) {
		l, err = net.Listen("tcp4", ":80")
		return err
	})
	defer func() { _ = l.Close() }()
	go tellPeers(l)
	if peer, err := readFrom(net.JoinHostPort("127.0.0.1", strconv.Itoa(int(s.Ports[0].HostPort)))); err != nil || peer != "172.17.0.1" {
		t.Errorf("a client on the host's loopback is seen as %q, %v; want the gateway 172.17.0.1", peer, err)
	}
}

func TestJoinOwnMAC(t *testing.T) {
	n := newMachine(t).engine(t)
	s, err := n.Join(t.Context(), network.Request{ContainerID: "c1", Mode: network.Bridge, MacAddress: "92:D0:C6:0A:29:33"})
	must(t, err)
	if got := s.Endpoints[network.Bridge].MacAddress; got != "92:d0:c6:0a:29:33" || !alive(t, s) {
		t.Errorf("MAC address is %s, alive %v; want the one asked for", got, alive(t, s))
	}
	for _, bad := range []string{"x", "92:d0:c6:0a:29", "01:00:5e:00:00:01", "92:d0:c6:0a:29:33:00:00"} {
		if _, err := n.Join(t.Context(), network.Request{ContainerID: "c2", Mode: network.Bridge, MacAddress: bad}); !fault.Is(err, fault.Invalid) {
			t.Errorf("Join with MAC address %q = %v, want an Invalid fault", bad, err)
		}
	}
}

func TestJoinWithoutNamespace(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	ids := map[string]bool{}
	for _, mode := range []string{network.None, network.Host} {
		s, err := n.Join(t.Context(), network.Request{ContainerID: "c-" + mode, Mode: mode, Ports: []network.PortRequest{web(0)}})
		must(t, err)
		e, ok := s.Endpoints[mode]
		if s.Mode != mode || s.Path != "" || len(s.Ports) != 0 || !ok || e.IPAddress != "" || len(e.NetworkID) != 64 {
			t.Errorf("Join(%s) = %+v", mode, s)
		}
		ids[e.NetworkID] = true
		must(t, n.Leave(t.Context(), "c-"+mode))
	}
	if len(ids) != 2 {
		t.Error("the networks none and host have the same id")
	}
	if i := n.Info(); i.Subnet != "" {
		t.Errorf("the bridge was set up for nothing: %+v", i)
	}
	if _, err := n.Join(t.Context(), network.Request{ContainerID: "x", Mode: "overlay"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("Join(overlay) = %v, want an Invalid fault", err)
	}
}

func TestJoinUndoesAHalf(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
	first := join(t, n, "c1", web(0))
	taken := first.Ports[0].HostPort
	_, err := n.Join(t.Context(), network.Request{ContainerID: "c2", Mode: network.Bridge, Ports: []network.PortRequest{web(0), web(taken)}})
	if want := fmt.Sprintf("Bind for 0.0.0.0:%d failed: port is already allocated", taken); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("Join = %v, want %q at its end", err, want)
	}
	if got := m.files(t); !slices.Equal(got, []string{"c1"}) {
		t.Errorf("namespaces: %v, want the first container's only", got)
	}
	if got := m.openPorts(t); !slices.Equal(got, []int{int(taken)}) {
		t.Errorf("open ports: %v, want the first container's only", got)
	}
	if n.pool.Len() != 1 {
		t.Errorf("%d addresses held, want 1", n.pool.Len())
	}
	join(t, n, "c2")
}

func TestLeaveAndJoinManyAtOnce(t *testing.T) {
	m := newMachine(t)
	n := m.engine(t)
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
				s, err := n.Join(t.Context(), network.Request{ContainerID: id, Mode: network.Bridge, Ports: []network.PortRequest{web(0)}})
				if err != nil {
					t.Error(err)
					return
				}
				ip := s.Endpoints[network.Bridge].IPAddress
				mu.Lock()
				if seen[ip] {
					t.Errorf("round %d: address %s again", round, ip)
				}
				seen[ip] = true
				mu.Unlock()
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
	if files, ports, held, mounts := m.files(t), m.openPorts(t), n.pool.Len(), m.mounts(t); len(files)+len(ports)+held+mounts != 0 {
		t.Errorf("left: namespaces %v, ports %v, %d addresses, %d mounts", files, ports, held, mounts)
	}
}

func TestRestoreAfterACrash(t *testing.T) {
	m := newMachine(t)
	old, err := New(m.opts) // and never closed: killed
	must(t, err)
	t.Cleanup(func() { must(t, old.bridge.Close()) })
	dead := join(t, old, "dead", web(0))
	lives := join(t, old, "lives", web(0))
	quiet := join(t, old, "quiet")
	hosts, err := old.Join(t.Context(), network.Request{ContainerID: "hosts", Mode: network.Host})
	must(t, err)
	inode := nsID(t, lives.Path)
	// Killed in the middle of a Join: bound, in no record.
	join(t, old, "half")

	n := m.engine(t)
	must(t, n.Restore(t.Context(), map[string]network.Sandbox{"lives": lives, "quiet": quiet, "hosts": hosts}))
	if got := m.files(t); !slices.Equal(got, []string{"lives", "quiet"}) {
		t.Errorf("namespaces after Restore: %v, want lives and quiet", got)
	}
	if got := m.openPorts(t); !slices.Equal(got, []int{int(lives.Ports[0].HostPort)}) {
		t.Errorf("open ports after Restore: %v, want %d; %d is a dead container's", got, lives.Ports[0].HostPort, dead.Ports[0].HostPort)
	}
	if nsID(t, lives.Path) != inode || !alive(t, lives) || !alive(t, quiet) {
		t.Error("a living container's network changed")
	}
	if _, err := n.Join(t.Context(), network.Request{ContainerID: "lives", Mode: network.Bridge}); !fault.Is(err, fault.Conflict) {
		t.Errorf("Join of a restored container = %v, want a Conflict fault", err)
	}
	s := join(t, n, "new")
	ip := s.Endpoints[network.Bridge].IPAddress
	if used := []string{dead.Endpoints[network.Bridge].IPAddress, "172.17.0.3", "172.17.0.4", "172.17.0.5"}; slices.Contains(used, ip) {
		t.Errorf("the first new container has %s, which was in use a moment ago", ip)
	}
	if n.pool.Len() != 3 {
		t.Errorf("%d addresses held, want those of lives, quiet and new", n.pool.Len())
	}
	if got := n.Info().NetworkID; got != lives.Endpoints[network.Bridge].NetworkID {
		t.Error("the network has another id after the crash")
	}
	for _, id := range []string{"lives", "quiet", "hosts", "new"} {
		must(t, n.Leave(t.Context(), id))
	}
	if files, ports, held := m.files(t), m.openPorts(t), n.pool.Len(); len(files)+len(ports)+held != 0 {
		t.Errorf("left: namespaces %v, ports %v, %d addresses", files, ports, held)
	}
}

func TestCloseRemovesEverything(t *testing.T) {
	m := newMachine(t)
	n, err := New(m.opts)
	must(t, err)
	join(t, n, "c1", web(0))
	join(t, n, "c2")
	must(t, n.Close(t.Context()))
	entries, err := os.ReadDir(m.opts.RunDir)
	must(t, err)
	if len(entries) != 0 || m.mounts(t) != 0 || len(m.openPorts(t)) != 0 {
		t.Errorf("after Close: %v, %d mounts, ports %v", entries, m.mounts(t), m.openPorts(t))
	}
	if _, err := os.Stat(filepath.Join(m.opts.DataDir, "networks", "bridge.json")); err != nil {
		t.Errorf("what outlives the boot: %v", err)
	}
	unused, err := New(m.opts)
	must(t, err)
	must(t, unused.Close(t.Context()))
}

func TestNewRefusesRelativePaths(t *testing.T) {
	if _, err := New(Options{StateDir: "/s", RunDir: "run", DataDir: "/d"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("New = %v, want an Invalid fault", err)
	}
}

func TestParseResolvConf(t *testing.T) {
	for _, tc := range []struct {
		name, text              string
		servers, search, option []string
	}{
		{"RootlessKit's", "nameserver 10.0.2.3\n", []string{"10.0.2.3"}, nil, nil},
		{"all", "# x\nsearch a b\n; y\nnameserver 1.1.1.1\nnameserver fd00::3\noptions ndots:2 rotate\n", []string{"1.1.1.1", "fd00::3"}, []string{"a", "b"}, []string{"ndots:2", "rotate"}},
		{"the last list wins", "search a\ndomain b\n", nil, []string{"b"}, nil},
		{"no more than three", strings.Repeat("nameserver 1.1.1.1\n", 5), []string{"1.1.1.1", "1.1.1.1", "1.1.1.1"}, nil, nil},
		{"malformed", "nameserver\nnameserver, x\nserver 1.1.1.1\n\n", nil, nil, nil},
		{"empty", "", nil, nil, nil},
	} {
		got := parseResolvConf(tc.text)
		if !slices.Equal(got.servers, tc.servers) || !slices.Equal(got.search, tc.search) || !slices.Equal(got.options, tc.option) {
			t.Errorf("%s: parseResolvConf = %+v, want %v %v %v", tc.name, got, tc.servers, tc.search, tc.option)
		}
	}
}

func FuzzParseResolvConf(f *testing.F) {
	f.Add("nameserver 10.0.2.3\nsearch a b\noptions ndots:2\n")
	f.Add("nameserver fe80::1%eth0 # x\r\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		r := parseResolvConf(text)
		if len(r.servers) > maxServers {
			t.Errorf("%d servers", len(r.servers))
		}
		for _, s := range r.servers {
			if _, err := netip.ParseAddr(s); err != nil {
				t.Errorf("server %q", s)
			}
		}
		for _, s := range append(r.search, r.options...) {
			if s == "" || strings.ContainsAny(s, " \n\t") {
				t.Errorf("field %q", s)
			}
		}
	})
}

func BenchmarkJoinLeave(b *testing.B) {
	for _, tc := range []struct {
		name  string
		ports []network.PortRequest
	}{{"plain", nil}, {"port", []network.PortRequest{web(0)}}} {
		b.Run(tc.name, func(b *testing.B) {
			n := newMachine(b).engine(b)
			must(b, n.Warm(b.Context()))
			for b.Loop() {
				join(b, n, "c1", tc.ports...)
				must(b, n.Leave(b.Context(), "c1"))
			}
		})
	}
}

func nsID(t testing.TB, path string) string {
	t.Helper()
	h, err := netns.GetFromPath(path)
	must(t, err)
	defer func() { _ = h.Close() }()
	return h.UniqueId()
}
