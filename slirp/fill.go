package slirp

import (
	"context"
	"net/netip"
	"slices"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/slirp/bridge"
	"moss/slirp/ipam"
)

// fillNetwork returns the network with pools and device, or says what is wrong with what it asks for.
func (n *Network) fillNetwork(ctx context.Context, nw *network.Network) (*network.Network, error) {
	set, err := parseSettings(nw.Options)
	if err != nil {
		return nil, err
	}
	filled := *nw
	if filled.Device, err = n.freeDevice(ctx, nw.ID, set.device); err != nil {
		return nil, err
	}
	filled.IPAM.Pools, err = n.fillPools(nw)
	if err != nil {
		return nil, err
	}
	return &filled, nil
}

// freeDevice returns the name of the bridge: the one asked for, or one made of the network's id.
func (n *Network) freeDevice(ctx context.Context, id, asked string) (string, error) {
	name := asked
	if name == "" {
		name = "br-" + id[:min(12, len(id))]
	}
	taken, err := n.fabric.Taken(ctx, name)
	if err != nil {
		return "", err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.lans { // a network whose device does not stand yet
		taken = taken || l.record.Device == name
	}
	if taken || name == defaultDevice {
		return "", fault.Conflict("the bridge device name %s is already in use", name)
	}
	return name, nil
}

// fillPools chooses the pools that a client leaves to us and checks all.
func (n *Network) fillPools(nw *network.Network) ([]network.Pool, error) {
	v4, _ := nw.Pool(false)
	v4, err := n.chooseSubnet4(nw, v4)
	if err != nil {
		return nil, err
	}
	pools := []network.Pool{v4}
	if nw.EnableIPv6 {
		v6, ok := nw.Pool(true)
		if !ok {
			v6.Subnet = ipam.Unique(nw.ID)
		}
		pools = append(pools, v6)
	}
	for i := range pools {
		if err := n.checkPool(&pools[i]); err != nil {
			return nil, err
		}
	}
	return pools, nil
}

func (n *Network) chooseSubnet4(nw *network.Network, p network.Pool) (network.Pool, error) {
	if p.Subnet.IsValid() {
		return p, nil
	}
	taken, err := n.takenSubnets(n.networkRecords(), nw.ID)
	if err != nil {
		return network.Pool{}, err
	}
	p.Subnet, err = ipam.Choose(netip.Prefix{}, taken)
	return p, err
}

// checkPool completes the pool and looks that it is possible and overlaps no other. A route of the host's own is no
// reason to refuse what a client asks for: only the containers do not reach that part of the host's network then.
func (n *Network) checkPool(p *network.Pool) error {
	if err := ipam.Check(poolOptions(*p)); err != nil {
		return err
	}
	if !p.Gateway.IsValid() {
		p.Gateway = p.Subnet.Addr().Next()
	}
	for _, a := range n.avoid {
		if a.Overlaps(p.Subnet) {
			return fault.Conflict("Pool overlaps with other one on this address space: %s with %s, which leads containers outside", p.Subnet, a)
		}
	}
	for _, other := range n.networkRecords() {
		for _, q := range other.IPAM.Pools {
			if q.Subnet.Overlaps(p.Subnet) {
				return fault.Conflict("Pool overlaps with other one on this address space: %s with %s of network %s", p.Subnet, q.Subnet, other.Name)
			}
		}
	}
	if p.Subnet.Addr().Is4() {
		n.warnOfHostRoutes(p.Subnet)
	}
	return nil
}

func (n *Network) warnOfHostRoutes(subnet netip.Prefix) {
	routes, err := bridge.HostRoutes()
	if err != nil {
		return // the look is a courtesy
	}
	if i := slices.IndexFunc(routes, subnet.Overlaps); i >= 0 {
		n.opts.Log.Warn().Stringer("subnet", subnet).Stringer("route", routes[i]).
			Msg("the host has a route to the subnet that was asked for: containers do not reach that part of the host's network")
	}
}

func (n *Network) networkRecords() []*network.Network {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]*network.Network, 0, len(n.lans))
	for _, l := range n.lans {
		all = append(all, l.record)
	}
	return all
}

// takenSubnets lists what a subnet that is chosen must stay clear of: the host's routes, the uplink and other networks.
func (n *Network) takenSubnets(all []*network.Network, except string) ([]netip.Prefix, error) {
	taken, err := bridge.HostRoutes()
	if err != nil {
		return nil, err
	}
	taken = append(taken, n.avoid...)
	for _, nw := range all {
		if p, ok := nw.Pool(false); ok && nw.ID != except {
			taken = append(taken, p.Subnet)
		}
	}
	return taken, nil
}
