package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"moss/engine/fault"
	"moss/engine/network"
)

// fakeNetworks are the networks there are and whoever builds them, in memory.
type fakeNetworks struct {
	leave chan struct{}     // if not nil, Leave waits until it is closed; set before anybody leaves
	trace func(what string) // is told of every join and leave

	mu       sync.Mutex // guards the fields below
	joined   map[string]network.Sandbox
	requests map[string]network.Request // of the last Join, and what changed since
	known    []*network.Network
	address  string // of whoever joins the default network; empty: 172.17.0.2
	host     netip.Addr
	fail     error
	refuse   map[string]error // of connect and disconnect
	asked    []string         // whose networks Restore was asked for
	restored map[string]network.Joined
}

func newFakeNetworks() *fakeNetworks {
	f := &fakeNetworks{joined: map[string]network.Sandbox{}, requests: map[string]network.Request{}, refuse: map[string]error{}}
	for name, driver := range map[string]string{
		network.Bridge: network.DriverBridge, network.Host: network.DriverHost, network.None: network.DriverNull,
	} {
		f.known = append(f.known, &network.Network{ID: fmt.Sprintf("%064x", len(f.known)+1), Name: name, Driver: driver})
	}
	return f
}

// add makes a network of the subnet 10.N.0.0/16 and fd00:N::/64.
func (f *fakeNetworks) add(name string, n int) *network.Network {
	f.mu.Lock()
	defer f.mu.Unlock()
	made := &network.Network{
		ID: fmt.Sprintf("%02x%062x", n, n), Name: name, Driver: network.DriverBridge,
		IPAM: network.IPAM{Pools: []network.Pool{
			{Subnet: netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", n))}, {Subnet: netip.MustParsePrefix(fmt.Sprintf("fd00:%x::/64", n))},
		}},
	}
	f.known = append(f.known, made)
	return made
}

func (f *fakeNetworks) drop(n *network.Network) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known = slices.DeleteFunc(f.known, func(k *network.Network) bool { return k == n })
}

func (f *fakeNetworks) Find(ref string) (*network.Network, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, same := range []func(*network.Network) bool{
		func(n *network.Network) bool { return n.ID == ref }, func(n *network.Network) bool { return n.Name == ref },
		func(n *network.Network) bool { return ref != "" && strings.HasPrefix(n.ID, ref) },
	} {
		var found []*network.Network
		for _, n := range f.known {
			if same(n) {
				found = append(found, n)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return nil, fault.Conflict("network %s is ambiguous", ref)
		}
	}
	return nil, fault.NotFound("network %s not found", ref)
}

func (f *fakeNetworks) Join(_ context.Context, req network.Request) (network.Sandbox, error) {
	s, err := f.join(req)
	if err == nil {
		f.trace("network join")
	}
	return s, err
}

func (f *fakeNetworks) join(req network.Request) (network.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return network.Sandbox{}, f.fail
	}
	s := network.Sandbox{ID: "sandbox", Mode: req.Mode, Host: f.host}
	if req.Mode == network.Bridge {
		s.Path = "/run/netns/" + req.ContainerID
		s = f.placeLocked(s, req.Attach)
		if len(req.DNS) > 0 && s.DNS[0] != "127.0.0.11" {
			s.DNS = []string{req.DNS[0].String()}
		}
	}
	f.joined[req.ContainerID], f.requests[req.ContainerID] = s, req
	return s, nil
}

// placeLocked gives the endpoints of a container: eth0 is the first.
func (f *fakeNetworks) placeLocked(s network.Sandbox, all []network.Attachment) network.Sandbox {
	s.Endpoints, s.Primary, s.DNS, s.Options = map[string]network.Endpoint{}, "", []string{"172.17.0.1"}, nil
	for i, a := range all {
		ep := network.Endpoint{NetworkID: a.Network.ID, EndpointID: "ep-" + a.Name, Device: fmt.Sprintf("eth%d", i), MacAddress: a.MacAddress}
		if a.Network.Name == network.Bridge {
			ep.IPAddress, ep.IPPrefixLen = cmp.Or(f.address, "172.17.0.2"), 16
		} else {
			pool4, _ := a.Network.Pool(false)
			pool6, _ := a.Network.Pool(true)
			ep.IPAddress, ep.GlobalIPv6Address = pool4.Subnet.Addr().Next().Next().String(), pool6.Subnet.Addr().Next().Next().String()
			if a.IPv4.IsValid() {
				ep.IPAddress = a.IPv4.String()
			}
			s.DNS, s.Options = []string{"127.0.0.11"}, []string{"ndots:0"}
		}
		s.Endpoints[a.Name] = ep
		if s.Primary == "" && !a.Network.Internal {
			s.Primary = a.Name
		}
	}
	return s
}

func (f *fakeNetworks) Connect(_ context.Context, id string, a network.Attachment) (network.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refuse["connect"]; err != nil {
		return network.Sandbox{}, err
	}
	req, ok := f.requests[id]
	if _, twice := f.joined[id].Endpoints[a.Name]; !ok || twice {
		return network.Sandbox{}, fault.Conflict("connect of %s: %v", id, req)
	}
	req.Attach = append(slices.Clone(req.Attach), a)
	f.requests[id], f.joined[id] = req, f.placeLocked(f.joined[id], req.Attach)
	return f.joined[id], nil
}

func (f *fakeNetworks) Disconnect(_ context.Context, id, networkID string) (network.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refuse["disconnect"]; err != nil {
		return network.Sandbox{}, err
	}
	req := f.requests[id]
	req.Attach = slices.DeleteFunc(slices.Clone(req.Attach), func(a network.Attachment) bool { return a.Network.ID == networkID })
	f.requests[id], f.joined[id] = req, f.placeLocked(f.joined[id], req.Attach)
	return f.joined[id], nil
}

func (f *fakeNetworks) Rename(id string, all []network.Attachment) {
	f.mu.Lock()
	defer f.mu.Unlock()
	req := f.requests[id]
	req.Attach = all
	f.requests[id] = req
}

func (f *fakeNetworks) Leave(_ context.Context, id string) error {
	if f.leave != nil {
		<-f.leave
	}
	f.mu.Lock()
	delete(f.joined, id)
	delete(f.requests, id)
	f.mu.Unlock()
	f.trace("network leave")
	return nil
}

func (f *fakeNetworks) Restore(_ context.Context, live map[string]network.Joined) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restored = live
	f.joined, f.requests = map[string]network.Sandbox{}, map[string]network.Request{}
	for id, j := range live {
		f.joined[id], f.requests[id] = j.Sandbox, j.Request
	}
	f.asked = slices.Collect(maps.Keys(live))
	return f.fail
}
