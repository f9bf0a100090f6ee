package provider

import (
	"net/netip"

	"moss/engine/fault"
)

// space is the addresses of one network and who holds them.
type space struct {
	id      string
	name    string
	ingress bool
	subnet  netip.Prefix
	within  netip.Prefix // where addresses that nobody asked for come from: the subnet or a part of it
	gateway netip.Addr
	holders map[netip.Addr]string
	last    netip.Addr // that was given: the next search begins behind it
}

func newSpace(id, name string, ingress bool, r ranges) *space {
	return &space{
		id: id, name: name, ingress: ingress, subnet: r.subnet, within: r.within, gateway: r.gateway, last: r.within.Addr(),
		holders: map[netip.Addr]string{
			r.gateway: "the gateway", r.subnet.Addr(): "the network", lastAddr(r.subnet): "the broadcast address",
		},
	}
}

// claimAddr gives the holder this address. Claiming it again is no error; an address of another holder is fault.Conflict.
func (s *space) claimAddr(a netip.Addr, holder string) error {
	if !s.subnet.Contains(a) {
		return fault.Invalid("invalid address %s: it is not in the subnet %s of network %s", a, s.subnet, s.name)
	}
	if other, ok := s.holders[a]; ok && other != holder {
		return fault.Conflict("Address already in use: %s of network %s belongs to %s", a, s.name, other)
	}
	s.holders[a] = holder
	if s.within.Contains(a) {
		s.last = a
	}
	return nil
}

// giveAddr gives the holder a free address, the one that has been free for long rather than the one that was just released:
// nodes and connections remember addresses for a while. Without a free one it is fault.Unavailable.
func (s *space) giveAddr(holder string) (netip.Addr, error) {
	at := s.last
	for {
		at = at.Next()
		if !at.IsValid() || !s.within.Contains(at) {
			at = s.within.Addr()
		}
		if _, ok := s.holders[at]; !ok {
			s.holders[at], s.last = holder, at
			return at, nil
		}
		if at == s.last {
			return netip.Addr{}, fault.Unavailable("no available IPv4 addresses in network %s (%s): all are in use", s.name, s.within)
		}
	}
}

// releaseAddr takes the address back if it is this holder's.
func (s *space) releaseAddr(a netip.Addr, holder string) {
	if s.holders[a] == holder {
		delete(s.holders, a)
	}
}

func (s *space) isHeld(a netip.Addr, holder string) bool { return s.holders[a] == holder }

// withBits writes an address as SwarmKit's records have it.
func (s *space) withBits(a netip.Addr) string { return netip.PrefixFrom(a, s.subnet.Bits()).String() }
