package table

import (
	"maps"
	"net/netip"
)

// Table is what a manager knows, or the part of it that concerns one node. Its maps go by SwarmKit's ids.
type Table struct {
	Version  uint64             `json:"version"` // an index of the raft log
	Nodes    map[string]Node    `json:"nodes,omitempty"`
	Networks map[string]Network `json:"networks,omitempty"`
	Services map[string]Service `json:"services,omitempty"`
	Tasks    map[string]Task    `json:"tasks,omitempty"`
}

// Node is a machine of the swarm.
type Node struct {
	Name  string                `json:"name"`
	Ready bool                  `json:"ready,omitempty"`
	Key   Key                   `json:"key"`             // the public key of its tunnel; the zero value: it has none yet
	Data  netip.AddrPort        `json:"data"`            // where its tunnel is reached; invalid: it is behind NAT and calls itself
	Addrs map[string]netip.Addr `json:"addrs,omitempty"` // its own addresses, by network
}

// Network is a network of the swarm.
type Network struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels,omitempty"`
	Subnet   netip.Prefix      `json:"subnet"`
	Gateway  netip.Addr        `json:"gateway"`
	Internal bool              `json:"internal,omitempty"`
	Ingress  bool              `json:"ingress,omitempty"`
}

// WithoutNetworks returns the table without the networks whose ids are keys of refused. What is said to be in them stays, and is
// in no network.
func (t *Table) WithoutNetworks(refused map[string]string) *Table {
	if len(refused) == 0 {
		return t
	}
	less := *t
	less.Networks = keepKeys(t.Networks, func(id string) bool {
		_, is := refused[id]
		return !is
	})
	return &less
}

// HasHost reports whether a container, a service or a node can have an address in the network: the gateway's, the first and the
// last one of the subnet are nobody's.
func (n Network) HasHost(a netip.Addr) bool {
	return n.Subnet.Contains(a) && a != n.Gateway && a != n.Subnet.Masked().Addr() && n.Subnet.Contains(a.Next())
}

// Service is a service with its addresses and ports.
type Service struct {
	Name  string                `json:"name"`
	DNSRR bool                  `json:"dnsrr,omitempty"` // its name leads to its tasks: it has no addresses
	VIPs  map[string]netip.Addr `json:"vips,omitempty"`  // by network
	// Aliases are further names that lead where the service's own leads, by network.
	Aliases map[string][]string `json:"aliases,omitempty"`
	Ports   []Port              `json:"ports,omitempty"`
}

// Port is a published port, on every node.
type Port struct {
	Proto     Proto  `json:"proto"`
	Published uint16 `json:"published"`
	Target    uint16 `json:"target"`
}

// Proto is a protocol with ports.
type Proto string

// The protocols with ports.
const (
	TCP Proto = "tcp"
	UDP Proto = "udp"
)

// Task is a task that has a node.
type Task struct {
	Service     string                `json:"service,omitempty"`
	Node        string                `json:"node"`
	Slot        uint64                `json:"slot,omitempty"`
	Ready       bool                  `json:"ready,omitempty"` // it runs, is healthy, and shall go on: connections may go to it
	Attachments map[string]Attachment `json:"attachments"`     // by network
}

// Attachment is the place of a task in a network.
type Attachment struct {
	Addr    netip.Addr `json:"addr"`
	Aliases []string   `json:"aliases,omitempty"`
}

// View returns the part of the table that concerns a node: the networks in which it has an address or a task, with all
// tasks in them, their nodes and services; and the node itself. Nothing of other networks is in it, not even the other
// addresses of tasks and services that are in both.
func (t *Table) View(node string) *Table {
	v := &Table{
		Version: t.Version, Nodes: map[string]Node{}, Networks: map[string]Network{}, Services: map[string]Service{},
		Tasks: map[string]Task{},
	}
	own := t.networksOf(node)
	for id := range own {
		if n, ok := t.Networks[id]; ok {
			v.Networks[id] = n
		}
	}
	seen := func(id string) bool { _, ok := v.Networks[id]; return ok }
	for id, task := range t.Tasks {
		if task.Attachments = keepKeys(task.Attachments, seen); len(task.Attachments) > 0 {
			v.Tasks[id] = task
		}
	}
	for id, n := range t.Nodes {
		if n.Addrs = keepKeys(n.Addrs, seen); len(n.Addrs) > 0 || id == node {
			v.Nodes[id] = n
		}
	}
	for id, s := range t.Services {
		if s = s.keepWithin(seen); len(s.VIPs) > 0 {
			v.Services[id] = s
		}
	}
	for _, task := range v.Tasks {
		if n, ok := t.Nodes[task.Node]; ok {
			n.Addrs = keepKeys(n.Addrs, seen)
			v.Nodes[task.Node] = n
		}
		if s, ok := t.Services[task.Service]; ok {
			v.Services[task.Service] = s.keepWithin(seen)
		}
	}
	return v
}

// keepWithin returns what of the service is in networks that are seen.
func (s Service) keepWithin(seen func(network string) bool) Service {
	s.VIPs, s.Aliases = keepKeys(s.VIPs, seen), keepKeys(s.Aliases, seen)
	return s
}

// networksOf returns the ids of the networks in which a node has an address or a task.
func (t *Table) networksOf(node string) map[string]bool {
	own := map[string]bool{}
	for id := range t.Nodes[node].Addrs {
		own[id] = true
	}
	for _, task := range t.Tasks {
		if task.Node == node {
			for id := range task.Attachments {
				own[id] = true
			}
		}
	}
	return own
}

// keepKeys returns the entries whose key is wanted: m itself where that is all of them.
func keepKeys[V any](m map[string]V, wanted func(string) bool) map[string]V {
	for k := range m {
		if !wanted(k) {
			kept := maps.Clone(m)
			maps.DeleteFunc(kept, func(k string, _ V) bool { return !wanted(k) })
			return kept
		}
	}
	return m
}
