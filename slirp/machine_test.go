package slirp

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rootless-containers/rootlesskit/v3/pkg/port"
	"github.com/vishvananda/netns"

	"moss/engine/network"
	"moss/slirp/bridge"
	"moss/slirp/slirptest"
)

// machine is a boot with an outer process; engines over it come and go. What they have recorded of networks is here.
type machine struct {
	opts     Options
	outer    port.Manager
	networks map[string]*network.Network // by name
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	dir := t.TempDir()
	state := filepath.Join(dir, "rootlesskit")
	must(t, os.Mkdir(state, 0o700))
	ns := slirptest.Detached(t, state)
	return &machine{
		opts:     Options{StateDir: state, RunDir: filepath.Join(dir, "run")},
		outer:    slirptest.Outer(t, state, ns),
		networks: map[string]*network.Network{network.Bridge: {ID: bridge.NewID(), Name: network.Bridge, Driver: network.DriverBridge}},
	}
}

// engine starts one; unless the test closes it, it ends when the test does.
func (m *machine) engine(t testing.TB) *Network {
	t.Helper()
	n := m.start(t)
	t.Cleanup(func() { must(t, n.Close(t.Context())) })
	return n
}

// crash ends an engine as a kill does: the kernel closes its sockets, and everything else stays.
func (n *Network) crash(t testing.TB) {
	t.Helper()
	must(t, n.names.close())
	must(t, n.fabric.Close())
	n.ports.publisher.Close()
}

func (m *machine) start(t testing.TB) *Network {
	t.Helper()
	n, err := New(t.Context(), m.opts)
	must(t, err)
	m.adopt(t, n)
	return n
}

func (m *machine) adopt(t testing.TB, n *Network) {
	t.Helper()
	changed, err := n.Adopt(t.Context(), slices.Collect(maps.Values(m.networks)))
	must(t, err)
	for _, nw := range changed {
		m.networks[nw.Name] = nw
	}
}

// add makes a network and records it.
func (m *machine) add(t testing.TB, n *Network, nw network.Network) *network.Network {
	t.Helper()
	nw.ID, nw.Driver = bridge.NewID(), network.DriverBridge
	made, err := n.AddNetwork(t.Context(), &nw)
	if err != nil {
		t.Fatalf("AddNetwork(%s): %v", nw.Name, err)
	}
	m.networks[nw.Name] = made
	return made
}

// request is for a container in networks by their names, the default one if there are none.
func (m *machine) request(id string, networks ...string) network.Request {
	if len(networks) == 0 {
		networks = []string{network.Bridge}
	}
	req := network.Request{ContainerID: id, Mode: network.Bridge}
	for _, name := range networks {
		a := network.Attachment{Network: m.networks[name], Name: name}
		if name != network.Bridge {
			a.Names = []string{id}
		}
		req.Attach = append(req.Attach, a)
	}
	return req
}

func (m *machine) join(t testing.TB, n *Network, id string, ports ...network.PortRequest) network.Sandbox {
	t.Helper()
	req := m.request(id)
	req.Ports = ports
	return join(t, n, req)
}

func join(t testing.TB, n *Network, req network.Request) network.Sandbox {
	t.Helper()
	s, err := n.Join(t.Context(), req)
	if err != nil {
		t.Fatalf("Join(%s): %v", req.ContainerID, err)
	}
	return s
}

func web(low uint16) network.PortRequest {
	return network.PortRequest{Proto: "tcp", ContainerPort: 80, HostLow: low}
}

// openPorts lists the ports of the host that are open, in IPv4 or IPv6 or both.
func (m *machine) openPorts(t testing.TB) []int {
	t.Helper()
	list, err := m.outer.ListPorts(t.Context())
	must(t, err)
	open := make([]int, 0, len(list))
	for _, st := range list {
		open = append(open, st.Spec.ParentPort)
	}
	slices.Sort(open)
	return slices.Compact(open)
}

func (m *machine) files(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(m.opts.RunDir, "netns"))
	must(t, err)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (m *machine) mounts(t testing.TB) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	return strings.Count(string(data), m.opts.RunDir)
}

// held is how many addresses are given in all networks.
func held(n *Network) int {
	sum := 0
	for _, l := range n.lans.listLANs() {
		sum += l.v4.Len()
		if l.v6 != nil {
			sum += l.v6.Len()
		}
	}
	return sum
}

// alive reports whether the sandbox's namespace can be entered and has the endpoints that the sandbox says, and no more.
func alive(t testing.TB, s network.Sandbox) bool {
	t.Helper()
	ok := true
	slirptest.In(t, s.Path, func() error {
		all, err := net.Interfaces()
		if err != nil || len(all) != 1+len(s.Endpoints) {
			ok = false
		}
		for name, e := range s.Endpoints {
			eth, err := net.InterfaceByName(e.Device)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			addrs, err := eth.Addrs()
			if err != nil {
				return err
			}
			has := func(ip string, bits int) bool {
				return slices.ContainsFunc(addrs, func(a net.Addr) bool { return a.String() == fmt.Sprint(ip, "/", bits) })
			}
			ok = ok && has(e.IPAddress, e.IPPrefixLen) && eth.HardwareAddr.String() == e.MacAddress &&
				(e.GlobalIPv6Address == "" || has(e.GlobalIPv6Address, e.GlobalIPv6PrefixLen))
		}
		return nil
	})
	return ok
}

func nsID(t testing.TB, path string) string {
	t.Helper()
	h, err := netns.GetFromPath(path)
	must(t, err)
	defer func() { _ = h.Close() }()
	return h.UniqueId()
}
