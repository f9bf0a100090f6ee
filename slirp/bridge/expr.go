package bridge

import (
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Registers of 16 bytes, in which names of devices and addresses lie one after the other, as keys of sets have them.
func register(place int) uint32 { return uint32(unix.NFT_REG_1 + place - 1) }

func verdict(kind expr.VerdictKind) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind}}
}

func load(key expr.MetaKey, place int) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: register(place)}}
}

// in looks what lies from the first register on up.
func in(s *nftables.Set) []expr.Any {
	return []expr.Any{&expr.Lookup{SourceRegister: register(1), SetName: s.Name, SetID: s.ID}}
}

func notIn(s *nftables.Set) []expr.Any {
	return []expr.Any{&expr.Lookup{SourceRegister: register(1), SetName: s.Name, SetID: s.ID, Invert: true}}
}

func device(key expr.MetaKey, name string) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: ifname(name)},
	}
}

func mark(value uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(value)},
	}
}

func connState(bits uint32) []expr.Any { return connBits(expr.CtKeySTATE, bits) }

// translated is for packets of connections whose destination one of our rules has changed.
func translated() []expr.Any {
	const dstNAT = 1 << 5 // linux/netfilter/nf_conntrack_common.h, IPS_DST_NAT
	return connBits(expr.CtKeySTATUS, dstNAT)
}

func connBits(key expr.CtKey, bits uint32) []expr.Any {
	zero := binaryutil.NativeEndian.PutUint32(0)
	return []expr.Any{
		&expr.Ct{Key: key, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(len(zero)), Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: zero},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: zero},
	}
}

// neighbours is what IPv6 has in place of ARP: router and neighbour solicitations and advertisements.
func neighbours() []expr.Any {
	const first, last = 133, 136 // RFC 4861
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_ICMPV6}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
		&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: []byte{first}, ToData: []byte{last}},
	}
}
