package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// cablePrefix begins the names of all outer ends.
const cablePrefix = "veth"

// outerName fits the kernel's 15 characters with 44 bits of the endpoint's id.
func outerName(endpointID string) string {
	return cablePrefix + endpointID[:min(11, len(endpointID))]
}

// connectEndpoint makes the veth pair, configures its inner end and returns the index of that device.
func (f *Fabric) connectEndpoint(l *live, n *namespace, e Endpoint) (int, error) {
	at, ok := f.indexOf(e.Net.ID)
	if !ok {
		return 0, fault.Internal("network %s is not up", e.Net.ID)
	}
	six := slices.ContainsFunc(e.Addrs, func(p netip.Prefix) bool { return p.Addr().Is6() })
	if six {
		if err := n.allowIPv6(true); err != nil {
			return 0, err
		}
	}
	if err := l.addVethPair(n, e, at); err != nil {
		return 0, fmt.Errorf("make veth pair: %w", err)
	}
	if six { // others are not to have it
		if err := n.allowIPv6(false); err != nil {
			return 0, err
		}
	}
	if e.Net.Isolated {
		if err := l.isolatePort(outerName(e.ID)); err != nil {
			return 0, err
		}
	}
	link, err := n.handle.LinkByName(e.Device)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", e.Device, err)
	}
	for _, p := range e.Addrs {
		if err := n.handle.AddrAdd(link, toNetlinkAddr(p)); err != nil {
			return 0, fmt.Errorf("give %s the address %s: %w", e.Device, p.Addr(), err)
		}
	}
	if err := n.setParameters(e.Sysctls); err != nil {
		return 0, err
	}
	if err := n.handle.LinkSetUp(link); err != nil {
		return 0, fmt.Errorf("bring up %s: %w", e.Device, err)
	}
	if e.Answers.IsValid() {
		if err := n.routeAnswers(link, e); err != nil {
			return 0, err
		}
	}
	if err := l.refreshLinkState(outerName(e.ID), e.Net.Device); err != nil { // the port first: the bridge goes by its ports
		return 0, err
	}
	if e.Announce {
		if err := l.announceAddresses(at, e); err != nil {
			return 0, err
		}
	}
	return link.Attrs().Index, nil
}

// addVethPair makes both ends, each in its namespace, and the outer one up and a port of the bridge, in one request: the
// library's LinkAdd takes four, and each waits for the kernel's one lock on network devices.
func (l *live) addVethPair(n *namespace, e Endpoint, bridge int) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: l.raw}

	outer := nl.NewIfInfomsg(unix.AF_UNSPEC)
	outer.Flags, outer.Change = unix.IFF_UP, unix.IFF_UP
	req.AddData(outer)
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(outerName(e.ID))))
	req.AddData(nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(e.Net.MTU))))
	req.AddData(nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(uint32(bridge))))

	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("veth"))
	peer := info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.VETH_INFO_PEER, nil)
	nl.NewIfInfomsgChild(peer, unix.AF_UNSPEC) // not up: the kernel would raise it before it knows the other end
	peer.AddRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(e.Device))
	peer.AddRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(e.Net.MTU)))
	peer.AddRtAttr(unix.IFLA_ADDRESS, e.MAC)
	peer.AddRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(n.file.Fd())))
	req.AddData(info)

	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// answerTable is the table of routes for what an endpoint answers, and answerPriority that of the rules that lead there: before
// the rule of the main table, 32766. A container has one such endpoint at most: that in its swarm's ingress network.
const (
	answerTable    = 27504
	answerPriority = 100
)

// routeAnswers leads what has an address of the endpoint as its source by the endpoint's own gateway.
func (n *namespace) routeAnswers(link netlink.Link, e Endpoint) error {
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: e.Answers.AsSlice(), Table: answerTable}
	if err := n.handle.RouteReplace(route); err != nil {
		return fmt.Errorf("route answers by %s: %w", e.Answers, err)
	}
	for _, p := range e.Addrs {
		if !p.Addr().Is4() {
			continue
		}
		rule := netlink.NewRule()
		rule.Family, rule.Table, rule.Priority = unix.AF_INET, answerTable, answerPriority
		rule.Src = ipNet(netip.PrefixFrom(p.Addr(), p.Addr().BitLen()))
		if err := n.handle.RuleAdd(rule); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("route answers from %s: %w", p.Addr(), err)
		}
	}
	return nil
}

// isolatePort keeps a port of a bridge from the others that are isolated.
func (l *live) isolatePort(name string) error {
	link, err := l.handle.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if err := l.handle.LinkSetIsolated(link, true); err != nil {
		return fmt.Errorf("isolate %s from its neighbours: %w", name, err)
	}
	return nil
}

// setDefaultRoutes makes these the namespace's default routes, in place of those there are. At no moment there is none,
// so that neither a connection nor a crash notices.
func (n *namespace) setDefaultRoutes(gateways []Gateway) error {
	for _, v6 := range []bool{false, true} {
		family := unix.AF_INET
		if v6 {
			family = unix.AF_INET6
		}
		have, err := n.handle.RouteListFiltered(family, &netlink.Route{Dst: nil}, netlink.RT_FILTER_DST)
		if err != nil {
			return fmt.Errorf("list default routes: %w", err)
		}
		var want netlink.Route
		if i := slices.IndexFunc(gateways, func(g Gateway) bool { return g.Addr.Is6() == v6 }); i >= 0 {
			link, err := n.handle.LinkByName(gateways[i].Device)
			if err != nil {
				return fmt.Errorf("find %s: %w", gateways[i].Device, err)
			}
			want = netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateways[i].Addr.AsSlice()}
		}
		if err := n.replaceDefaults(have, want); err != nil {
			return err
		}
	}
	return nil
}

// replaceDefaults leaves the wanted default route only; one without a gateway means none.
func (n *namespace) replaceDefaults(have []netlink.Route, want netlink.Route) error {
	same := func(r netlink.Route) bool { return r.LinkIndex == want.LinkIndex && r.Gw.Equal(want.Gw) }
	if want.Gw != nil && !slices.ContainsFunc(have, same) {
		if err := n.handle.RouteReplace(&want); err != nil {
			return fmt.Errorf("set the default route by %s: %w", want.Gw, err)
		}
	}
	for _, r := range have {
		if same(r) {
			continue
		}
		if err := n.handle.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) { // the one that was replaced
			return fmt.Errorf("remove the default route by %s: %w", r.Gw, err)
		}
	}
	return nil
}
