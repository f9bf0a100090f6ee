package wire

import (
	"net/netip"
	"strconv"

	"moss/api/types"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/network"
)

// NewNetwork fills an entry of the list of networks; members are the containers that run in it and shall be shown.
func NewNetwork(n *network.Network, members []*container.Record) *types.Network {
	w := &types.Network{
		Name: n.Name, ID: n.ID, Created: n.Created.UTC(), Scope: n.Scope(), Driver: n.Driver, EnableIPv4: true,
		EnableIPv6: n.EnableIPv6, Attachable: n.Attachable, Ingress: n.Scope() == network.ScopeSwarm && n.Name == network.Ingress,
		IPAM: types.NetworkIPAM{
			Driver: n.IPAM.Driver, Options: orEmpty(n.IPAM.Options), Config: make([]types.NetworkPool, 0, len(n.IPAM.Pools)),
		},
		Internal: n.Internal, Containers: make(map[string]types.NetworkContainer, len(members)),
		Options: orEmpty(n.Options), Labels: orEmpty(n.Labels), ConfigOnly: n.ConfigOnly,
	}
	w.ConfigFrom.Network = n.ConfigFrom
	for _, p := range n.IPAM.Pools {
		w.IPAM.Config = append(w.IPAM.Config, newPool(p))
	}
	for _, r := range members {
		for _, e := range r.Network.Endpoints {
			if e.NetworkID == n.ID {
				w.Containers[r.ID] = types.NetworkContainer{
					EndpointID: e.EndpointID, MacAddress: e.MacAddress,
					IPv4Address: withLength(e.IPAddress, e.IPPrefixLen), IPv6Address: withLength(e.GlobalIPv6Address, e.GlobalIPv6PrefixLen),
				}
			}
		}
	}
	return w
}

// NewNetworkInspect fills a network's record with what the list does not show.
func NewNetworkInspect(n *network.Network, members []*container.Record) *types.Network {
	w := NewNetwork(n, members)
	for _, r := range members {
		if shown, ok := w.Containers[r.ID]; ok {
			shown.Name = r.Name
			w.Containers[r.ID] = shown
		}
	}
	return w
}

// ToClusterNetwork returns a network of the swarm as its managers show it. Addresses that cannot be read are left out.
func ToClusterNetwork(w *types.Network) *network.Network {
	n := &network.Network{
		ID: w.ID, Name: w.Name, Driver: network.DriverOverlay, Created: w.Created, Internal: w.Internal, EnableIPv6: w.EnableIPv6,
		IPAM: network.IPAM{Driver: w.IPAM.Driver, Options: w.IPAM.Options}, Options: w.Options, Labels: w.Labels,
	}
	for _, p := range w.IPAM.Config {
		var pool network.Pool
		pool.Subnet, _ = netip.ParsePrefix(p.Subnet)
		pool.Range, _ = netip.ParsePrefix(p.IPRange)
		pool.Gateway, _ = netip.ParseAddr(p.Gateway)
		n.IPAM.Pools = append(n.IPAM.Pools, pool)
	}
	return n
}

func newPool(p network.Pool) types.NetworkPool {
	var w types.NetworkPool
	if p.Subnet.IsValid() {
		w.Subnet = p.Subnet.String()
	}
	if p.Range.IsValid() {
		w.IPRange = p.Range.String()
	}
	if p.Gateway.IsValid() {
		w.Gateway = p.Gateway.String()
	}
	for name, addr := range p.Aux {
		if w.AuxAddress == nil {
			w.AuxAddress = types.AuxAddresses{}
		}
		w.AuxAddress[name] = addr.String()
	}
	w.AuxiliaryAddresses = w.AuxAddress
	return w
}

func withLength(addr string, bits int) string {
	if addr == "" {
		return ""
	}
	return addr + "/" + strconv.Itoa(bits)
}

// ToNetwork returns what the body asks for. fault.Unsupported for what moss does not have, fault.Invalid for two addresses of one
// name.
func ToNetwork(c *types.NetworkCreate) (network.CreateOptions, error) {
	opt := network.CreateOptions{
		Name: c.Name, CheckDuplicate: c.CheckDuplicate, Driver: c.Driver, Internal: c.Internal, Attachable: c.Attachable,
		EnableIPv6: c.EnableIPv6, Options: c.Options, Labels: c.Labels, ConfigOnly: c.ConfigOnly,
	}
	if c.ConfigFrom != nil {
		opt.ConfigFrom = c.ConfigFrom.Network
	}
	switch {
	case c.EnableIPv4 != nil && !*c.EnableIPv4:
		return opt, fault.Unsupported("EnableIPv4: a network without IPv4 is not supported")
	case c.Scope != "" && c.Scope != network.ScopeLocal:
		return opt, fault.Unsupported("Scope %q: networks are of this host alone", c.Scope)
	case c.Ingress:
		return opt, fault.Unsupported("Ingress: there is no swarm here that a network could lead into")
	}
	if c.IPAM == nil {
		return opt, nil
	}
	opt.IPAM.Driver, opt.IPAM.Options = c.IPAM.Driver, c.IPAM.Options
	for _, p := range c.IPAM.Config {
		aux := p.AuxiliaryAddresses
		for _, name := range sortedKeys(p.AuxAddress) {
			if aux == nil {
				aux = types.AuxAddresses{}
			}
			if other, ok := aux[name]; ok && other != p.AuxAddress[name] {
				return opt, fault.Invalid("AuxAddress and AuxiliaryAddresses have different addresses for %q", name)
			}
			aux[name] = p.AuxAddress[name]
		}
		opt.IPAM.Pools = append(opt.IPAM.Pools, network.PoolRequest{Subnet: p.Subnet, Range: p.IPRange, Gateway: p.Gateway, Aux: aux})
	}
	return opt, nil
}
