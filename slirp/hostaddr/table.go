package hostaddr

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// table is the name of the nftables table; everything in it is ours.
const table = "moss_host"

// destinationOffset in bytes finds the destination in an IPv4 header.
const destinationOffset = 16

// setTable replaces the table in one transaction; without a target there is none.
func setTable(conn *nftables.Conn, uplink string, addr, to netip.Addr) error {
	t := &nftables.Table{Name: table, Family: nftables.TableFamilyIPv4}
	conn.AddTable(t) // so that there is one to delete
	conn.DelTable(t)
	if to.IsValid() {
		conn.AddTable(t)
		prerouting := conn.AddChain(&nftables.Chain{
			Name: "prerouting", Table: t, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest,
		})
		name := make([]byte, unix.IFNAMSIZ)
		copy(name, uplink)
		conn.AddRule(&nftables.Rule{Table: t, Chain: prerouting, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: name},
			&expr.Payload{
				DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: destinationOffset,
				Len: uint32(len(addr.AsSlice())),
			},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: addr.AsSlice()},
			&expr.Immediate{Register: 1, Data: to.AsSlice()},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1},
		}})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("set nftables rules (the kernel needs nf_tables and nft_chain_nat): %w", err)
	}
	return nil
}
