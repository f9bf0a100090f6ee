package network

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"moss/engine/fault"
)

// The IPAM drivers that clients know. With null a network would have no addresses, which those of bridge cannot do without.
const (
	ipamDefault = "default"
	ipamNull    = "null"
)

// IPAMRequest is what a client asks of a new network's addresses, as it wrote it.
type IPAMRequest struct {
	Driver  string // empty: default
	Options map[string]string
	Pools   []PoolRequest
}

// PoolRequest asks for one subnet. An empty one leaves it to the engine.
type PoolRequest struct {
	Subnet  string // address and length
	Range   string // likewise, inside the subnet
	Gateway string // address
	Aux     map[string]string
}

// toIPAM checks what was asked for. Pools that leave the subnet to the engine are left out, and so are those of IPv6 in a
// network without it, which are unused.
func (r *IPAMRequest) toIPAM(enableIPv6 bool) (_ IPAM, unused []netip.Prefix, _ error) {
	switch r.Driver {
	case "", ipamDefault:
	case ipamNull:
		return IPAM{}, nil, fault.Invalid("IPAM driver null: a network of the driver bridge cannot be without addresses")
	default:
		return IPAM{}, nil, noPlugin(r.Driver)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Options)) {
		if strings.HasPrefix(key, OptionNamespace) {
			return IPAM{}, nil, fault.Invalid("the IPAM driver default has no option %s", key)
		}
	}
	ipam := IPAM{Driver: ipamDefault, Options: maps.Clone(r.Options)}
	seen := map[bool]bool{}
	for i := range r.Pools {
		p, err := r.Pools[i].toPool()
		if err != nil {
			return IPAM{}, nil, err
		}
		v6 := p.Subnet.IsValid() && p.Subnet.Addr().Is6()
		switch {
		case v6 && !enableIPv6:
			unused = append(unused, p.Subnet)
			continue
		case seen[v6]:
			return IPAM{}, nil, fault.Invalid("several IPAM configurations of one family: a network has one subnet of IPv4 and one " +
				"of IPv6")
		}
		seen[v6] = true
		if p.Subnet.IsValid() {
			ipam.Pools = append(ipam.Pools, p)
		}
	}
	return ipam, unused, nil
}

func (r *PoolRequest) toPool() (p Pool, err error) {
	if r.Subnet == "" {
		if r.Range != "" || r.Gateway != "" || len(r.Aux) > 0 {
			return Pool{}, fault.Invalid("invalid IPAM configuration: IPRange, Gateway and AuxAddress need a Subnet that they are in")
		}
		return Pool{}, nil
	}
	if p.Subnet, err = netip.ParsePrefix(r.Subnet); err != nil || p.Subnet.Addr().Is4In6() {
		return Pool{}, fault.Invalid("invalid subnet %s: invalid CIDR block notation", r.Subnet)
	}
	if err := checkSubnet(p.Subnet); err != nil {
		return Pool{}, err
	}
	if p.Range, err = parseRange(r.Range, p.Subnet); err != nil {
		return Pool{}, err
	}
	gateway := p.Subnet.Addr().Next()
	if r.Gateway != "" {
		if p.Gateway, err = parseAddress("gateway", r.Gateway, p.Subnet); err != nil {
			return Pool{}, err
		}
		gateway = p.Gateway
	}
	taken := map[netip.Addr]string{gateway: "the gateway"}
	for _, name := range slices.Sorted(maps.Keys(r.Aux)) {
		addr, err := parseAddress("auxiliary address", r.Aux[name], p.Subnet)
		switch {
		case err != nil:
			return Pool{}, err
		case name == "":
			return Pool{}, fault.Invalid("invalid auxiliary address %s: it has no name", addr)
		case taken[addr] != "":
			return Pool{}, fault.Invalid("invalid auxiliary address %s of %s: it is that of %s", addr, name, taken[addr])
		}
		taken[addr] = name
		if p.Aux == nil {
			p.Aux = map[string]netip.Addr{}
		}
		p.Aux[name] = addr
	}
	return p, nil
}

// notForNetworks are the addresses that mean something else on every host.
func notForNetworks() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("224.0.0.0/3"),
		netip.MustParsePrefix("::/96"), netip.MustParsePrefix("::ffff:0:0/96"), netip.MustParsePrefix("fe80::/10"),
		netip.MustParsePrefix("ff00::/8"),
	}
}

// checkSubnet returns fault.Invalid for a subnet that no network can have.
func checkSubnet(subnet netip.Prefix) error {
	if masked := subnet.Masked(); masked != subnet {
		return fault.Invalid("invalid subnet %s: it should be %s", subnet, masked)
	}
	// There must be room for the network's own address, the gateway, a container and the broadcast address.
	if most := subnet.Addr().BitLen() - 2; subnet.Bits() > most {
		return fault.Invalid("invalid subnet %s: no room for a gateway and a container, the longest prefix is %d", subnet, most)
	}
	for _, other := range notForNetworks() {
		if other.Overlaps(subnet) {
			return fault.Invalid("invalid subnet %s: the addresses of %s are not for networks", subnet, other)
		}
	}
	return nil
}

func parseRange(text string, subnet netip.Prefix) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		err = fault.Invalid("invalid ip-range %s: invalid CIDR block notation", text)
	case p.Addr().BitLen() != subnet.Addr().BitLen():
		err = fault.Invalid("invalid ip-range %s: it is not of the family of its subnet %s", text, subnet)
	case p.Masked() != p:
		err = fault.Invalid("invalid ip-range %s: it should be %s", text, p.Masked())
	case p.Bits() < subnet.Bits():
		err = fault.Invalid("invalid ip-range %s: CIDR block is bigger than its parent subnet %s", text, subnet)
	case !subnet.Contains(p.Addr()):
		err = fault.Invalid("invalid ip-range %s: parent subnet %s doesn't contain ip-range", text, subnet)
	}
	if err != nil {
		return netip.Prefix{}, err
	}
	return p, nil
}

// parseAddress reads an address that a device in the subnet can have.
func parseAddress(what, text string, subnet netip.Prefix) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil, addr.Zone() != "", addr.Is4In6():
		err = fault.Invalid("invalid %s %s: invalid address", what, text)
	case !subnet.Contains(addr):
		err = fault.Invalid("invalid %s %s: parent subnet %s doesn't contain this address", what, text, subnet)
	case addr == subnet.Addr(), addr.Is4() && !subnet.Contains(addr.Next()):
		err = fault.Invalid("invalid %s %s: it is the network's own or the broadcast address of %s", what, text, subnet)
	}
	if err != nil {
		return netip.Addr{}, err
	}
	return addr, nil
}
