package slirp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/slirp/bridge"
)

// Join makes the container's network ready and publishes its ports. With network.None and network.Host there is no
// namespace and no port. A container that has joined already is a fault.Conflict, a network that is not known a
// fault.NotFound, an unknown mode, a malformed MAC address or an address outside its network a fault.Invalid, an address in
// use a fault.Conflict; see publish.Publish for the faults of ports. On error nothing is left.
func (n *Network) Join(ctx context.Context, req network.Request) (network.Sandbox, error) {
	p := &place{request: req, sandbox: network.Sandbox{
		ID: bridge.NewID(), Mode: req.Mode,
		Endpoints: make(map[string]network.Endpoint),
	}}
	switch req.Mode {
	case network.Bridge, network.None, network.Host:
	default:
		return network.Sandbox{}, fault.Invalid("network mode %q is not supported", req.Mode)
	}
	if !n.places.reservePlace(req.ContainerID, p) {
		return network.Sandbox{}, fault.Conflict("container %s has a network already", req.ContainerID)
	}
	if req.Mode != network.Bridge {
		p.sandbox.Endpoints[req.Mode] = network.Endpoint{NetworkID: network.FixedID(req.Mode), EndpointID: bridge.NewID()}
		return p.sandbox, nil
	}
	s, err := n.joinBridge(ctx, p)
	if err != nil {
		// Undone even if the client hangs up.
		return network.Sandbox{}, errors.Join(err, n.Leave(context.WithoutCancel(ctx), req.ContainerID))
	}
	return s, nil
}

// joinBridge works on a copy of the place, and puts it in its stead before anything that Leave would have to undo.
func (n *Network) joinBridge(ctx context.Context, reserved *place) (network.Sandbox, error) {
	fail := func(err error) (network.Sandbox, error) { return network.Sandbox{}, err }
	p := reserved.copy()
	id := p.request.ContainerID
	cables := make([]bridge.Endpoint, 0, len(p.request.Attach))
	for _, a := range p.request.Attach {
		cable, err := n.allocateEndpoint(ctx, p, a)
		if err != nil {
			return fail(errors.Join(err, n.releaseEndpoints(id, p.sandbox)))
		}
		cables = append(cables, cable)
	}
	p.sandbox.Primary = p.findPrimary()
	space, err := n.fabric.Make(ctx, id)
	if err != nil {
		return fail(errors.Join(err, n.releaseEndpoints(id, p.sandbox)))
	}
	defer space.Close()
	p.sandbox.Path = space.Path()
	n.names.fillDNSConfig(p)
	n.places.storePlace(id, p)

	// Beside each other: each waits for a different part of the machine.
	var wg sync.WaitGroup
	var open, publishing error
	if p.resolve {
		wg.Go(func() { open = n.names.openServer(p, space.File()) }) //nolint:contextcheck // what answers names outlives the call
	}
	if len(p.request.Ports) > 0 && p.sandbox.Primary != "" {
		wg.Go(func() { p.sandbox.Ports, publishing = n.ports.publishPorts(ctx, p) })
	}
	err = errors.Join(space.Furnish(ctx, cables, p.listGateways()), n.swarm.renewClient(id, p))
	wg.Wait()
	n.places.storePlace(id, p) // also after an error: Leave closes the ports
	if err := errors.Join(err, open, publishing); err != nil {
		return fail(err)
	}
	n.names.registerNames(p)
	return p.sandbox, nil
}

// Leave takes a container's ports, names, namespace and addresses away. A container that has no network is no error. After
// an error, calling again goes on where it stopped; the addresses are kept until the ports that lead there are closed.
func (n *Network) Leave(ctx context.Context, containerID string) error {
	p := n.places.findPlace(containerID)
	if p != nil {
		n.names.unregisterNames(p)
	}
	n.swarm.forgetClient(containerID)
	err := errors.Join(n.ports.unpublishPorts(ctx, containerID, p), n.names.closeServer(containerID), n.fabric.Detach(containerID))
	if err == nil && p != nil {
		err = n.releaseEndpoints(containerID, p.sandbox)
	}
	if err != nil {
		return fmt.Errorf("leave network: %w", err)
	}
	n.places.removePlace(containerID)
	return nil
}

// allocateEndpoint gives the container addresses in one network, whose device it makes if need be, and notes the
// endpoint in the place. On error it leaves nothing.
func (n *Network) allocateEndpoint(ctx context.Context, p *place, a network.Attachment) (_ bridge.Endpoint, err error) {
	fail := func(err error) (bridge.Endpoint, error) { return bridge.Endpoint{}, err }
	if a.Network == nil {
		return fail(fault.Internal("attachment %q of %s names no network", a.Name, p.request.ContainerID))
	}
	mac, err := parseMAC(a.MacAddress)
	if err != nil {
		return fail(err)
	}
	id := p.request.ContainerID
	l, err := n.lans.addMember(id, a.Network)
	if err != nil {
		return fail(err)
	}
	var addrs []netip.Addr
	defer func() {
		if err != nil {
			l.releaseAddresses(id, addrs...)
			n.lans.removeMember(id, l)
		}
	}()
	if err := n.bringUpLAN(ctx, l); err != nil {
		return fail(err)
	}
	if l.record.Overlay != nil && !a.IPv4.IsValid() {
		return fail(fault.Invalid("network %s: the addresses of a swarm's network are its managers' to give", l.record.Name))
	}
	v4, err := allocateAddress(l.v4, id, a.IPv4)
	if err != nil {
		return fail(err)
	}
	addrs = []netip.Addr{v4}
	asked := mac != nil
	if !asked {
		mac = bridge.MACFor(v4)
	}
	device, err := p.deviceName(a.Device, l.set.prefix)
	if err != nil {
		return fail(err)
	}
	ep := network.Endpoint{
		NetworkID: l.record.ID, EndpointID: bridge.NewID(), Device: device, MacAddress: mac.String(),
		IPAddress: v4.String(), IPPrefixLen: l.v4.Subnet().Bits(),
	}
	if !l.record.Internal {
		ep.Gateway = l.v4.Gateway().String()
	}
	if err := l.allocateIPv6(&ep, id, a.IPv6); err != nil {
		return fail(err)
	}
	p.sandbox.Endpoints[a.Name] = ep
	return l.toBridgeEndpoint(ep, mac, asked, a), nil
}

// allocateIPv6 gives an endpoint its address in a network that has IPv6; in others none may be asked for.
func (l *lan) allocateIPv6(ep *network.Endpoint, id string, asked netip.Addr) error {
	if l.v6 == nil {
		if asked.IsValid() {
			return fault.Invalid("no configured subnet or ip-range contain the IP address %s", asked)
		}
		return nil
	}
	v6, err := allocateAddress(l.v6, id, asked)
	if err != nil {
		return err
	}
	ep.GlobalIPv6Address, ep.GlobalIPv6PrefixLen = v6.String(), l.v6.Subnet().Bits()
	if !l.record.Internal {
		ep.IPv6Gateway = l.v6.Gateway().String()
	}
	return nil
}
