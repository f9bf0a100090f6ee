package balance

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"moss/engine/swarm/table"
	"moss/engine/thread"
)

// DropFlows has the kernel forget flows of UDP, in the container's namespace at this path, that lead from a service's address to
// a task that was behind it in old and is not any more: their next packet goes to one that is. Connections of TCP go on. Without
// old all that lead to others are forgotten. The kernel needs nf_conntrack_netlink.
func (c Client) DropFlows(netNS string, old *Client) error {
	behind := func(all []VIP, to netip.Addr) (backends []netip.Addr, known bool) {
		i := slices.IndexFunc(all, func(v VIP) bool { return v.Addr == to })
		if i < 0 {
			return nil, false
		}
		return all[i].Backends, true
	}
	if old != nil && !slices.ContainsFunc(old.VIPs, func(v VIP) bool {
		now, _ := behind(c.VIPs, v.Addr)
		return takesOut(v.Backends, now)
	}) {
		return nil
	}
	return dropFlows(netNS, func(to netip.Addr, _ uint16, answers netip.Addr) bool {
		now, ours := behind(c.VIPs, to)
		if !ours && old != nil {
			_, ours = behind(old.VIPs, to)
		}
		return ours && !slices.Contains(now, answers)
	})
}

// DropFlows is Client.DropFlows for what published ports lead to, in the containers' namespace at this path.
func (g Gate) DropFlows(netNS string, old *Gate) error {
	behind := func(all []Port, port uint16) []netip.Addr {
		i := slices.IndexFunc(all, func(p Port) bool { return p.Proto == table.UDP && p.Published == port })
		if i < 0 {
			return nil
		}
		return all[i].Backends
	}
	if old != nil && old.Ingress == g.Ingress && !slices.ContainsFunc(old.Ports, func(p Port) bool {
		return p.Proto == table.UDP && takesOut(p.Backends, behind(g.Ports, p.Published))
	}) {
		return nil
	}
	return dropFlows(netNS, func(to netip.Addr, port uint16, answers netip.Addr) bool {
		if to.IsValid() && old != nil && to == old.Ingress && to != g.Ingress {
			return true
		}
		return to == g.Ingress && !slices.Contains(behind(g.Ports, port), answers)
	})
}

// takesOut reports whether one of the first is not among the second.
func takesOut(was, now []netip.Addr) bool {
	return slices.ContainsFunc(was, func(a netip.Addr) bool { return !slices.Contains(now, a) })
}

// stale matches the flows of UDP of which it is true: by the address and the port they were sent to, and by who answers.
type stale func(to netip.Addr, port uint16, answers netip.Addr) bool

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (s stale) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	to, _ := netip.AddrFromSlice(flow.Forward.DstIP)
	answers, _ := netip.AddrFromSlice(flow.Reverse.SrcIP)
	return flow.Forward.Protocol == unix.IPPROTO_UDP && s(to.Unmap(), flow.Forward.DstPort, answers.Unmap())
}

func dropFlows(netNS string, s stale) error {
	return thread.InNetworkAt(netNS, func() error {
		handle, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
		if err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		defer handle.Close()
		if _, err := handle.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, s); err != nil {
			return fmt.Errorf("forget flows of UDP to tasks that are taken out: %w", err)
		}
		return nil
	})
}
