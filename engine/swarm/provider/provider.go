// Package provider gives the networks of a swarm their subnets, and services, tasks and nodes their addresses in them. It
// is the plug-in that SwarmKit's allocator asks, on the leading manager. It knows nothing of devices, tunnels and names,
// and nothing of published ports: SwarmKit itself gives those (30000 to 32767 where nobody asks for one) and keeps them
// apart.
//
// All that was given stands in SwarmKit's records. A manager that becomes the leader starts with an empty Allocator, which
// SwarmKit leads through the records first: an address that a record names is claimed, and only then are new ones given.
// Every verb may be repeated.
//
// How it is wired: New(Options) is node.Config.NetworkProvider of SwarmKit's node on every node. The pool that init asks
// for is checked by ParsePool and goes into node.Config.NetworkConfig of the node that makes the swarm; SwarmKit keeps it in
// the cluster's record. Options.Taken lists the routes that nodes report of themselves. The function that creates a network
// calls CheckNetwork first, with the networks there are: SwarmKit creates a network whose addresses cannot be had, and
// only logs why.
//
// A node has an address of its own in every network of which it has tasks, and in the ingress network: its attachments
// (api.Node.Attachments). What comes to a task from a node itself, as connections to published ports do, has this source.
package provider

import (
	"net/netip"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/manager/allocator/networkallocator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"moss/engine/fault"
)

// Driver is the name of the only driver that networks of a swarm have: the one that clients ask for.
const Driver = "overlay"

// ipamDriver is the name of the only way in which addresses are given.
const ipamDriver = "default"

// Options say what the provider must know of the nodes. The zero value is of use.
type Options struct {
	// Taken lists what no network may overlap beside the networks of the swarm and the uplink: routes of the nodes. It is
	// asked whenever a network gets its subnet, and must not block. nil: nothing.
	Taken func() []Taken
}

// Provider implements SwarmKit's networkallocator.Provider.
type Provider struct{ taken func() []Taken }

var _ networkallocator.Provider = (*Provider)(nil)

// New returns a provider. It holds nothing that has to be closed.
func New(o Options) *Provider {
	if o.Taken == nil {
		o.Taken = func() []Taken { return nil }
	}
	return &Provider{taken: func() []Taken { return append(o.Taken(), uplinkTaken()) }}
}

// NewAllocator returns an allocator that has given nothing yet. A pool that ParsePool refuses is an error: SwarmKit goes on
// without networks then.
func (p *Provider) NewAllocator(c *networkallocator.Config) (networkallocator.NetworkAllocator, error) {
	if c == nil {
		c = &networkallocator.Config{}
	}
	pool, err := ParsePool(c.DefaultAddrPool, c.SubnetSize)
	if err != nil {
		return nil, err
	}
	return &Allocator{pool: pool, taken: p.taken, spaces: map[string]*space{}}, nil
}

// CheckNetwork says whether a network may be created beside these of the swarm: fault.Invalid for what it cannot have,
// fault.Conflict for a subnet that overlaps, with the name of the holder.
func (p *Provider) CheckNetwork(spec *api.NetworkSpec, networks []*api.Network) error {
	r, err := parseRanges(spec.IPAM)
	if err != nil || !r.subnet.IsValid() {
		return err
	}
	taken := p.taken()
	for _, n := range networks {
		ipam := n.IPAM
		if ipam == nil {
			ipam = n.Spec.IPAM // a new one, which has not got it yet
		}
		if old, err := parseRanges(ipam); err == nil && old.subnet.IsValid() {
			taken = append(taken, Taken{Prefix: old.subnet, Holder: "network " + n.Spec.Annotations.Name})
		}
	}
	return checkOverlap(r.subnet, taken)
}

// PredefinedNetworks returns nil: services have networks of the swarm only.
func (*Provider) PredefinedNetworks() []networkallocator.PredefinedNetworkData { return nil }

// SetDefaultVXLANUDPPort does nothing: there is no VXLAN.
func (*Provider) SetDefaultVXLANUDPPort(uint32) error { return nil }

// ValidateNetworkDriver refuses every driver but the one there is.
func (*Provider) ValidateNetworkDriver(d *api.Driver) error { return checkDriver("network", d, Driver) }

// ValidateIngressNetworkDriver refuses every driver but the one there is.
func (*Provider) ValidateIngressNetworkDriver(d *api.Driver) error {
	return checkDriver("ingress network", d, Driver)
}

// ValidateIPAMDriver refuses every driver but the one there is.
func (*Provider) ValidateIPAMDriver(d *api.Driver) error { return checkDriver("IPAM", d, ipamDriver) }

func checkDriver(kind string, d *api.Driver, only string) error {
	if d == nil || d.Name == "" || d.Name == only {
		return nil
	}
	return status.Errorf(codes.InvalidArgument, "%s driver %q is not available in a swarm: only %q is", kind, d.Name, only)
}

func checkOverlap(subnet netip.Prefix, taken []Taken) error {
	for _, t := range taken {
		if t.Prefix.Overlaps(subnet) {
			return overlapError(subnet, t)
		}
	}
	return nil
}

// ranges are what the record of a network says of its addresses.
type ranges struct {
	subnet, within netip.Prefix
	gateway        netip.Addr
}

// parseRanges reads and completes the addresses of a network; without any it returns the zero value.
func parseRanges(o *api.IPAMOptions) (r ranges, err error) {
	if o == nil || len(o.Configs) == 0 {
		return r, nil
	}
	if len(o.Configs) > 1 {
		return r, fault.Invalid("invalid IPAM configuration: networks of the swarm have one subnet, not %d", len(o.Configs))
	}
	c := o.Configs[0]
	if c.Subnet == "" {
		return r, fault.Invalid("invalid IPAM configuration: a range or a gateway needs a subnet")
	}
	subnet, err := parseSubnet(c.Subnet)
	if err != nil {
		return r, err
	}
	if subnet.Bits() < largestSubnet || subnet.Bits() > smallestSubnet {
		return r, fault.Invalid("invalid subnet %s: must have between %d and %d bits", subnet, largestSubnet, smallestSubnet)
	}
	within, gateway := subnet, subnet.Addr().Next()
	if c.Range != "" {
		within, err = netip.ParsePrefix(c.Range)
		within = within.Masked()
		if err != nil || within.Bits() < subnet.Bits() || !subnet.Contains(within.Addr()) {
			return r, fault.Invalid("invalid range %q: it is not a part of the subnet %s", c.Range, subnet)
		}
	}
	if c.Gateway != "" {
		gateway, err = netip.ParseAddr(c.Gateway)
		if err != nil || !subnet.Contains(gateway) || gateway == subnet.Addr() || gateway == lastAddr(subnet) {
			return r, fault.Invalid("invalid gateway %q: it is no address for containers of the subnet %s", c.Gateway, subnet)
		}
	}
	return ranges{subnet: subnet, within: within, gateway: gateway}, nil
}
