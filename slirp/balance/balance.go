// Package balance leads connections to services: from a service's address, or from a published port, to a task that is
// ready. It turns a node's view of the table into rules, and sets them. It knows nothing of where tables come from, of
// tunnels and of how devices are made.
//
// # In a container's namespace
//
// The address of a service is translated where the connection begins, in the client's own namespace (Client): the task
// sees the client's address, and a task of the same node answers directly. Every connection draws one of the ready tasks.
// A counter would begin anew at each change, and every short-lived client with the first task. Without a ready task
// the connection is refused at once.
//
// # In the containers' namespace of the node
//
// Gate keeps the networks apart at the tunnel: what comes out of it goes only to the bridge of the network from which it
// was sent, and into it only what stays within the network of its bridge. To the node itself come answers only. It also
// leads published ports, which the port forwarder connects to at the node's own address in the ingress network, to a ready
// task on any node. A task of this node sees the client's address; what goes through the tunnel gets the node's own, and so does
// UDP for a task that is in another network as well: it would answer there, and by the address that it has there.
//
// # What else is needed
//
// The rules are tables of their own, and what one table accepts another may still drop: the bridges' forward chain must let
// pass what goes between a bridge of the swarm and the tunnel's device. An open connection goes on when rules change: the
// kernel keeps its translation. That is so for flows of UDP as well, which DropFlows has the kernel forget.
package balance

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"moss/engine/swarm/table"
)

// Client is what a container's namespace must translate.
type Client struct{ VIPs []VIP }

// VIP is the address of a service and the ready tasks behind it, in order.
type VIP struct {
	Addr     netip.Addr
	Backends []netip.Addr
}

// ClientOf returns the rules of a container that is in these networks. An address that two services have is the first one's: the
// kernel takes all rules or none, and refuses two of the same address.
func ClientOf(t *table.Table, networks []string) Client {
	var c Client
	for _, network := range networks {
		ready := readyIn(t, network)
		for _, id := range slices.Sorted(maps.Keys(t.Services)) {
			s := t.Services[id]
			if addr, ok := s.VIPs[network]; ok && !s.DNSRR && !t.Networks[network].Ingress {
				c.VIPs = append(c.VIPs, VIP{Addr: addr, Backends: ready[id]})
			}
		}
	}
	slices.SortStableFunc(c.VIPs, func(a, b VIP) int { return a.Addr.Compare(b.Addr) })
	c.VIPs = slices.CompactFunc(c.VIPs, func(a, b VIP) bool { return a.Addr == b.Addr })
	return c
}

// ServicePort is a published port of a service.
type ServicePort struct {
	table.Port

	ID, Name string // of the service
}

// PortsOf returns the published ports of all services in order, each once, and those that are another service's already.
func PortsOf(t *table.Table) (ports, taken []ServicePort) {
	var all []ServicePort
	for id, s := range t.Services {
		for _, p := range s.Ports {
			all = append(all, ServicePort{Port: p, ID: id, Name: s.Name})
		}
	}
	slices.SortFunc(all, func(a, b ServicePort) int {
		return cmp.Or(cmp.Compare(a.Published, b.Published), cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.ID, b.ID), cmp.Compare(a.Target, b.Target))
	})
	for _, p := range slices.Compact(all) {
		if n := len(ports); n > 0 && ports[n-1].Published == p.Published && ports[n-1].Proto == p.Proto {
			taken = append(taken, p)
			continue
		}
		ports = append(ports, p)
	}
	return ports, taken
}

// Gate is what the containers' namespace of a node needs.
type Gate struct {
	Tunnel  string // the device
	Members []Member
	Ingress netip.Addr // where the port forwarder connects to; invalid: no ports are published
	Ports   []Port
	Shared  []netip.Addr // tasks of this node behind ports that are in other networks as well, in order
}

// Member is a network with its bridge on this node.
type Member struct {
	Bridge string
	Subnet netip.Prefix
}

// Port is a published port and the ready tasks behind it, in order.
type Port struct {
	Proto     table.Proto
	Published uint16
	Target    uint16
	Backends  []netip.Addr
}

// GateOf returns the rules of a node. bridges are the devices of networks, by their ids.
func GateOf(t *table.Table, node, tunnel string, bridges map[string]string) Gate {
	g := Gate{Tunnel: tunnel}
	for id, n := range t.Networks {
		if bridge, ok := bridges[id]; ok {
			g.Members = append(g.Members, Member{Bridge: bridge, Subnet: n.Subnet})
		}
		if !n.Ingress {
			continue
		}
		g.Ingress = t.Nodes[node].Addrs[id]
		for serviceID, s := range t.Services {
			if len(s.Ports) > 0 {
				g.Shared = append(g.Shared, sharedTasks(t, node, id, serviceID)...)
			}
		}
		ready := readyIn(t, id)
		ports, _ := PortsOf(t)
		for _, p := range ports {
			g.Ports = append(g.Ports, Port{Proto: p.Proto, Published: p.Published, Target: p.Target, Backends: ready[p.ID]})
		}
	}
	slices.SortFunc(g.Members, func(a, b Member) int { return cmp.Compare(a.Bridge, b.Bridge) })
	slices.SortFunc(g.Shared, netip.Addr.Compare)
	g.Shared = slices.Compact(g.Shared)
	return g
}

// sharedTasks returns the addresses, in a network, of a service's tasks on a node that are in other networks too.
func sharedTasks(t *table.Table, node, network, service string) (addrs []netip.Addr) {
	for _, task := range t.Tasks {
		if a, ok := task.Attachments[network]; ok && task.Service == service && task.Node == node && len(task.Attachments) > 1 {
			addrs = append(addrs, a.Addr)
		}
	}
	return addrs
}

// readyIn returns the addresses of ready tasks in a network, by service, in order.
func readyIn(t *table.Table, network string) map[string][]netip.Addr {
	ready := map[string][]netip.Addr{}
	for _, task := range t.Tasks {
		if a, ok := task.Attachments[network]; ok && task.Ready && task.Service != "" {
			ready[task.Service] = append(ready[task.Service], a.Addr)
		}
	}
	for _, addrs := range ready {
		slices.SortFunc(addrs, netip.Addr.Compare)
	}
	return ready
}
