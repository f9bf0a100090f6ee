package bridge

import (
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// registerAt returns a register of 16 bytes. Names of devices and addresses lie in them one after the other, as keys of sets have
// them.
func registerAt(place int) uint32 { return uint32(unix.NFT_REG_1 + place - 1) }

func newVerdict(kind expr.VerdictKind) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind}}
}

func loadMeta(key expr.MetaKey, place int) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: registerAt(place)}}
}

// inSet looks up in a set what lies from the first register on.
func inSet(s *nftables.Set) []expr.Any {
	return []expr.Any{&expr.Lookup{SourceRegister: registerAt(1), SetName: s.Name, SetID: s.ID}}
}

func notInSet(s *nftables.Set) []expr.Any {
	return []expr.Any{&expr.Lookup{SourceRegister: registerAt(1), SetName: s.Name, SetID: s.ID, Invert: true}}
}

func matchDevice(key expr.MetaKey, name string) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: ifnameKey(name)},
	}
}

func matchMark(value uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(value)},
	}
}

func matchConnMark(value uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(value)},
	}
}

func matchConnState(bits uint32) []expr.Any { return matchConnBits(expr.CtKeySTATE, bits) }

// matchTranslated is for packets of connections whose destination one of our rules has changed.
func matchTranslated() []expr.Any {
	const dstNAT = 1 << 5 // linux/netfilter/nf_conntrack_common.h, IPS_DST_NAT
	return matchConnBits(expr.CtKeySTATUS, dstNAT)
}

func matchConnBits(key expr.CtKey, bits uint32) []expr.Any {
	zero := binaryutil.NativeEndian.PutUint32(0)
	return []expr.Any{
		&expr.Ct{Key: key, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: uint32(len(zero)), Mask: binaryutil.NativeEndian.PutUint32(bits),
			Xor: zero,
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: zero},
	}
}

// matchNeighbourDiscovery is for what IPv6 has in place of ARP: router and neighbour solicitations and advertisements.
func matchNeighbourDiscovery() []expr.Any {
	const first, last = 133, 136 // RFC 4861
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_ICMPV6}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
		&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: []byte{first}, ToData: []byte{last}},
	}
}
