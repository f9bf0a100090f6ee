package object

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/manager/allocator/networkallocator"

	"moss/api/types"
	"moss/engine/fault"
)

const (
	overlayDriver = "overlay" // the only driver that networks of the swarm have
	ipamDriver    = "default" // the only way in which their addresses are chosen
	swarmScope    = "swarm"

	// Ingress is the name of the network by which published ports are reached. Every swarm has it.
	Ingress = "ingress"

	optionEncrypted = "encrypted"           // of the driver overlay; networks of the swarm always are
	optionNamespace = "com.docker.network." // what begins the options of a driver that this engine knows
)

// predefined are the names that no network of the swarm can have.
var predefined = []string{"bridge", "host", "none", "default", Ingress} //nolint:gochecknoglobals // a constant

// ToNetworkSpec returns what a network of the swarm is made with, and warnings of settings without an effect. Errors name the
// field: fault.Invalid for what cannot be, fault.Forbidden for the name of a predefined network, fault.NotFound for another
// driver, fault.Unsupported for what networks of the swarm do not have.
func ToNetworkSpec(c *types.NetworkCreate) (spec *api.NetworkSpec, warnings []string, err error) {
	if err := checkNetwork(c); err != nil {
		return nil, nil, err
	}
	ipam, err := toIPAM(c.IPAM)
	if err != nil {
		return nil, nil, err
	}
	if warnings, err = checkOptions("Options", "driver "+overlayDriver, c.Options); err != nil {
		return nil, nil, err
	}
	if c.IPAM != nil {
		more, err := checkOptions("IPAM.Options", "IPAM driver "+ipamDriver, c.IPAM.Options)
		if err != nil {
			return nil, nil, err
		}
		warnings = append(warnings, more...)
	}
	return &api.NetworkSpec{
		Annotations: api.Annotations{Name: c.Name, Labels: c.Labels}, Internal: c.Internal, IPAM: ipam,
		DriverConfig: &api.Driver{Name: overlayDriver, Options: c.Options},
	}, warnings, nil
}

func checkNetwork(c *types.NetworkCreate) error {
	switch {
	case slices.Contains(predefined, c.Name):
		return fault.Forbidden("operation is not permitted on predefined %s network", c.Name)
	case len(c.Name) > maxName || !namePattern.MatchString(c.Name):
		return refuseField("Name", "%q: the name of a network of the swarm must be valid as a DNS name component of %d "+
			"characters or fewer", c.Name, maxName)
	case c.Driver != overlayDriver:
		return fault.NotFound("plugin %q not found", c.Driver)
	case c.EnableIPv6:
		return fault.Unsupported("EnableIPv6: networks of the swarm have IPv4 addresses only")
	case c.EnableIPv4 != nil && !*c.EnableIPv4:
		return fault.Unsupported("EnableIPv4: a network without IPv4 is not supported")
	case c.Scope != "" && c.Scope != swarmScope:
		return refuseField("Scope", "%q: networks of the driver %s are of the swarm", c.Scope, overlayDriver)
	case c.Attachable:
		return fault.Unsupported("Attachable: only tasks can be in networks of the swarm")
	case c.Ingress:
		return fault.Unsupported("Ingress: the swarm has its network for published ports, and no other one")
	case c.ConfigOnly, c.ConfigFrom != nil && c.ConfigFrom.Network != "":
		return fault.Unsupported("ConfigOnly, ConfigFrom: the driver overlay has no configuration networks")
	}
	if err := checkKeys(c.Labels); err != nil {
		return refuseField("Labels", "%v", err)
	}
	if _, kept := c.Labels[networkallocator.PredefinedLabel]; kept {
		return refuseField("Labels", "%s is kept for networks that the swarm makes itself", networkallocator.PredefinedLabel)
	}
	return nil
}

// checkOptions refuses options that a driver of the engine would have and this one has not, and warns of those of others.
func checkOptions(field, driver string, options map[string]string) (warnings []string, err error) {
	for _, key := range slices.Sorted(maps.Keys(options)) {
		switch {
		case key == "":
			return nil, refuseField(field, "an option has no name")
		case key == optionEncrypted && field == "Options":
		case strings.HasPrefix(key, optionNamespace):
			return nil, refuseField(field, "the %s has no option %s", driver, key)
		default:
			warnings = append(warnings, fmt.Sprintf("The %s has no option %s: kept and of no effect", driver, key))
		}
	}
	return warnings, nil
}

// toIPAM reads what stands there. Which subnets, ranges and gateways there can be is the provider's to say.
func toIPAM(n *types.NetworkIPAM) (*api.IPAMOptions, error) {
	if n == nil || n.Driver == "" && len(n.Options) == 0 && len(n.Config) == 0 {
		return nil, nil
	}
	if n.Driver != "" && n.Driver != ipamDriver {
		return nil, fault.NotFound("plugin %q not found", n.Driver)
	}
	o := &api.IPAMOptions{Driver: &api.Driver{Name: ipamDriver, Options: n.Options}}
	for i, p := range n.Config {
		field := indexField("IPAM.Config", i)
		if len(p.AuxAddress)+len(p.AuxiliaryAddresses) > 0 {
			return nil, refuseField(field+".AuxAddress", "networks of the swarm keep no addresses free: want an IPRange instead")
		}
		if p.Subnet == "" && p.IPRange == "" && p.Gateway == "" {
			continue
		}
		o.Configs = append(o.Configs, &api.IPAMConfig{Subnet: p.Subnet, Range: p.IPRange, Gateway: p.Gateway})
	}
	return o, nil
}

// NewNetwork returns a network of the swarm as clients see it. Containers in it are each node's own to show.
func NewNetwork(n *api.Network) *types.Network {
	shown := newAnnotations(&n.Spec.Annotations)
	network := &types.Network{
		Name: shown.Name, ID: n.ID, Created: newTime(n.Meta.CreatedAt), Scope: swarmScope, Driver: overlayDriver,
		EnableIPv4: true, EnableIPv6: n.Spec.Ipv6Enabled, Attachable: n.Spec.Attachable, Ingress: n.Spec.Ingress,
		Internal: n.Spec.Internal, IPAM: types.NetworkIPAM{
			Driver: ipamDriver, Options: map[string]string{}, Config: []types.NetworkPool{},
		},
		Containers: map[string]types.NetworkContainer{}, Options: map[string]string{}, Labels: shown.Labels,
	}
	if d := n.Spec.DriverConfig; d != nil && d.Options != nil {
		network.Options = d.Options
	}
	if o := n.Spec.IPAM; o != nil && o.Driver != nil && o.Driver.Options != nil {
		network.IPAM.Options = o.Driver.Options
	}
	ipam := n.IPAM // what the swarm has given
	if ipam == nil {
		ipam = n.Spec.IPAM
	}
	if ipam != nil {
		for _, c := range ipam.Configs {
			network.IPAM.Config = append(network.IPAM.Config, types.NetworkPool{Subnet: c.Subnet, IPRange: c.Range, Gateway: c.Gateway})
		}
	}
	return network
}
