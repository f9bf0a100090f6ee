package slirp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path"
	"slices"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/slirp/bridge"
	"moss/slirp/ipam"
	"moss/slirp/publish"
)

// place is a container's part in its networks. One that is in a placeTable is replaced, never changed.
type place struct {
	request network.Request
	sandbox network.Sandbox
	resolve bool // its namespace has sockets of our name server
}

func (p *place) copy() *place {
	c := *p
	c.sandbox.Endpoints = maps.Clone(p.sandbox.Endpoints)
	c.request.Attach = slices.Clone(p.request.Attach)
	return &c
}

// releaseEndpoints gives back what allocateEndpoint has given for all of the sandbox's endpoints.
func (n *Network) releaseEndpoints(containerID string, s network.Sandbox) error {
	var errs []error
	for _, ep := range s.Endpoints {
		l := n.lans.findLAN(ep.NetworkID)
		if l == nil {
			continue
		}
		addrs, err := addrsOf(ep)
		errs = append(errs, err)
		l.releaseAddresses(containerID, addrs...)
		n.lans.removeMember(containerID, l)
	}
	return errors.Join(errs...)
}

func (l *lan) releaseAddresses(containerID string, addrs ...netip.Addr) {
	for _, a := range addrs {
		switch {
		case a.Is4():
			l.v4.Release(containerID, a)
		case l.v6 != nil:
			l.v6.Release(containerID, a)
		}
	}
}

// claimAddresses takes the endpoint's addresses out of the pools.
func (l *lan) claimAddresses(containerID string, ep network.Endpoint) error {
	addrs, err := addrsOf(ep)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		switch {
		case a.Is4():
			err = l.v4.Claim(containerID, a)
		case l.v6 != nil:
			err = l.v6.Claim(containerID, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// allocateAddress gives the address that is asked for, or the next one.
func allocateAddress(p *ipam.Pool, containerID string, asked netip.Addr) (netip.Addr, error) {
	if asked.IsValid() {
		return asked, p.Claim(containerID, asked)
	}
	return p.Take(containerID)
}

// addrsOf returns the addresses that an endpoint has out of pools, IPv4 first.
func addrsOf(ep network.Endpoint) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, text := range []string{ep.IPAddress, ep.GlobalIPv6Address} {
		if text == "" {
			continue
		}
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("address of endpoint %s: %w", ep.EndpointID, err)
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}

// The lengths of the subnets that link-local addresses are in (RFC 3927, RFC 4291).
const (
	linkLocal4 = 16
	linkLocal6 = 64
)

// toBridgeEndpoint returns what the bridge needs to know of an endpoint.
func (l *lan) toBridgeEndpoint(ep network.Endpoint, mac net.HardwareAddr, asked bool, a network.Attachment) bridge.Endpoint {
	// An IPv6 address may have been another container's, whose MAC address followed from another IPv4 address.
	e := bridge.Endpoint{
		ID: ep.EndpointID, Net: l.link, Device: ep.Device, MAC: mac,
		Announce: asked || l.v6 != nil || len(a.LinkLocal) > 0,
	}
	for _, s := range a.Sysctls {
		e.Sysctls = append(e.Sysctls, bridge.Sysctl{Path: path.Join("net", s.Family, s.Kind, ep.Device, s.Name), Value: s.Value})
	}
	if l.isIngress() && !l.record.Internal {
		e.Answers = l.v4.Gateway()
	}
	if a, err := netip.ParseAddr(ep.IPAddress); err == nil {
		e.Addrs = append(e.Addrs, netip.PrefixFrom(a, ep.IPPrefixLen))
	}
	if a, err := netip.ParseAddr(ep.GlobalIPv6Address); err == nil {
		e.Addrs = append(e.Addrs, netip.PrefixFrom(a, ep.GlobalIPv6PrefixLen))
	}
	for _, a := range a.LinkLocal {
		bits := a.BitLen()
		if a.IsLinkLocalUnicast() {
			bits = linkLocal4
			if a.Is6() {
				bits = linkLocal6
			}
		}
		e.Addrs = append(e.Addrs, netip.PrefixFrom(a, bits))
	}
	return e
}

// deviceName returns the name of the container's next device: what was asked for, or the lowest number that is free.
func (p *place) deviceName(asked, prefix string) (string, error) {
	used := func(name string) bool {
		for _, ep := range p.sandbox.Endpoints {
			if ep.Device == name {
				return true
			}
		}
		return false
	}
	if asked != "" {
		if used(asked) {
			return "", fault.Invalid("an interface of container %s is called %s already", p.request.ContainerID, asked)
		}
		return asked, nil
	}
	for i := 0; ; i++ {
		name := fmt.Sprint(prefix, i)
		claimed := slices.ContainsFunc(p.request.Attach, func(a network.Attachment) bool { return a.Device == name })
		if !claimed && !used(name) {
			return name, nil
		}
	}
}

// findPrimary returns the name of the endpoint that leads outside and has the published ports: the first one in a network
// that is not internal. A swarm's ingress network is the last choice.
func (p *place) findPrimary() string {
	ingress := ""
	for _, a := range p.waysOut() {
		switch ep, ok := p.sandbox.Endpoints[a.Name]; {
		case !ok || ep.Gateway == "":
		case a.Network.Overlay == nil || !a.Network.Overlay.Ingress:
			return a.Name
		default:
			ingress = a.Name
		}
	}
	return ingress
}

// waysOut lists the container's networks by the priority of their gateways.
func (p *place) waysOut() []network.Attachment {
	return slices.SortedStableFunc(slices.Values(p.request.Attach), func(a, b network.Attachment) int {
		return cmp.Compare(b.GwPriority, a.GwPriority)
	})
}

// listGateways returns the container's ways out: that of its primary network, and in IPv6 that of the first one that has any.
func (p *place) listGateways() []bridge.Gateway {
	var all []bridge.Gateway
	if ep, ok := p.sandbox.Endpoints[p.sandbox.Primary]; ok {
		if a, err := netip.ParseAddr(ep.Gateway); err == nil {
			all = append(all, bridge.Gateway{Device: ep.Device, Addr: a})
		}
	}
	for _, at := range p.waysOut() {
		ep := p.sandbox.Endpoints[at.Name]
		if a, err := netip.ParseAddr(ep.IPv6Gateway); err == nil {
			return append(all, bridge.Gateway{Device: ep.Device, Addr: a})
		}
	}
	return all
}

// portTarget returns where the container's published ports lead.
func (p *place) portTarget() publish.Target {
	ep := p.sandbox.Endpoints[p.sandbox.Primary]
	addr, _ := netip.ParseAddr(ep.IPAddress) // of an endpoint that allocateEndpoint has made, or none
	six, _ := netip.ParseAddr(ep.GlobalIPv6Address)
	return publish.Target{Owner: p.request.ContainerID, EndpointID: ep.EndpointID, Addr: addr, Addr6: six}
}

// parseMAC returns nil for no wish. A group address is no device's.
func parseMAC(s string) (net.HardwareAddr, error) {
	if s == "" {
		return nil, nil
	}
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 {
		return nil, fault.Invalid("invalid MAC address %q", s)
	}
	return mac, nil
}
