package member

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"

	"github.com/moby/swarmkit/v2/api"
)

// Changed returns a channel that is closed when what Status, Watch or Place say may have become something else.
func (m *Member) Changed() <-chan struct{} { return m.change.nextChange() }

// Watch returns the stream of changes of what this manager knows. It is as Control, but a call has no limit.
func (m *Member) Watch() (api.WatchClient, error) {
	conn, err := m.findManager()
	if err != nil {
		return nil, err
	}
	return api.NewWatchClient(conn), nil
}

// Certificates returns the folder where SwarmKit keeps the certificate of this node, its key and the swarm's root.
func (m *Member) Certificates() string { return filepath.Join(m.opt.Dir, stateName, "certificates") }

// UnlockKeys returns what may open the key of this node's certificate: the key that it was unlocked with, and the one that the
// managers have now. The caller does not keep them longer than it needs.
func (m *Member) UnlockKeys(ctx context.Context) [][]byte {
	var keys [][]byte
	if _, k, _ := m.viewMembership(); k != nil && len(k.unlockKey) > 0 {
		keys = append(keys, k.unlockKey)
	}
	if ca, err := m.CA(); err == nil {
		if answer, err := ca.GetUnlockKey(ctx, &api.GetUnlockKeyRequest{}); err == nil && len(answer.UnlockKey) > 0 {
			keys = append(keys, answer.UnlockKey)
		}
	}
	return keys
}

// Place is where this node is in the network of its hosts.
type Place struct {
	Listen string     // "address:port", where it listens as a manager
	Data   netip.Addr // by which others reach it for the networks between nodes; invalid: not known
}

// Place returns where this node is: the address for networks is the one that Init or Join was given, else the one that managers
// know it by. In no swarm it is fault.NotAcceptable.
func (m *Member) Place() (Place, error) {
	record, k, _ := m.viewMembership()
	if record == nil {
		return Place{}, errNoSwarm()
	}
	p := Place{Listen: record.ListenAddr}
	advertised, _, _ := net.SplitHostPort(record.AdvertiseAddr)
	for _, text := range []string{record.DataPathAddr, advertised, addressTowards(managersOf(k)), record.LocalAddr} {
		if a, err := netip.ParseAddr(text); err == nil && !a.IsUnspecified() {
			p.Data = a.Unmap().WithZone("")
			break
		}
	}
	return p, nil
}

// managersOf returns the managers that a node knows.
func managersOf(k *keeper) []Peer {
	if k == nil {
		return nil
	}
	now := k.viewRunning()
	if now.node == nil {
		return nil
	}
	return listPeers(now.node.Remotes())
}

// addressTowards returns the address by which this host reaches one of the managers now, "" for none. It sends nothing.
func addressTowards(managers []Peer) string {
	for _, p := range managers {
		conn, err := net.Dial("udp", p.Addr)
		if err != nil {
			continue
		}
		host, _, _ := net.SplitHostPort(conn.LocalAddr().String())
		_ = conn.Close()
		return host
	}
	return ""
}
