package ipam

import (
	"crypto/sha256"
	"net/netip"
	"slices"

	"moss/engine/fault"
)

// Choose returns wish if it is free, otherwise the first free one of the usual candidates. When there is none it is a
// fault.Unavailable.
func Choose(wish netip.Prefix, taken []netip.Prefix) (netip.Prefix, error) {
	free := func(p netip.Prefix) bool {
		return !slices.ContainsFunc(taken, p.Overlaps)
	}
	if wish.IsValid() && free(wish) {
		return wish, nil
	}
	for p := range candidateSubnets {
		if free(p) {
			return p, nil
		}
	}
	return netip.Prefix{}, fault.Unavailable("could not find an available, non-overlapping IPv4 address pool among the " +
		"defaults to assign to the network: " +
		"the host has routes to, or networks have, all of 172.17.0.0/16 to 172.31.0.0/16, 192.168.0.0/16 and 10.0.0.0/8")
}

// candidateSubnets yields the subnets clients are used to see, in that order, and parts of 10.0.0.0/8 after them.
func candidateSubnets(yield func(netip.Prefix) bool) {
	for i := byte(17); i < 32; i++ {
		if !yield(netip.PrefixFrom(netip.AddrFrom4([4]byte{172, i, 0, 0}), 16)) {
			return
		}
	}
	for i := 0; i < 256; i += 16 {
		if !yield(netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, byte(i), 0}), 20)) {
			return
		}
	}
	for i := 255; i > 0; i-- {
		if !yield(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16)) {
			return
		}
	}
}

// Source is a range of addresses that subnets of one size are taken from.
type Source struct {
	Base netip.Prefix
	Size int // of the subnets' prefixes, bits
}

// DefaultSources returns where Choose takes subnets from when nobody wishes for one.
func DefaultSources() []Source {
	return []Source{
		{netip.MustParsePrefix("172.17.0.0/16"), 16},
		{netip.MustParsePrefix("172.18.0.0/15"), 16},
		{netip.MustParsePrefix("172.20.0.0/14"), 16},
		{netip.MustParsePrefix("172.24.0.0/13"), 16},
		{netip.MustParsePrefix("192.168.0.0/16"), 20},
		{netip.MustParsePrefix("10.0.0.0/8"), 16},
	}
}

// Unique returns the IPv6 subnet that goes with a network's id: 64 bits of unique local addresses (RFC 4193), the same
// whenever it is asked for.
func Unique(networkID string) netip.Prefix {
	sum := sha256.Sum256([]byte(networkID))
	a := [16]byte{0xfd}
	copy(a[1:8], sum[:])
	return netip.PrefixFrom(netip.AddrFrom16(a), 64)
}
