package bridge

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// table is the name of the nftables tables, one for each family; everything in them is ours.
const table = "moss"

// tableRules are the rules of one family while they are put together.
//
// Which networks there are stands in sets, so that the rules are as many with a hundred networks as with one:
//
//	bridges  all devices of networks
//	open     those that are not internal
//	same     pairs of a device and itself, of networks whose containers may reach each other
//	across   pairs of a bridge and its tunnel: where connections may begin, and where they may lead. Which of a tunnel's
//	         packets are a network's is for the tables of package balance, which drop all others
//	own      a device and the addresses of the host that its containers may reach
//	from     a device and the addresses that its containers may send from
//	masq     the subnets that take the uplink's address on the way out
type tableRules struct {
	conn *nftables.Conn
	t    *nftables.Table
	v6   bool
	up   string // the uplink's device
	err  error  // the first
}

// setRules replaces the tables in one transaction. Established connections go on: what has been translated is in the
// kernel's own list.
func (f *Fabric) setRules(l *live) error {
	if !f.ruled {
		if err := f.routeReplies(l); err != nil {
			return err
		}
	}
	var six bool
	up := f.netsUp()
	for _, n := range up {
		six = six || n.IPv6.IsValid()
	}
	families := []nftables.TableFamily{nftables.TableFamilyIPv4}
	if l.has6 {
		families = append(families, nftables.TableFamilyIPv6)
	}
	for _, family := range families {
		t := &nftables.Table{Name: table, Family: family}
		l.rules.AddTable(t) // so that there is one to delete
		l.rules.DelTable(t)
		v6 := family == nftables.TableFamilyIPv6
		if v6 && !six && f.opts.ReplyMark == 0 {
			continue
		}
		l.rules.AddTable(t)
		r := &tableRules{conn: l.rules, t: t, v6: v6, up: f.opts.Uplink}
		r.addForwarderRules(f.opts)
		s := r.addSets(up)
		r.addNetworkRules(s, f.opts.ReplyMark)
		if !v6 {
			r.addPublishedRules(f.ports, s)
		}
		if r.err != nil {
			return fmt.Errorf("put nftables rules together: %w", r.err)
		}
	}
	if err := l.rules.Flush(); err != nil {
		return fmt.Errorf("set nftables rules (the kernel needs nf_tables and nft_masq): %w", err)
	}
	f.ruled = true
	return nil
}

// addNetworkRules makes what keeps networks apart and lets them out.
func (r *tableRules) addNetworkRules(s sets, replyMark uint32) {
	established := matchConnState(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)

	forward := r.addChain("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	// Frames within one bridge come by here where br_netfilter is loaded.
	r.addRule(forward, loadMeta(expr.MetaKeyIIFNAME, 1), loadMeta(expr.MetaKeyOIFNAME, 2), inSet(s.same),
		newVerdict(expr.VerdictAccept))
	// A connection is known by its addresses, wherever a packet comes from: before anything that is established passes,
	// nobody may speak for a container of another network, or for who that one speaks with.
	foreign := [][]expr.Any{
		loadMeta(expr.MetaKeyIIFNAME, 1), inSet(s.bridges), r.loadSource(2), notInSet(s.from),
		newVerdict(expr.VerdictDrop),
	}
	r.addRule(forward, foreign...)
	r.addRule(forward, established, newVerdict(expr.VerdictAccept))
	// Ports that containers reach by their gateway's address lead wherever they are published from. What is translated to
	// the host (package hostaddr) goes by the rules for the uplink.
	r.addRule(forward, loadMeta(expr.MetaKeyOIFNAME, 1), inSet(s.bridges), matchTranslated(), newVerdict(expr.VerdictAccept))
	r.addRule(forward, loadMeta(expr.MetaKeyIIFNAME, 1), inSet(s.open), matchDevice(expr.MetaKeyOIFNAME, r.up),
		newVerdict(expr.VerdictAccept))
	r.addRule(forward, loadMeta(expr.MetaKeyIIFNAME, 1), loadMeta(expr.MetaKeyOIFNAME, 2), inSet(s.across),
		newVerdict(expr.VerdictAccept))
	r.addRule(forward, newVerdict(expr.VerdictDrop)) // also from a tunnel to the uplink

	input := r.addChain("input", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter)
	if r.v6 {
		r.addRule(input, matchNeighbourDiscovery(), newVerdict(expr.VerdictAccept))
	}
	r.addRule(input, foreign...)
	r.addRule(input, established, newVerdict(expr.VerdictAccept))
	r.addRule(input, loadMeta(expr.MetaKeyIIFNAME, 1), r.loadDestination(2), inSet(s.own), newVerdict(expr.VerdictAccept))
	r.addRule(input, loadMeta(expr.MetaKeyIIFNAME, 1), inSet(s.bridges), newVerdict(expr.VerdictDrop))
	r.addRule(input, matchDevice(expr.MetaKeyIIFNAME, r.up), newVerdict(expr.VerdictDrop))

	postrouting := r.addChain("postrouting", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	r.addRule(postrouting, matchDevice(expr.MetaKeyOIFNAME, r.up), r.loadSource(1), inSet(s.masq), []expr.Any{&expr.Masq{}})
	// What the port forwarder sends to a service's port is translated as well, and keeps its client's address.
	if replyMark != 0 {
		r.addRule(postrouting, matchConnMark(replyMark), newVerdict(expr.VerdictAccept))
	}
	// Otherwise a container of the same network would answer the asking one directly, which does not know it by that address.
	r.addRule(postrouting, loadMeta(expr.MetaKeyOIFNAME, 1), inSet(s.bridges), matchTranslated(), []expr.Any{&expr.Masq{}})
}

// addForwarderRules makes connections of the port forwarder known and sends what answers them back to it, although it
// goes to addresses that are elsewhere.
func (r *tableRules) addForwarderRules(o Options) {
	if o.ReplyMark == 0 {
		return
	}
	output := r.addChain("output", nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityMangle)
	r.addRule(output, matchMark(o.DialMark), []expr.Any{
		&expr.Immediate{Register: 1, Data: binaryutil.NativeEndian.PutUint32(o.ReplyMark)},
		&expr.Ct{Key: expr.CtKeyMARK, SourceRegister: true, Register: 1},
	})
	prerouting := r.addChain("replies", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityMangle)
	r.addRule(prerouting, matchConnMark(o.ReplyMark), []expr.Any{
		&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{ctReply}},
		&expr.Immediate{Register: 1, Data: binaryutil.NativeEndian.PutUint32(o.ReplyMark)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1},
	})
}

// ctReply is the direction of packets that answer (linux/netfilter/nf_conntrack_tuple_common.h, IP_CT_DIR_REPLY).
const ctReply = 1

type sets struct{ bridges, open, same, across, own, from, masq *nftables.Set }

func (r *tableRules) addSets(up []Net) sets {
	var bridges, open, same, across, own, from, masq []nftables.SetElement
	for _, n := range up {
		at := n.IPv4
		if r.v6 {
			at = n.IPv6
		}
		name := ifnameKey(n.Device)
		bridges = append(bridges, nftables.SetElement{Key: name})
		if !n.Isolated {
			same = append(same, nftables.SetElement{Key: concatAligned(name, name)})
		}
		if !n.Internal {
			open = append(open, nftables.SetElement{Key: name})
		}
		if !at.IsValid() {
			continue
		}
		if n.Tunnel != "" {
			tunnel := ifnameKey(n.Tunnel)
			across = append(across, nftables.SetElement{Key: concatAligned(tunnel, name)})
			if !n.Isolated { // from there only answers come
				across = append(across, nftables.SetElement{Key: concatAligned(name, tunnel)})
			}
		}
		own = append(own, nftables.SetElement{Key: concatAligned(name, at.Addr().AsSlice())})
		from = append(from, nftables.SetElement{
			Key:    concatAligned(name, at.Masked().Addr().AsSlice()),
			KeyEnd: concatAligned(name, lastAddress(at)),
		})
		if !n.NoMasq && !n.Internal {
			masq = append(masq, intervalOf(at.Masked())...)
		}
	}
	addr := nftables.TypeIPAddr
	if r.v6 {
		addr = nftables.TypeIP6Addr
	}
	return sets{
		bridges: r.addSet("bridges", bridges, false, nftables.TypeIFName),
		open:    r.addSet("open", open, false, nftables.TypeIFName),
		same:    r.addSet("same", same, false, nftables.TypeIFName, nftables.TypeIFName),
		across:  r.addSet("across", across, false, nftables.TypeIFName, nftables.TypeIFName),
		own:     r.addSet("own", own, false, nftables.TypeIFName, addr),
		from:    r.addSet("from", from, true, nftables.TypeIFName, addr),
		masq:    r.addSet("masq", masq, true, addr),
	}
}

func (r *tableRules) addSet(
	name string, elements []nftables.SetElement, ranges bool, types ...nftables.SetDatatype,
) *nftables.Set {
	s := &nftables.Set{Table: r.t, Name: name, Interval: ranges, KeyType: types[0]}
	if len(types) > 1 {
		s.Concatenation = true
		var err error
		if s.KeyType, err = nftables.ConcatSetType(types...); err != nil {
			r.keepError(err)
		}
	}
	if err := r.conn.AddSet(s, elements); err != nil {
		r.keepError(fmt.Errorf("set %s: %w", name, err))
	}
	return s
}

func (r *tableRules) keepError(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *tableRules) addChain(
	name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority,
) *nftables.Chain {
	accept := nftables.ChainPolicyAccept
	return r.conn.AddChain(&nftables.Chain{Name: name, Table: r.t, Type: kind, Hooknum: hook, Priority: priority, Policy: &accept})
}

func (r *tableRules) addRule(c *nftables.Chain, parts ...[]expr.Any) {
	var all []expr.Any
	for _, p := range parts {
		all = append(all, p...)
	}
	r.conn.AddRule(&nftables.Rule{Table: r.t, Chain: c, Exprs: all})
}

// loadSource and loadDestination load an address of the packet's header into a 32-bit register's place, counted from 1:
// see loadMeta.
func (r *tableRules) loadSource(place int) []expr.Any      { return r.loadHeader(place, 12, 8) }
func (r *tableRules) loadDestination(place int) []expr.Any { return r.loadHeader(place, 16, 24) }

func (r *tableRules) loadHeader(place int, offset4, offset6 uint32) []expr.Any {
	offset, size := offset4, uint32(4)
	if r.v6 {
		offset, size = offset6, 16
	}
	return []expr.Any{&expr.Payload{DestRegister: registerAt(place), Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size}}
}

// intervalOf returns a prefix as sets with ranges have it: where it begins and where it has ended.
func intervalOf(p netip.Prefix) []nftables.SetElement {
	all := []nftables.SetElement{{Key: p.Addr().AsSlice()}}
	end := p.Addr().AsSlice()
	for i := p.Bits() - 1; i >= 0; i-- { // plus one at the last bit of the prefix
		bit := byte(0x80 >> (i % 8))
		end[i/8] ^= bit
		if end[i/8]&bit != 0 {
			return append(all, nftables.SetElement{Key: end, IntervalEnd: true})
		}
	}
	return all // to the end of all addresses
}

// lastAddress returns the last address of a prefix.
func lastAddress(p netip.Prefix) []byte {
	end := p.Addr().AsSlice()
	for i := p.Bits(); i < p.Addr().BitLen(); i++ {
		end[i/8] |= 0x80 >> (i % 8)
	}
	return end
}

func ifnameKey(name string) []byte {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return padded
}

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
