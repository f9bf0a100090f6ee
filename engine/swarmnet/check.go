package swarmnet

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/engine/swarm/table"
)

// checkHosted returns fault.Invalid for a view that no swarm has: addresses of it become rules as they are.
func checkHosted(h *table.Hosted) error {
	switch {
	case h.Table == nil:
		return fault.Invalid("table: it is missing")
	case len(h.Table.Networks) == 0:
		return nil
	case !network.IsSwarmID(h.Node):
		return fault.Invalid("node: %q is no id of a swarm", h.Node)
	case !network.IsDevice(h.Tunnel):
		return fault.Invalid("tunnel: %q is no name of a device", h.Tunnel)
	case h.MTU < network.LeastMTU || h.MTU > network.MostMTU:
		return fault.Invalid("mtu: %d is not between %d and %d bytes", h.MTU, network.LeastMTU, network.MostMTU)
	}
	if err := checkNetworks(h.Table.Networks); err != nil {
		return err
	}
	return checkEntries(h.Table)
}

// checkNetworks looks at networks and their subnets.
func checkNetworks(all map[string]table.Network) error {
	ids := slices.Sorted(maps.Keys(all))
	ingress := ""
	for _, id := range ids {
		n := all[id]
		switch {
		case !network.IsSwarmID(id):
			return fault.Invalid("networks: %q is no id of a swarm", id)
		case !n.Subnet.IsValid() || !n.Subnet.Addr().Is4() || n.Subnet != n.Subnet.Masked():
			return fault.Invalid("network %s: %s is no subnet of IPv4", id, n.Subnet)
		case !n.Subnet.Contains(n.Gateway):
			return fault.Invalid("network %s: the gateway %s is not in the subnet %s", id, n.Gateway, n.Subnet)
		case n.Ingress && ingress != "":
			return fault.Invalid("networks %s and %s are both the ingress network", ingress, id)
		}
		if n.Ingress {
			ingress = id
		}
	}
	slices.SortStableFunc(ids, func(a, b string) int { return all[a].Subnet.Compare(all[b].Subnet) })
	for i, id := range ids[1:] { // of two that overlap, all between them in this order overlap the first
		if all[ids[i]].Subnet.Overlaps(all[id].Subnet) {
			return fault.Invalid("networks %s and %s have addresses in common", ids[i], id)
		}
	}
	return nil
}

// checkEntries looks at what is in the networks.
func checkEntries(t *table.Table) error {
	for id, n := range t.Nodes {
		if err := checkAddrs(t, "node "+id, n.Addrs); err != nil {
			return err
		}
	}
	for id, s := range t.Services {
		if err := checkAddrs(t, "service "+id, s.VIPs); err != nil {
			return err
		}
		for _, p := range s.Ports {
			if p.Proto != table.TCP && p.Proto != table.UDP || p.Published == 0 || p.Target == 0 {
				return fault.Invalid("service %s: port %d to %d of %q", id, p.Published, p.Target, p.Proto)
			}
		}
	}
	for id, task := range t.Tasks {
		addrs := make(map[string]netip.Addr, len(task.Attachments))
		for networkID, a := range task.Attachments {
			addrs[networkID] = a.Addr
		}
		if err := checkAddrs(t, "task "+id, addrs); err != nil {
			return err
		}
	}
	return nil
}

func checkAddrs(t *table.Table, whose string, addrs map[string]netip.Addr) error {
	for id, a := range addrs {
		if !t.Networks[id].HasHost(a) {
			return fault.Invalid("%s: the address %q is none of the network %q", whose, a, id)
		}
	}
	return nil
}

// listDoubles returns a sentence for each address that is of more than one holder. The rest of the view does not suffer from it.
func listDoubles(t *table.Table) (problems []string) {
	holders := map[netip.Addr][]string{}
	for id, n := range t.Nodes {
		for _, a := range n.Addrs {
			holders[a] = append(holders[a], "node "+id)
		}
	}
	for id, s := range t.Services {
		for _, a := range s.VIPs {
			holders[a] = append(holders[a], "service "+id)
		}
	}
	for id, task := range t.Tasks {
		for _, a := range task.Attachments {
			holders[a.Addr] = append(holders[a.Addr], "task "+id)
		}
	}
	for a, all := range holders {
		if len(all) > 1 {
			slices.Sort(all)
			problems = append(problems, fmt.Sprintf("the address %s is of %s: not all of them are reached", a, strings.Join(all, " and ")))
		}
	}
	slices.Sort(problems)
	return problems
}
