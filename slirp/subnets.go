package slirp

import (
	"net/netip"
	"slices"

	"github.com/rs/zerolog"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/slirp/bridge"
	"moss/slirp/ipam"
)

// subnetChooser chooses the subnets of networks and checks the subnets that clients ask for.
type subnetChooser struct {
	lans     *lanTable
	reserved []netip.Prefix // that no network may overlap
	log      zerolog.Logger
}

// chooseDefaultSubnet decides on the default network's subnet. A device that stands decides, then the record, so that
// addresses stay; but without a device a remembered subnet that the host meanwhile has a route to gives way, since
// containers could not reach that network any more.
func (c *subnetChooser) chooseDefaultSubnet(
	nw *network.Network, all []*network.Network, standing []bridge.Device,
) (*network.Network, error) {
	var pool network.Pool
	i := slices.IndexFunc(standing, func(d bridge.Device) bool { return d.Name == defaultDevice })
	if i >= 0 {
		for _, a := range standing[i].Addrs {
			if a.Addr().Is4() {
				pool = network.Pool{Subnet: a.Masked(), Gateway: a.Addr()}
			}
		}
	}
	old, had := nw.Pool(false)
	if !pool.Subnet.IsValid() {
		taken, err := c.takenSubnets(all, nw.ID)
		if err != nil {
			return nil, err
		}
		subnet, err := ipam.Choose(old.Subnet, taken)
		if err != nil {
			return nil, err
		}
		pool = network.Pool{Subnet: subnet, Gateway: subnet.Addr().Next()}
		if subnet == old.Subnet && old.Gateway.IsValid() {
			pool.Gateway = old.Gateway
		}
	}
	if had && pool.Subnet == old.Subnet && pool.Gateway == old.Gateway && nw.Device == defaultDevice {
		return nw, nil
	}
	next := *nw
	next.IPAM.Pools, next.Device = []network.Pool{pool}, defaultDevice
	return &next, nil
}

// fillPools chooses the pools that a client leaves to us and checks all.
func (c *subnetChooser) fillPools(nw *network.Network) ([]network.Pool, error) {
	v4, _ := nw.Pool(false)
	v4, err := c.chooseSubnet4(nw, v4)
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
		if err := c.checkPool(&pools[i]); err != nil {
			return nil, err
		}
	}
	return pools, nil
}

func (c *subnetChooser) chooseSubnet4(nw *network.Network, p network.Pool) (network.Pool, error) {
	if p.Subnet.IsValid() {
		return p, nil
	}
	taken, err := c.takenSubnets(c.networkRecords(), nw.ID)
	if err != nil {
		return network.Pool{}, err
	}
	p.Subnet, err = ipam.Choose(netip.Prefix{}, taken)
	return p, err
}

// checkPool completes the pool and looks that it is possible and overlaps no other. A route of the host's own is no
// reason to refuse what a client asks for: only the containers do not reach that part of the host's network then.
func (c *subnetChooser) checkPool(p *network.Pool) error {
	if err := ipam.Check(poolOptions(*p)); err != nil {
		return err
	}
	if !p.Gateway.IsValid() {
		p.Gateway = p.Subnet.Addr().Next()
	}
	for _, a := range c.reserved {
		if a.Overlaps(p.Subnet) {
			return fault.Conflict("Pool overlaps with other one on this address space: %s with %s, which leads containers outside",
				p.Subnet, a)
		}
	}
	for _, other := range c.networkRecords() {
		for _, q := range other.IPAM.Pools {
			if q.Subnet.Overlaps(p.Subnet) {
				return fault.Conflict("Pool overlaps with other one on this address space: %s with %s of network %s", p.Subnet, q.Subnet,
					other.Name)
			}
		}
	}
	if p.Subnet.Addr().Is4() {
		c.warnOfHostRoutes(p.Subnet)
	}
	return nil
}

func (c *subnetChooser) warnOfHostRoutes(subnet netip.Prefix) {
	routes, err := bridge.HostRoutes()
	if err != nil {
		return // the look is a courtesy
	}
	if i := slices.IndexFunc(routes, subnet.Overlaps); i >= 0 {
		c.log.Warn().Stringer("subnet", subnet).Stringer("route", routes[i]).
			Msg("the host has a route to the subnet that was asked for: containers do not reach that part of the host's network")
	}
}

// takenSubnets lists what a subnet that is chosen must stay clear of: the host's routes, the uplink and other networks.
func (c *subnetChooser) takenSubnets(all []*network.Network, except string) ([]netip.Prefix, error) {
	taken, err := bridge.HostRoutes()
	if err != nil {
		return nil, err
	}
	taken = append(taken, c.reserved...)
	for _, nw := range all {
		if p, ok := nw.Pool(false); ok && nw.ID != except {
			taken = append(taken, p.Subnet)
		}
	}
	return taken, nil
}

func (c *subnetChooser) networkRecords() []*network.Network {
	lans := c.lans.listLANs()
	all := make([]*network.Network, 0, len(lans))
	for _, l := range lans {
		all = append(all, l.record)
	}
	return all
}
