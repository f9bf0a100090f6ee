package dns

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// registry holds who is in which network. The zero value needs its map.
type registry struct {
	mu       sync.RWMutex // guards networks and all below
	networks map[string]*names
}

// names are those of one network, in lower case.
type names struct {
	members map[string]Member     // by container id
	byName  map[string][]string   // to container ids
	byAddr  map[netip.Addr]string // to a container id
	records Records
}

// openNetworkLocked returns the names of a network, which it makes if there are none yet.
func (r *registry) openNetworkLocked(networkID string) *names {
	n := r.networks[networkID]
	if n == nil {
		n = &names{members: make(map[string]Member), byName: make(map[string][]string), byAddr: make(map[netip.Addr]string)}
		r.networks[networkID] = n
	}
	return n
}

func (n *names) isEmpty() bool { return len(n.members)+len(n.records.Addrs)+len(n.records.Names) == 0 }

func (r *registry) putRecords(networkID string, records Records) {
	lower := make(map[string][]netip.Addr, len(records.Addrs))
	for name, addrs := range records.Addrs {
		lower[strings.ToLower(name)] = addrs
	}
	records.Addrs = lower
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.openNetworkLocked(networkID)
	if n.records = records; n.isEmpty() {
		delete(r.networks, networkID)
	}
}

func (r *registry) putMember(networkID string, m Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.openNetworkLocked(networkID)
	n.removeMember(m.ContainerID)
	n.members[m.ContainerID] = m
	for _, name := range m.Names {
		key := strings.ToLower(name)
		if !slices.Contains(n.byName[key], m.ContainerID) {
			n.byName[key] = append(n.byName[key], m.ContainerID)
		}
	}
	for _, a := range m.Addrs {
		n.byAddr[a] = m.ContainerID
	}
}

func (r *registry) removeMember(networkID, containerID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.networks[networkID]
	if n == nil {
		return
	}
	if n.removeMember(containerID); n.isEmpty() {
		delete(r.networks, networkID)
	}
}

func (n *names) removeMember(containerID string) {
	m, ok := n.members[containerID]
	if !ok {
		return
	}
	delete(n.members, containerID)
	for _, name := range m.Names {
		key := strings.ToLower(name)
		left := slices.DeleteFunc(n.byName[key], func(id string) bool { return id == containerID })
		if len(left) == 0 {
			delete(n.byName, key)
		} else {
			n.byName[key] = left
		}
	}
	for _, a := range m.Addrs {
		if n.byAddr[a] == containerID { // an address that moved is the new one's
			delete(n.byAddr, a)
		}
	}
}

// lookupAddresses returns what a name, in lower case and without its last dot, stands for in a view. known is false if it
// means nothing there. A link comes before a name and leads through its own network alone.
func (r *registry) lookupAddresses(v *View, name string) (addrs []netip.Addr, known bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, networkID := range v.Networks {
		id, linked := v.Links[networkID].findContainer(name)
		if n := r.networks[networkID]; linked && n != nil {
			addrs = append(addrs, n.members[id].Addrs...)
		}
		known = known || linked // also while the container is not there
	}
	if len(addrs) > 0 {
		return addrs, true
	}
	var v4, v6 bool
	for _, networkID := range v.Networks {
		_, linked := v.Links[networkID].findContainer(name)
		n := r.networks[networkID]
		if linked || n == nil {
			continue
		}
		found, here := n.lookupName(name)
		known = known || here
		// The first network that has an address of the family says where the name leads.
		var has4, has6 bool
		for _, a := range found {
			if a.Is4() && !v4 || a.Is6() && !v6 {
				addrs = append(addrs, a)
			}
			has4, has6 = has4 || a.Is4(), has6 || a.Is6()
		}
		v4, v6 = v4 || has4, v6 || has6
	}
	return addrs, known
}

// lookupName returns the addresses of a name, or of a name followed by the network's. Records come before containers.
func (n *names) lookupName(name string) (addrs []netip.Addr, known bool) {
	if addrs, known = n.records.Addrs[name]; known {
		return addrs, true
	}
	if network := strings.ToLower(n.records.Network); network != "" {
		if short, ok := strings.CutSuffix(name, "."+network); ok {
			if addrs, known = n.records.Addrs[short]; known {
				return addrs, true
			}
		}
	}
	ids := n.lookupContainers(name)
	for _, id := range ids {
		addrs = append(addrs, n.members[id].Addrs...)
	}
	return addrs, len(ids) > 0
}

// lookupContainers returns the containers that a name, or a name followed by the network's, stands for.
func (n *names) lookupContainers(name string) []string {
	if ids := n.byName[name]; len(ids) > 0 {
		return ids
	}
	// All members of a network know it by one name, but a rename may be half through.
	for cut := strings.LastIndexByte(name, '.'); cut > 0; cut = strings.LastIndexByte(name[:cut], '.') {
		var ids []string
		for _, id := range n.byName[name[:cut]] {
			if network := n.members[id].Network; network != "" && strings.EqualFold(network, name[cut+1:]) {
				ids = append(ids, id)
			}
		}
		if len(ids) > 0 {
			return ids
		}
	}
	return nil
}

// nameOf returns the name that an address of a view's networks has, as a domain name; empty: it is nobody's.
func (r *registry) nameOf(v *View, addr netip.Addr) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, networkID := range v.Networks {
		n := r.networks[networkID]
		if n == nil {
			continue
		}
		known, network := []string{n.records.Names[addr]}, n.records.Network
		if id, ok := n.byAddr[addr]; ok {
			known, network = n.members[id].Names, n.members[id].Network
		}
		for _, name := range known {
			if name != "" && network != "" {
				name += "." + network
			}
			if _, ok := dns.IsDomainName(name); ok && name != "" { // a container's name may be longer than a label
				return dns.Fqdn(name)
			}
		}
	}
	return ""
}
