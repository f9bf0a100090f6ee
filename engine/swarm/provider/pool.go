package provider

import (
	"net/netip"
	"slices"

	"moss/engine/fault"
)

// DefaultPool is where the subnets of networks come from when the swarm names no pool: the 4096 subnets of 10.208.0.0/12.
//
// The part of 10.0.0.0/8 that other engines begin with meets the uplink's own 10.0.2.0/24, and the networks of many
// offices and clouds, which count from 10.0. The engine's local networks take 172.17 to 172.31 and 192.168, and then
// 10.255 downwards: they come here after 63 networks. 100.64.0.0/10 is what providers and other overlays give to hosts.
const DefaultPool = "10.208.0.0/12"

// DefaultSubnetSize is the number of bits of a subnet that nobody has asked for: room for 253 addresses.
const DefaultSubnetSize = 24

// The limits of a subnet: room for a gateway, a node, a service and a task, and what one bitmap can hold.
const (
	smallestSubnet = 29
	largestSubnet  = 12
)

// uplink is the subnet by which slirp4netns leads containers outside, on every node.
var uplink = netip.MustParsePrefix("10.0.2.0/24")

// Taken is a part of the address space that no network of the swarm may have.
type Taken struct {
	Prefix netip.Prefix
	Holder string // in the words of an error: `node "web1"`
}

// Pool is where subnets are taken from.
type Pool struct {
	parts []netip.Prefix
	bits  int
}

// ParsePool reads the prefixes of a pool and the number of bits of its subnets; none and 0 are the defaults. What cannot
// be a pool is fault.Invalid. A prefix that stands there twice counts once: SwarmKit repeats the list when a manager
// becomes the leader again.
func ParsePool(prefixes []string, bits uint32) (Pool, error) {
	if len(prefixes) == 0 {
		prefixes = []string{DefaultPool}
	}
	if bits == 0 {
		bits = DefaultSubnetSize
	}
	if bits < largestSubnet || bits > smallestSubnet {
		return Pool{}, fault.Invalid("invalid subnet size %d: must be between %d and %d bits", bits, largestSubnet, smallestSubnet)
	}
	p := Pool{bits: int(bits)}
	for _, text := range prefixes {
		prefix, err := parseSubnet(text)
		if err != nil {
			return Pool{}, fault.Invalid("invalid default address pool: %w", err)
		}
		if prefix.Bits() > p.bits {
			return Pool{}, fault.Invalid("invalid default address pool %s: it is smaller than its subnets of %d bits", prefix, bits)
		}
		if prefix.Overlaps(uplink) && prefix.Bits() >= uplink.Bits() {
			return Pool{}, overlapError(prefix, uplinkTaken())
		}
		if slices.Contains(p.parts, prefix) {
			continue
		}
		if i := slices.IndexFunc(p.parts, prefix.Overlaps); i >= 0 {
			return Pool{}, fault.Invalid("invalid default address pools: %s overlaps %s", prefix, p.parts[i])
		}
		p.parts = append(p.parts, prefix)
	}
	return p, nil
}

// chooseSubnet returns the first subnet that meets nothing that is taken. Without one it is fault.Unavailable.
func (p Pool) chooseSubnet(taken []Taken) (netip.Prefix, error) {
	for _, part := range p.parts {
		for at := part.Addr(); at.IsValid() && part.Contains(at); {
			subnet := netip.PrefixFrom(at, p.bits)
			if checkOverlap(subnet, taken) == nil {
				return subnet, nil
			}
			at = lastAddr(subnet).Next()
		}
	}
	return netip.Prefix{}, fault.Unavailable(
		"could not find an available, non-overlapping IPv4 address pool for the network: all subnets of %v are in use, "+
			"or a node has routes to them", p.parts)
}

// parseSubnet reads an IPv4 prefix without bits behind it.
func parseSubnet(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fault.Invalid("invalid subnet %q: %w", text, err)
	}
	if !prefix.Addr().Is4() {
		return netip.Prefix{}, fault.Invalid("invalid subnet %s: networks of the swarm have IPv4 addresses only", prefix)
	}
	if prefix != prefix.Masked() {
		return netip.Prefix{}, fault.Invalid("invalid subnet %s: did you mean %s?", prefix, prefix.Masked())
	}
	if a := prefix.Addr(); a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() || a.IsUnspecified() {
		return netip.Prefix{}, fault.Invalid("invalid subnet %s: containers cannot have addresses of it", prefix)
	}
	return prefix, nil
}

func lastAddr(p netip.Prefix) netip.Addr {
	end := p.Addr().As4()
	for i := p.Bits(); i < p.Addr().BitLen(); i++ {
		end[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(end)
}

func uplinkTaken() Taken { return Taken{Prefix: uplink, Holder: "the uplink of the nodes"} }

func overlapError(p netip.Prefix, t Taken) error {
	return fault.Conflict("Pool overlaps with other one on this address space: %s with %s of %s", p, t.Prefix, t.Holder)
}
