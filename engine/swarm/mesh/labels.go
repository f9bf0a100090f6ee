package mesh

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// BehindNAT is the data address of a node that others cannot call.
const BehindNAT = "none"

// shortestRoute is the number of bits below which a route of a host is no network of its own: it leads to everything.
const shortestRoute = 8

// Labels returns what this node tells managers of its tunnel, for the labels of its description. It waits for Start. What
// cannot be found out is left out and logged.
func (m *Mesh) Labels(ctx context.Context) map[string]string {
	labels := map[string]string{}
	select {
	case <-m.started:
	case <-ctx.Done():
		return labels
	}
	key, err := m.keys.publicKey()
	if err != nil {
		m.opt.Log.Error().Err(err).Msg("the key of this node for the swarm's networks")
		return labels
	}
	labels[labelKey] = key.String()
	data, err := m.dataAddr()
	if err != nil {
		m.opt.Log.Error().Err(err).Msg("the address of this node for the swarm's networks")
	} else if data.IsValid() {
		labels[labelData] = data.String()
	}
	if routes, err := listRoutes(); err != nil {
		m.opt.Log.Warn().Err(err).Msg("the routes of this host")
	} else if len(routes) > 0 {
		labels[labelRoutes] = strings.Join(routes, ",")
	}
	return labels
}

// dataAddr returns where others call this node's tunnel; invalid: they cannot.
func (m *Mesh) dataAddr() (netip.AddrPort, error) {
	addr, err := readDataAddr(m.opt.DataAddr)
	if err != nil || m.opt.DataAddr == BehindNAT {
		return netip.AddrPort{}, err
	}
	if !addr.IsValid() {
		place, err := m.node.Place()
		if err != nil {
			return netip.AddrPort{}, err
		}
		addr = place.Data
	}
	if !addr.IsValid() {
		return netip.AddrPort{}, nil
	}
	return netip.AddrPortFrom(addr, m.opt.DataPort), nil
}

// readDataAddr reads the setting: an address, which need not be this host's, or an interface.
func readDataAddr(text string) (netip.Addr, error) {
	if text == "" || text == BehindNAT {
		return netip.Addr{}, nil
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Unmap().WithZone(""), nil
	}
	link, err := netlink.LinkByName(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("setting swarm-data-addr %q: no such interface", text)
	}
	list, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("setting swarm-data-addr %q: %w", text, err)
	}
	var found []netip.Addr
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok && !addr.IsLinkLocalUnicast() {
			found = append(found, addr.Unmap())
		}
	}
	if len(found) == 0 {
		return netip.Addr{}, fmt.Errorf("setting swarm-data-addr %q: the interface has no address", text)
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() }) // IPv4 first
	return found[0], nil
}

// listRoutes returns the networks that this host has routes to, but for those to everything.
func listRoutes() ([]string, error) {
	all, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list the routes of this host: %w", err)
	}
	var routes []string
	for _, r := range all {
		if r.Dst == nil {
			continue
		}
		ones, _ := r.Dst.Mask.Size()
		addr, ok := netip.AddrFromSlice(r.Dst.IP)
		if !ok || ones < shortestRoute || addr.Unmap().IsLinkLocalUnicast() || addr.Unmap().IsMulticast() {
			continue
		}
		routes = append(routes, netip.PrefixFrom(addr.Unmap(), ones).String())
	}
	slices.Sort(routes)
	routes = slices.Compact(routes)
	return routes[:min(len(routes), mostRoutes)], nil
}

// IsOwnLabel tells whether a label of a node's engine is one of the tunnel, which nobody else gives.
func IsOwnLabel(key string) bool { return strings.HasPrefix(key, labelPrefix) }
