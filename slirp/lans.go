package slirp

import (
	"maps"
	"slices"
	"sync"

	"moss/engine/fault"
	"moss/engine/network"
)

// lanTable holds the networks that containers can join, and the containers that have joined them.
type lanTable struct {
	mu   sync.Mutex // guards byID and the members of each network
	byID map[string]*lan
}

func (t *lanTable) storeLAN(l *lan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[l.record.ID] = l
}

// findLAN returns the network, or nil.
func (t *lanTable) findLAN(networkID string) *lan {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[networkID]
}

// findDefault returns the default network, or nil before Adopt.
func (t *lanTable) findDefault() *lan {
	for _, l := range t.listLANs() {
		if l.record.Name == network.Bridge {
			return l
		}
	}
	return nil
}

func (t *lanTable) listLANs() []*lan {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.byID))
}

// takeUnused removes the network from the table and returns it, or nil for an unknown one. A network with members is a
// fault.Conflict.
func (t *lanTable) takeUnused(networkID string) (*lan, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byID[networkID]
	if l != nil && len(l.members) > 0 {
		return nil, fault.Conflict("error while removing network: network %s id %s has active endpoints", l.record.Name, networkID)
	}
	delete(t.byID, networkID)
	return l, nil
}

// takeAll empties the table.
func (t *lanTable) takeAll() []*lan {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Collect(maps.Values(t.byID))
	clear(t.byID)
	return all
}

// addMember makes the container a member of the network, which then cannot be removed.
func (t *lanTable) addMember(containerID string, nw *network.Network) (*lan, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byID[nw.ID]
	if l == nil {
		return nil, fault.NotFound("network %s not found", nw.Name)
	}
	if l.members[containerID] {
		return nil, fault.Forbidden("container %s is already connected to network %s", containerID, nw.Name)
	}
	l.members[containerID] = true
	return l, nil
}

// restoreMember makes the container of an earlier engine a member again. It returns the network, or nil for an unknown one.
func (t *lanTable) restoreMember(containerID, networkID string) *lan {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byID[networkID]
	if l != nil {
		l.members[containerID] = true
	}
	return l
}

func (t *lanTable) removeMember(containerID string, l *lan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(l.members, containerID)
}
