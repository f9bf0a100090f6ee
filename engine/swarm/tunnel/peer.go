package tunnel

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"moss/engine/swarm/table"
)

// keepalive is how often, in seconds, a node that cannot be called says something, so that what stands in between lets
// packets to it through: most forget a flow of UDP after 30 s.
const keepalive = 25

// PrivateKey is the secret of a node's tunnel. It is not shown.
type PrivateKey [32]byte

// String hides the key.
func (PrivateKey) String() string { return "[hidden]" }

// GoString hides the key.
func (PrivateKey) GoString() string { return "[hidden]" }

// NewPrivateKey draws a key.
func NewPrivateKey() (k PrivateKey, err error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return k, fmt.Errorf("make a key for the swarm's networks: %w", err)
	}
	copy(k[:], key.Bytes())
	return k, nil
}

// Public returns the key that others know the node by.
func (k PrivateKey) Public() (p table.Key, err error) {
	key, err := ecdh.X25519().NewPrivateKey(k[:])
	if err != nil {
		return p, fmt.Errorf("read the key for the swarm's networks: %w", err)
	}
	copy(p[:], key.PublicKey().Bytes())
	return p, nil
}

// Peer is another node.
type Peer struct {
	Key       table.Key
	Data      netip.AddrPort // where it is called; invalid: it calls
	Addrs     []netip.Addr   // that it may send from, in order
	Keepalive bool           // say something now and then: this node cannot be called
}

// PeersOf returns the peers of a node, from its view of the table: the nodes with a key, with their own addresses and
// those of their tasks. Keys are told by nodes and are no secrets: nodes that show the same one are one peer, so that none
// takes another one's addresses away, and one that shows this node's own is none.
func PeersOf(t *table.Table, node string) []Peer {
	own := t.Nodes[node]
	peers := map[table.Key]*Peer{}
	for _, id := range slices.Sorted(maps.Keys(t.Nodes)) {
		n := t.Nodes[id]
		if n.Key == (table.Key{}) || n.Key == own.Key {
			continue
		}
		p := peers[n.Key]
		if p == nil {
			p = &Peer{Key: n.Key}
			peers[n.Key] = p
		}
		if !p.Data.IsValid() {
			p.Data = n.Data
		}
	}
	for a, key := range holdersOf(t) {
		if p := peers[key]; p != nil {
			p.Addrs = append(p.Addrs, a)
		}
	}
	all := make([]Peer, 0, len(peers))
	for _, p := range peers {
		p.Keepalive = !own.Data.IsValid() && p.Data.IsValid()
		slices.SortFunc(p.Addrs, netip.Addr.Compare)
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Peer) int { return slices.Compare(a.Key[:], b.Key[:]) })
	return all
}

// holdersOf returns the key of who may speak for an address: no key, which nobody has, where several would. An address that
// its network does not have is left out, as its route would take it from others.
func holdersOf(t *table.Table) map[netip.Addr]table.Key {
	holders := map[netip.Addr]table.Key{}
	note := func(network string, a netip.Addr, key table.Key) {
		if !t.Networks[network].HasHost(a) {
			return
		}
		if other, ok := holders[a]; ok && other != key {
			key = table.Key{}
		}
		holders[a] = key
	}
	for _, n := range t.Nodes {
		for network, a := range n.Addrs {
			note(network, a, n.Key)
		}
	}
	for _, task := range t.Tasks {
		for network, a := range task.Attachments {
			note(network, a.Addr, t.Nodes[task.Node].Key)
		}
	}
	return holders
}

// configFor returns what changes for WireGuard, in the words of its configuration protocol, "" for nothing. Where a
// peer is called changes only with the table: WireGuard itself follows a peer that moves.
func configFor(old, next map[table.Key]Peer) string {
	var gone, fresh strings.Builder
	for key, o := range old {
		n, stays := next[key]
		if !stays {
			fmt.Fprintf(&gone, "public_key=%s\nremove=true\n", hex.EncodeToString(key[:]))
			continue
		}
		writePeer(&gone, key, linesFor("allowed_ip=-", o.Addrs, n.Addrs))
	}
	for key, n := range next {
		o, known := old[key]
		var lines []string
		if n.Data.IsValid() && (!known || o.Data != n.Data) {
			// A zone holds what its author likes, also further lines, and means nothing on another host.
			lines = append(lines, "endpoint="+netip.AddrPortFrom(n.Data.Addr().WithZone(""), n.Data.Port()).String())
		}
		if n.Keepalive != o.Keepalive {
			seconds := 0
			if n.Keepalive {
				seconds = keepalive
			}
			lines = append(lines, fmt.Sprint("persistent_keepalive_interval=", seconds))
		}
		lines = append(lines, linesFor("allowed_ip=", n.Addrs, o.Addrs)...)
		if !known && len(lines) == 0 {
			lines = []string{"protocol_version=1"} // a peer that calls
		}
		writePeer(&fresh, key, lines)
	}
	return gone.String() + fresh.String()
}

// linesFor returns a line for each address that is not among the others.
func linesFor(word string, addrs, others []netip.Addr) (lines []string) {
	known := make(map[netip.Addr]bool, len(others))
	for _, a := range others {
		known[a] = true
	}
	for _, a := range addrs {
		if !known[a] {
			lines = append(lines, word+netip.PrefixFrom(a, a.BitLen()).String())
		}
	}
	return lines
}

func writePeer(b *strings.Builder, key table.Key, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "public_key=%s\n", hex.EncodeToString(key[:]))
	for _, l := range lines {
		b.WriteString(l)
		b.WriteByte('\n')
	}
}
