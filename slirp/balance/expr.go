package balance

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Where addresses lie in the header of IPv4, in bytes (RFC 791).
const (
	offsetSource      = 12
	offsetDestination = 16
)

// mostElements is how many elements go into one message: the length of their list is a number of 16 bits there.
const mostElements = 500

func (r *rules) addSet(s *nftables.Set, elements []nftables.SetElement) *nftables.Set {
	s.Table = r.t
	r.keepError(r.conn.AddSet(s, nil))
	for some := range slices.Chunk(elements, mostElements) {
		r.keepError(r.conn.SetAddElements(s, some))
	}
	return s
}

func (r *rules) addChain(
	name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority,
) *nftables.Chain {
	accept := nftables.ChainPolicyAccept
	return r.conn.AddChain(&nftables.Chain{Name: name, Table: r.t, Type: kind, Hooknum: hook, Priority: priority, Policy: &accept})
}

func (r *rules) addRule(chain *nftables.Chain, parts ...[]expr.Any) {
	r.conn.AddRule(&nftables.Rule{Table: r.t, Chain: chain, Exprs: slices.Concat(parts...)})
}

func (r *rules) concatTypes(types ...nftables.SetDatatype) nftables.SetDatatype {
	t, err := nftables.ConcatSetType(types...)
	r.keepError(err)
	return t
}

func (r *rules) keepError(err error) {
	if r.err == nil && err != nil {
		r.err = fmt.Errorf("table %s: %w", tableName, err)
	}
}

func loadAddr(offset uint32, register uint32) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}}
}

// loadPort loads the protocol and the port that a packet goes to, as keys of sets have them.
func loadPort() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg32},
		&expr.Payload{DestRegister: reg32 + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
	}
}

func matchDevice(key expr.MetaKey, name string) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: key, Register: reg1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg1, Data: ifnameKey(name)},
	}
}

func matchProto(number byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg1, Data: []byte{number}},
	}
}

// matchTranslated is for packets of connections whose destination one of our rules has changed.
func matchTranslated() []expr.Any {
	const dstNAT = 1 << 5 // linux/netfilter/nf_conntrack_common.h, IPS_DST_NAT
	return matchConnBits(expr.CtKeySTATUS, dstNAT)
}

func matchConnBits(key expr.CtKey, bits uint32) []expr.Any {
	zero := binaryutil.NativeEndian.PutUint32(0)
	return []expr.Any{
		&expr.Ct{Key: key, Register: reg1},
		&expr.Bitwise{SourceRegister: reg1, DestRegister: reg1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: zero},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg1, Data: zero},
	}
}

func inSet(s *nftables.Set) []expr.Any {
	return []expr.Any{&expr.Lookup{SourceRegister: reg1, SetName: s.Name, SetID: s.ID}}
}

func ifnameKey(name string) []byte {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return padded
}

// concatAligned puts the parts of a key together: each begins at four bytes.
func concatAligned(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
		for len(all)%4 != 0 {
			all = append(all, 0)
		}
	}
	return all
}

func lastAddr(p netip.Prefix) []byte {
	end := p.Addr().AsSlice()
	for i := p.Bits(); i < p.Addr().BitLen(); i++ {
		end[i/8] |= 0x80 >> (i % 8)
	}
	return end
}
