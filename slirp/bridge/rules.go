package bridge

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// table is the name of the nftables table; everything in it is ours.
const table = "moss"

// sourceOffset and sourceLen find the source address in an IPv4 header, in bytes.
const (
	sourceOffset = 12
	sourceLen    = 4
)

// setRules replaces the whole table in one transaction: what leaves by the uplink takes the uplink's address, and
// nothing beyond it opens a connection to a container. Between containers everything passes.
func setRules(conn *nftables.Conn, uplink string, subnet netip.Prefix) error {
	t := &nftables.Table{Name: table, Family: nftables.TableFamilyIPv4}
	conn.AddTable(t) // so that there is one to delete
	conn.DelTable(t)
	conn.AddTable(t)

	postrouting := conn.AddChain(&nftables.Chain{
		Name:     "postrouting",
		Table:    t,
		Type:     nftables.ChainTypeNAT,
		Hooknum:  nftables.ChainHookPostrouting,
		Priority: nftables.ChainPriorityNATSource,
	})
	conn.AddRule(&nftables.Rule{Table: t, Chain: postrouting, Exprs: rule(
		from(subnet), device(expr.MetaKeyOIFNAME, uplink), []expr.Any{&expr.Masq{}},
	)})

	accept := nftables.ChainPolicyAccept
	forward := conn.AddChain(&nftables.Chain{
		Name:     "forward",
		Table:    t,
		Type:     nftables.ChainTypeFilter,
		Hooknum:  nftables.ChainHookForward,
		Priority: nftables.ChainPriorityFilter,
		Policy:   &accept,
	})
	conn.AddRule(&nftables.Rule{Table: t, Chain: forward, Exprs: rule(
		connState(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED), verdict(expr.VerdictAccept),
	)})
	conn.AddRule(&nftables.Rule{Table: t, Chain: forward, Exprs: rule(
		device(expr.MetaKeyIIFNAME, uplink), device(expr.MetaKeyOIFNAME, Device), verdict(expr.VerdictDrop),
	)})
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("set nftables rules (the kernel needs nf_tables and nft_masq): %w", err)
	}
	return nil
}

func rule(parts ...[]expr.Any) []expr.Any {
	var all []expr.Any
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func verdict(kind expr.VerdictKind) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind}}
}

func from(subnet netip.Prefix) []expr.Any {
	network := ipNet(subnet)
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: sourceOffset, Len: sourceLen},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: sourceLen, Mask: network.Mask, Xor: make([]byte, sourceLen)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: network.IP.To4()},
	}
}

func device(key expr.MetaKey, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: padded},
	}
}

func connState(bits uint32) []expr.Any {
	zero := binaryutil.NativeEndian.PutUint32(0)
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(len(zero)), Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: zero},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: zero},
	}
}
