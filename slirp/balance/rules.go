package balance

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"moss/engine/swarm/table"
	"moss/engine/thread"
)

// tableName is the name of the nftables table; everything in it is ours.
const tableName = "moss-swarm"

// Registers: of 16 bytes each, where names of devices and addresses lie one after the other as keys of sets have them;
// and the first of those of four bytes.
const (
	reg1  = unix.NFT_REG_1
	reg2  = unix.NFT_REG_2
	reg32 = unix.NFT_REG32_00
)

// Apply replaces the rules of the container's namespace at this path, in one step.
func (c Client) Apply(netNS string) error {
	return applyAt(netNS, func(r *rules) {
		if len(c.VIPs) > 0 {
			r.addClient(c)
		}
	})
}

// Apply replaces the rules of the containers' namespace at this path, in one step.
func (g Gate) Apply(netNS string) error {
	return applyAt(netNS, func(r *rules) {
		r.addApartness(g)
		if g.Ingress.IsValid() {
			r.addPorts(g)
		}
	})
}

// Remove takes the rules away that Apply has set. None are no error.
func Remove(netNS string) error { return applyAt(netNS, nil) }

// rules are put together for one table.
type rules struct {
	conn *nftables.Conn
	t    *nftables.Table
	err  error // the first
}

func applyAt(netNS string, add func(*rules)) error {
	return thread.InNetworkAt(netNS, func() error {
		conn, err := nftables.New()
		if err != nil {
			return fmt.Errorf("open nftables: %w", err)
		}
		r := &rules{conn: conn, t: &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}}
		conn.AddTable(r.t) // so that there is one to delete
		conn.DelTable(r.t)
		if add != nil {
			conn.AddTable(r.t)
			add(r)
		}
		if r.err != nil {
			return fmt.Errorf("put nftables rules together: %w", r.err)
		}
		if err := conn.Flush(); err != nil {
			return fmt.Errorf("set nftables rules (the kernel needs nf_tables, nft_numgen, nft_nat and nft_reject): %w", err)
		}
		return nil
	})
}

// addClient makes the rules of a container:
//
//	output    each address of a service goes to its chain, which draws a task
//	refuse    addresses without a ready task are refused
func (r *rules) addClient(c Client) {
	var live, dead []nftables.SetElement
	for _, v := range c.VIPs {
		if len(v.Backends) == 0 {
			dead = append(dead, nftables.SetElement{Key: v.Addr.AsSlice()})
			continue
		}
		chain := r.addBackends("vip-"+v.Addr.String(), v.Backends, 0)
		lead := &expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}
		live = append(live, nftables.SetElement{Key: v.Addr.AsSlice(), VerdictData: lead})
	}
	output := r.addChain("output", nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	vips := r.addSet(&nftables.Set{Name: "vips", IsMap: true, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeVerdict}, live)
	r.addRule(output, loadAddr(offsetDestination, reg1), []expr.Any{
		&expr.Lookup{SourceRegister: reg1, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: vips.Name, SetID: vips.ID},
	})
	refuse := r.addChain("refuse", nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter)
	idle := r.addSet(&nftables.Set{Name: "idle", KeyType: nftables.TypeIPAddr}, dead)
	const portUnreachable = 3 // RFC 792; it ends a connection of TCP at once as well
	r.addRule(refuse, loadAddr(offsetDestination, reg1), inSet(idle), []expr.Any{
		&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable},
	})
}

// addPorts makes the rules of published ports, for the forwarder's connections. Containers do not reach the node's own address.
func (r *rules) addPorts(g Gate) {
	var live []nftables.SetElement
	for _, p := range g.Ports {
		if len(p.Backends) == 0 {
			continue // nobody listens at the node's own address: the kernel refuses
		}
		key := concatAligned([]byte{protoNumber(p.Proto)}, binaryutil.BigEndian.PutUint16(p.Published))
		chain := r.addBackends(fmt.Sprintf("port-%s-%d", p.Proto, p.Published), p.Backends, p.Target)
		live = append(live, nftables.SetElement{Key: key, VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}})
	}
	ports := r.addSet(&nftables.Set{
		Name: "ports", IsMap: true, Concatenation: true, KeyType: r.concatTypes(nftables.TypeInetProto, nftables.TypeInetService),
		DataType: nftables.TypeVerdict,
	}, live)
	toIngress := append(loadAddr(offsetDestination, reg1), &expr.Cmp{Op: expr.CmpOpEq, Register: reg1, Data: g.Ingress.AsSlice()})
	lead := []expr.Any{&expr.Lookup{
		SourceRegister: reg32, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true, SetName: ports.Name, SetID: ports.ID,
	}}
	output := r.addChain("output", nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	r.addRule(output, toIngress, loadPort(), lead)
	postrouting := r.addChain("postrouting", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	becomeNode := []expr.Any{
		&expr.Immediate{Register: reg1, Data: g.Ingress.AsSlice()},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: reg1},
	}
	r.addRule(postrouting, matchDevice(expr.MetaKeyOIFNAME, g.Tunnel), matchTranslated(), becomeNode)
	elements := make([]nftables.SetElement, 0, len(g.Shared))
	for _, a := range g.Shared {
		elements = append(elements, nftables.SetElement{Key: a.AsSlice()})
	}
	shared := r.addSet(&nftables.Set{Name: "shared", KeyType: nftables.TypeIPAddr}, elements)
	r.addRule(postrouting, matchProto(unix.IPPROTO_UDP), matchTranslated(), loadAddr(offsetDestination, reg1), inSet(shared),
		becomeNode)
}

// addApartness keeps networks apart at the tunnel.
func (r *rules) addApartness(g Gate) {
	elements := make([]nftables.SetElement, 0, len(g.Members))
	for _, m := range g.Members {
		elements = append(elements, nftables.SetElement{
			Key:    concatAligned(ifnameKey(m.Bridge), m.Subnet.Masked().Addr().AsSlice()),
			KeyEnd: concatAligned(ifnameKey(m.Bridge), lastAddr(m.Subnet)),
		})
	}
	members := r.addSet(&nftables.Set{
		Name: "members", Concatenation: true, Interval: true, KeyType: r.concatTypes(nftables.TypeIFName, nftables.TypeIPAddr),
	}, elements)
	notMember := []expr.Any{&expr.Lookup{SourceRegister: reg1, SetName: members.Name, SetID: members.ID, Invert: true}}
	drop := []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
	forward := r.addChain("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	loadOut := []expr.Any{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: reg1}}
	loadIn := []expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg1}}
	r.addRule(forward, matchDevice(expr.MetaKeyIIFNAME, g.Tunnel), loadOut, loadAddr(offsetSource, reg2), notMember, drop)
	r.addRule(forward, matchDevice(expr.MetaKeyOIFNAME, g.Tunnel), loadIn, loadAddr(offsetDestination, reg2), notMember, drop)
	input := r.addChain("input", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter)
	established := matchConnBits(expr.CtKeySTATE, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED)
	r.addRule(input, matchDevice(expr.MetaKeyIIFNAME, g.Tunnel), established, []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}})
	r.addRule(input, matchDevice(expr.MetaKeyIIFNAME, g.Tunnel), drop)
}

// addBackends makes a chain that draws one of the backends, and leads to this port of it unless it is 0.
func (r *rules) addBackends(name string, backends []netip.Addr, port uint16) string {
	elements := make([]nftables.SetElement, 0, len(backends))
	for i, b := range backends {
		elements = append(elements, nftables.SetElement{Key: binaryutil.NativeEndian.PutUint32(uint32(i)), Val: b.AsSlice()})
	}
	m := r.addSet(&nftables.Set{Name: name, IsMap: true, KeyType: nftables.TypeMark, DataType: nftables.TypeIPAddr}, elements)
	chain := r.conn.AddChain(&nftables.Chain{Name: name, Table: r.t})
	nat := &expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: reg1}
	choose := []expr.Any{
		&expr.Numgen{Register: reg1, Modulus: uint32(len(backends)), Type: unix.NFT_NG_RANDOM},
		&expr.Lookup{SourceRegister: reg1, DestRegister: reg1, IsDestRegSet: true, SetName: m.Name, SetID: m.ID},
	}
	if port != 0 {
		choose = append(choose, &expr.Immediate{Register: reg2, Data: binaryutil.BigEndian.PutUint16(port)})
		nat.RegProtoMin, nat.Specified = reg2, true
	}
	r.addRule(chain, choose, []expr.Any{nat})
	return name
}

func protoNumber(p table.Proto) byte {
	if p == table.UDP {
		return unix.IPPROTO_UDP
	}
	return unix.IPPROTO_TCP
}
