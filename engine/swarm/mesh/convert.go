package mesh

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/manager/allocator/networkallocator"

	"moss/engine/swarm/provider"
	"moss/engine/swarm/table"
)

// The labels by which nodes tell managers of their tunnel, among those of the engine.
const (
	labelPrefix = "moss.tunnel."
	labelKey    = labelPrefix + "key"
	labelData   = labelPrefix + "data"
	labelRoutes = labelPrefix + "routes"
)

// What a manager knows comes from nodes as well: whatever cannot be read is left out.

// convertNode returns a node and the routes it has told of.
func convertNode(n *api.Node) (node table.Node, routes []provider.Taken) {
	node.Name, node.Ready = n.Spec.Annotations.Name, n.Status.State == api.NodeStatus_READY
	if d := n.Description; d != nil {
		node.Name = cmp.Or(d.Hostname, node.Name)
		if d.Engine != nil {
			_ = node.Key.UnmarshalText([]byte(d.Engine.Labels[labelKey]))
			node.Data = parseData(d.Engine.Labels[labelData])
			routes = parseRoutes(d.Engine.Labels[labelRoutes], fmt.Sprintf("node %.*q", longestHostname, node.Name))
		}
	}
	attachments := n.Attachments
	if n.Attachment != nil { // as older managers have it
		attachments = append(slices.Clone(attachments), n.Attachment)
	}
	for _, a := range attachments {
		if addr, ok := firstAddr(a); ok {
			node.Addrs = putEntry(node.Addrs, a.Network.ID, addr)
		}
	}
	return node, routes
}

// longestHostname is how many bytes the kernel takes.
const longestHostname = 64

// parseData reads where a tunnel is called; invalid: nowhere. A zone has no meaning on another host, and may hold any text.
func parseData(text string) netip.AddrPort {
	data, err := netip.ParseAddrPort(text)
	a := data.Addr().Unmap()
	if err != nil || data.Port() == 0 || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a, data.Port())
}

// mostRoutes bounds what one node can take out of the pool.
const mostRoutes = 256

func parseRoutes(text, holder string) (routes []provider.Taken) {
	for part := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(part)
		if err == nil && p.Addr().Is4() && p.Bits() >= shortestRoute && len(routes) < mostRoutes {
			routes = append(routes, provider.Taken{Prefix: p.Masked(), Holder: holder})
		}
	}
	return routes
}

// convertNetwork reports false for a network that has no subnet yet.
func convertNetwork(n *api.Network) (network table.Network, ok bool) {
	if n.IPAM == nil || len(n.IPAM.Configs) == 0 {
		return network, false
	}
	network = table.Network{
		Name: n.Spec.Annotations.Name, Labels: n.Spec.Annotations.Labels, Internal: n.Spec.Internal,
		Ingress: networkallocator.IsIngressNetwork(n),
	}
	var err error
	if network.Subnet, err = netip.ParsePrefix(n.IPAM.Configs[0].Subnet); err != nil {
		return network, false
	}
	network.Gateway, err = netip.ParseAddr(n.IPAM.Configs[0].Gateway)
	return network, err == nil
}

func convertService(s *api.Service) table.Service {
	service := table.Service{Name: s.Spec.Annotations.Name}
	if e := s.Spec.Endpoint; e != nil {
		service.DNSRR = e.Mode == api.ResolutionModeDNSRoundRobin
	}
	networks := s.Spec.Task.Networks
	if len(networks) == 0 {
		networks = s.Spec.Networks // as older clients send them
	}
	for _, n := range networks {
		if len(n.Aliases) > 0 {
			service.Aliases = putEntry(service.Aliases, n.Target, n.Aliases)
		}
	}
	if s.Endpoint == nil {
		return service
	}
	for _, v := range s.Endpoint.VirtualIPs {
		if addr, ok := parseAddr(v.Addr); ok {
			service.VIPs = putEntry(service.VIPs, v.NetworkID, addr)
		}
	}
	for _, p := range s.Endpoint.Ports {
		if port, ok := convertPort(p); ok {
			service.Ports = append(service.Ports, port)
		}
	}
	return service
}

// convertPort reports false for a port that is not published on all nodes.
func convertPort(p *api.PortConfig) (port table.Port, ok bool) {
	port = table.Port{Published: uint16(p.PublishedPort), Target: uint16(p.TargetPort)}
	switch p.Protocol {
	case api.ProtocolTCP:
		port.Proto = table.TCP
	case api.ProtocolUDP:
		port.Proto = table.UDP
	default:
		return port, false
	}
	return port, p.PublishMode == api.PublishModeIngress && uint32(port.Published) == p.PublishedPort && port.Published != 0
}

// convertTask reports false for a task that has no container on any node.
func convertTask(t *api.Task) (task table.Task, ok bool) {
	if t.NodeID == "" || t.Status.State < api.TaskStateAssigned || t.Status.State > api.TaskStateRunning {
		return task, false
	}
	task = table.Task{
		Service: t.ServiceID, Node: t.NodeID, Slot: t.Slot,
		Ready: t.Status.State == api.TaskStateRunning && t.DesiredState == api.TaskStateRunning,
	}
	for _, a := range t.Networks {
		if addr, ok := firstAddr(a); ok {
			task.Attachments = putEntry(task.Attachments, a.Network.ID, table.Attachment{Addr: addr, Aliases: a.Aliases})
		}
	}
	return task, true
}

func firstAddr(a *api.NetworkAttachment) (netip.Addr, bool) {
	if a.Network == nil || len(a.Addresses) == 0 {
		return netip.Addr{}, false
	}
	return parseAddr(a.Addresses[0])
}

// parseAddr reads an address that stands with the bits of its subnet, or without. The networks have no others than of IPv4.
func parseAddr(text string) (netip.Addr, bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Addr(), p.Addr().Is4()
	}
	a, err := netip.ParseAddr(text)
	return a, err == nil && a.Is4()
}

func putEntry[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = v
	return m
}
