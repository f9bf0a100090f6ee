package arg

import (
	"errors"
	"fmt"
	"net/netip"

	"moss/api/types"
)

// PoolFlags is what network create is told of addresses.
type PoolFlags struct {
	Subnets, Ranges, Gateways []string
	Aux                       []string // NAME=IP
}

// Pools puts each range, gateway and further address to the subnet that holds it. There are as many pools as subnets, nil for
// none.
func (f PoolFlags) Pools() ([]types.NetworkPool, error) {
	if len(f.Subnets) == 0 {
		if len(f.Ranges)+len(f.Gateways)+len(f.Aux) > 0 {
			return nil, errors.New("--ip-range, --gateway and --aux-address require a --subnet")
		}
		return nil, nil
	}
	subnets, err := parseSubnets(f.Subnets)
	if err != nil {
		return nil, err
	}
	pools := make([]types.NetworkPool, len(subnets))
	for i, subnet := range subnets {
		pools[i].Subnet = subnet.String()
	}
	for _, text := range f.Ranges {
		part, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("ip-range %q: want an address and a length, such as 10.1.2.128/25", text)
		}
		i := subnetIndex(subnets, part.Addr())
		if i < 0 || part.Bits() < subnets[i].Bits() {
			return nil, fmt.Errorf("ip-range %q is in no --subnet", text)
		}
		if err := setOnce(&pools[i].IPRange, "ip-range", text, pools[i].Subnet); err != nil {
			return nil, err
		}
	}
	for _, text := range f.Gateways {
		i, err := findSubnet(subnets, "gateway", text)
		if err != nil {
			return nil, err
		}
		if err := setOnce(&pools[i].Gateway, "gateway", text, pools[i].Subnet); err != nil {
			return nil, err
		}
	}
	return pools, f.auxAddresses(subnets, pools)
}

func (f PoolFlags) auxAddresses(subnets []netip.Prefix, pools []types.NetworkPool) error {
	for _, text := range f.Aux {
		name, ip, err := Pair("aux-address", text)
		if err != nil {
			return err
		}
		i, err := findSubnet(subnets, "aux-address", ip)
		if err != nil {
			return err
		}
		if pools[i].AuxiliaryAddresses == nil {
			pools[i].AuxiliaryAddresses = types.AuxAddresses{}
		}
		if before, taken := pools[i].AuxiliaryAddresses[name]; taken {
			return fmt.Errorf("aux-address %s is both %s and %s", name, before, ip)
		}
		pools[i].AuxiliaryAddresses[name] = ip
	}
	return nil
}

// parseSubnets reads subnets of which none holds a part of another: otherwise nothing says what belongs to which.
func parseSubnets(texts []string) ([]netip.Prefix, error) {
	subnets := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		subnet, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("subnet %q: want an address and a length, such as 10.1.2.0/24", text)
		}
		for _, other := range subnets {
			if subnet.Overlaps(other) {
				return nil, fmt.Errorf("the subnets %s and %s overlap", other, subnet)
			}
		}
		subnets = append(subnets, subnet)
	}
	return subnets, nil
}

func findSubnet(subnets []netip.Prefix, flag, text string) (int, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return 0, fmt.Errorf("%s %q is not an IP address", flag, text)
	}
	i := subnetIndex(subnets, ip)
	if i < 0 {
		return 0, fmt.Errorf("%s %s is in no --subnet", flag, text)
	}
	return i, nil
}

// subnetIndex returns the place of the subnet that holds an address, -1 if there is none.
func subnetIndex(subnets []netip.Prefix, ip netip.Addr) int {
	for i, subnet := range subnets {
		if subnet.Contains(ip) {
			return i
		}
	}
	return -1
}

func setOnce(field *string, flag, text, subnet string) error {
	if *field != "" {
		return fmt.Errorf("the subnet %s has two values of --%s: %s and %s", subnet, flag, *field, text)
	}
	*field = text
	return nil
}
