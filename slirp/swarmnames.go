package slirp

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"moss/engine/swarm/table"
	"moss/slirp/dns"
)

// recordsOf returns the names of a swarm's networks, by their ids: of services, with "tasks." before them of their ready tasks,
// and of tasks and their containers on all nodes. A name that several have leads to all of them. Containers of the ingress
// network do not reach each other: it has no names.
func recordsOf(t *table.Table) map[string]dns.Records {
	all := make(map[string]dns.Records, len(t.Networks))
	for id, n := range t.Networks {
		r := dns.Records{Addrs: map[string][]netip.Addr{}, Names: map[netip.Addr]string{}}
		if isName(n.Name) {
			r.Network = n.Name
		}
		if !n.Ingress {
			all[id] = r
		}
	}
	for id, r := range all {
		addServices(t, id, r)
	}
	return all
}

// longestName is how many bytes a name in DNS has at most.
const longestName = 253

// isName reports whether a host could have the name. Another one would only come to light in answers about an address.
func isName(name string) bool {
	odd := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }
	return name != "" && len(name) <= longestName && !strings.ContainsFunc(name, odd)
}

// addServices adds the names of one network.
func addServices(t *table.Table, networkID string, r dns.Records) {
	tasks := tasksOf(t, networkID)
	lead := func(name string, addrs []netip.Addr) {
		if name = strings.ToLower(name); isName(name) {
			r.Addrs[name] = mergeAddrs(r.Addrs[name], addrs)
		}
	}
	for _, serviceID := range slices.Sorted(maps.Keys(t.Services)) {
		s, members := t.Services[serviceID], tasks[serviceID]
		vip, has := s.VIPs[networkID]
		if !has && len(members) == 0 || !isName(s.Name) {
			continue
		}
		var ready []netip.Addr
		for _, m := range members {
			if m.Ready {
				ready = append(ready, m.addr)
			}
		}
		leads := ready
		if has && !s.DNSRR {
			leads = []netip.Addr{vip}
		}
		lead(s.Name, leads)
		lead("tasks."+s.Name, ready)
		for _, alias := range s.Aliases[networkID] {
			lead(alias, leads)
		}
		for _, m := range members {
			r.Names[m.addr] = containerName(s.Name, m)
			lead(r.Names[m.addr], []netip.Addr{m.addr})
			for _, alias := range m.aliases {
				if !slices.Contains(s.Aliases[networkID], alias) { // SwarmKit hands those of the service to its tasks
					lead(alias, []netip.Addr{m.addr})
				}
			}
		}
	}
}

// member is a task in a network.
type member struct {
	table.Task

	id      string
	addr    netip.Addr
	aliases []string
}

// tasksOf returns the tasks in a network by service, in the order of their addresses and ids.
func tasksOf(t *table.Table, networkID string) map[string][]member {
	all := map[string][]member{}
	for id, task := range t.Tasks {
		if a, ok := task.Attachments[networkID]; ok && task.Service != "" {
			all[task.Service] = append(all[task.Service], member{Task: task, id: id, addr: a.Addr, aliases: a.Aliases})
		}
	}
	for _, some := range all {
		slices.SortFunc(some, func(a, b member) int { return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.id, b.id)) })
	}
	return all
}

// containerName is the name of a task's container: with its slot, or with its node for a service that runs on all of them.
func containerName(service string, m member) string {
	if m.Slot == 0 {
		return fmt.Sprintf("%s.%s.%s", service, m.Node, m.id)
	}
	return fmt.Sprintf("%s.%d.%s", service, m.Slot, m.id)
}

// mergeAddrs returns all addresses once, in order.
func mergeAddrs(some, more []netip.Addr) []netip.Addr {
	all := slices.Concat(some, more)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}
