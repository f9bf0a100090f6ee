package bridge

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
)

// PortKey is a port that is published on all addresses of the host.
type PortKey struct {
	Proto byte // unix.IPPROTO_TCP or unix.IPPROTO_UDP
	Port  uint16
}

// PortTarget is where it leads.
type PortTarget struct {
	Addr netip.Addr // IPv4
	Port uint16
}

// publishedMap leads from a protocol and a port of the gateways to an address and a port.
const publishedMap = "published"

// Ports changes which published ports containers reach by the addresses of their gateways as well: the old ones are
// dropped and the new ones added, over those that have the same key. On error nothing has changed.
func (f *Fabric) Ports(ctx context.Context, drop []PortKey, add map[PortKey]PortTarget) error {
	if len(drop)+len(add) == 0 {
		return nil
	}
	f.setup.Lock()
	defer f.setup.Unlock()
	l, err := f.ensureLiveLocked(ctx)
	if err != nil {
		return err
	}
	next := make(map[PortKey]PortTarget, len(f.ports)+len(add))
	maps.Copy(next, f.ports)
	for _, k := range drop {
		delete(next, k)
	}
	maps.Copy(next, add)
	var gone, fresh []nftables.SetElement
	for k, to := range f.ports {
		if next[k] != to {
			gone = append(gone, portElement(k, to))
		}
	}
	for k, to := range next {
		if f.ports[k] != to {
			fresh = append(fresh, portElement(k, to))
		}
	}
	if f.ruled {
		if err := l.changePublished(gone, fresh); err != nil {
			return fmt.Errorf("lead published ports from the gateways: %w", err)
		}
	}
	f.ports = next
	return nil
}

func (l *live) changePublished(gone, fresh []nftables.SetElement) error {
	s, err := publishedSet(&nftables.Table{Name: table, Family: nftables.TableFamilyIPv4})
	if err != nil {
		return err
	}
	for some := range slices.Chunk(gone, mostElements) {
		if err := l.rules.SetDeleteElements(s, some); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(fresh, mostElements) {
		if err := l.rules.SetAddElements(s, some); err != nil {
			return err
		}
	}
	return l.rules.Flush()
}

// mostElements is how many elements go into one message: the length of their list is a number of 16 bits there.
const mostElements = 500

func portElement(k PortKey, to PortTarget) nftables.SetElement {
	return nftables.SetElement{
		Key: concatAligned([]byte{k.Proto}, binaryutil.BigEndian.PutUint16(k.Port)),
		Val: concatAligned(to.Addr.AsSlice(), binaryutil.BigEndian.PutUint16(to.Port)),
	}
}

func publishedSet(t *nftables.Table) (*nftables.Set, error) {
	key, err := nftables.ConcatSetType(nftables.TypeInetProto, nftables.TypeInetService)
	if err != nil {
		return nil, err
	}
	to, err := nftables.ConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)
	if err != nil {
		return nil, err
	}
	return &nftables.Set{Table: t, Name: publishedMap, IsMap: true, Concatenation: true, KeyType: key, DataType: to}, nil
}

// addPublishedRules makes the map from ports of the gateways to containers. An internal network has no part in it.
func (r *tableRules) addPublishedRules(ports map[PortKey]PortTarget, s sets) {
	elements := make([]nftables.SetElement, 0, len(ports))
	for k, to := range ports {
		elements = append(elements, portElement(k, to))
	}
	m, err := publishedSet(r.t)
	if err == nil {
		err = r.conn.AddSet(m, nil)
	}
	for some := range slices.Chunk(elements, mostElements) {
		if err == nil {
			err = r.conn.SetAddElements(m, some)
		}
	}
	if err != nil {
		r.keepError(err)
		return
	}
	prerouting := r.addChain("prerouting", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	const reg32 = 8 // NFT_REG32_00, of four bytes: a protocol and a port lie in two of them, and so do an address and a port
	r.addRule(prerouting, loadMeta(expr.MetaKeyIIFNAME, 1), inSet(s.open), r.loadDestination(2), inSet(s.own), []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg32},
		&expr.Payload{DestRegister: reg32 + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Lookup{SourceRegister: reg32, DestRegister: reg32, IsDestRegSet: true, SetName: m.Name, SetID: m.ID},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(r.t.Family), RegAddrMin: reg32, RegProtoMin: reg32 + 1, Specified: true},
	})
}
