package network

import (
	"context"

	"moss/engine/fault"
)

// checkConfig refuses what does not go with ConfigOnly and ConfigFrom: one holds what a network is like and not how it is used,
// the other takes all of that. fault.Forbidden.
func (o *CreateOptions) checkConfig() error {
	switch {
	case o.ConfigOnly && o.ConfigFrom != "":
		return fault.Forbidden("ConfigFrom: a configuration network cannot take its settings from another one")
	case o.ConfigOnly && o.Internal:
		return fault.Forbidden("Internal: a configuration network cannot have it, only the networks that take its settings")
	case o.ConfigOnly && o.Attachable:
		return fault.Forbidden("Attachable: a configuration network cannot have it, only the networks that take its settings")
	case o.ConfigFrom == "":
		return nil
	}
	for _, own := range []struct {
		given bool
		field string
	}{
		{o.EnableIPv6, "EnableIPv6"},
		{len(o.Labels) > 0, "Labels"},
		{len(o.Options) > 0, "Options"},
		{o.IPAM.Driver != "" && o.IPAM.Driver != ipamDefault, "IPAM.Driver"},
		{len(o.IPAM.Options) > 0, "IPAM.Options"},
		{len(o.IPAM.Pools) > 0, "IPAM.Config"},
	} {
		if own.given {
			return fault.Forbidden("%s: a network that takes its settings from a configuration network cannot have its own", own.field)
		}
	}
	return nil
}

// withSettings returns the network with the settings of a configuration network, by its name or id. fault.NotFound if there is
// none, fault.Conflict if several are meant. The caller holds the token.
func (s *Service) withSettings(n *Network, configFrom string) (*Network, error) {
	config, err := s.Find(configFrom)
	if fault.Is(err, fault.NotFound) || err == nil && !config.ConfigOnly {
		return nil, fault.NotFound("configuration network %s not found", configFrom)
	}
	if err != nil {
		return nil, err
	}
	filled := *n
	filled.ConfigFrom = config.Name
	filled.EnableIPv6, filled.IPAM, filled.Options, filled.Labels = config.EnableIPv6, config.IPAM, config.Options, config.Labels
	return &filled, nil
}

// configUser returns a network that has the settings of this one, nil if there is none.
func (s *Service) configUser(n *Network) *Network {
	if !n.ConfigOnly {
		return nil
	}
	for _, other := range s.sortedNetworks() {
		if other.ConfigFrom == n.Name {
			return other
		}
	}
	return nil
}

// buildNetwork lets the driver make a network, as AddNetwork and PutNetwork do. Of one that only holds settings there is nothing
// to make.
func (s *Service) buildNetwork(ctx context.Context, n *Network) (*Network, error) {
	switch {
	case n.ConfigOnly:
		return n, nil
	case n.Scope() == ScopeSwarm:
		return s.opt.Driver.PutNetwork(ctx, n)
	default:
		return s.opt.Driver.AddNetwork(ctx, n)
	}
}

// checkSettings refuses what no version of this package has written of a network that only holds settings.
func checkSettings(n *Network) error {
	if checkName(n.Name) != nil || n.Builtin() || n.Overlay != nil || n.Device != "" || n.ConfigFrom != "" {
		return fault.Internal("not the record of configuration network %s: name %q, device %q", n.ID, n.Name, n.Device)
	}
	for _, p := range n.IPAM.Pools {
		if err := checkSubnet(p.Subnet); err != nil || p.Gateway.IsValid() && !p.Subnet.Contains(p.Gateway) {
			return fault.Internal("record of network %s: subnet %s with the gateway %s", n.ID, p.Subnet, p.Gateway)
		}
	}
	_, err := parseOptions(n.Options)
	return err
}
