package slirp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/slirp/bridge"
	"moss/slirp/dns"
	"moss/slirp/publish"
)

// Restore is called once, after Adopt and before the first Join, with the networks of the containers that are still
// running: it keeps these and clears away whatever else an earlier engine left. An error names what could not be kept or
// cleared; the rest is done nevertheless.
func (n *Network) Restore(ctx context.Context, live map[string]network.Joined) error {
	var (
		errs      []error
		all       = make([]*place, 0, len(live))
		ports     []publish.Published
		endpoints []string
		exposed   = make(map[bridge.PortKey]bridge.PortTarget)
	)
	for id, j := range live {
		p := &place{request: j.Request, sandbox: j.Sandbox}
		p.request.ContainerID = id
		p.resolve = slices.Contains(p.sandbox.DNS, dns.Address)
		errs = append(errs, n.restorePlace(id, p))
		all = append(all, p)
		if p.sandbox.Primary != "" {
			ports = append(ports, publish.Published{Target: p.portTarget(), Ports: p.sandbox.Ports})
			maps.Copy(exposed, p.exposedPorts())
		}
		for _, ep := range p.sandbox.Endpoints {
			endpoints = append(endpoints, ep.EndpointID)
		}
	}
	attached, err := n.fabric.Attached()
	errs = append(errs, err)
	for _, id := range attached {
		if _, ok := live[id]; !ok {
			errs = append(errs, n.fabric.Detach(id))
		}
	}
	errs = append(errs, n.restoreBridges(ctx, endpoints, exposed))
	for id := range live {
		errs = append(errs, n.repairEndpoints(ctx, id))
	}
	errs = append(errs, n.ports.publisher.Restore(ctx, append(ports, n.swarm.listPublished()...)))
	n.swarm.noteKept()
	errs = append(errs, n.names.restoreServers(all)) //nolint:contextcheck // what answers names outlives the call
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("restore networks: %w", err)
	}
	return nil
}

// restorePlace puts the container's place and addresses back.
func (n *Network) restorePlace(containerID string, p *place) error {
	var errs []error
	for _, ep := range p.sandbox.Endpoints {
		l := n.lans.restoreMember(containerID, ep.NetworkID)
		if l == nil {
			continue
		}
		// An address out of another subnet cannot be given twice.
		if err := l.claimAddresses(containerID, ep); err != nil && !fault.Is(err, fault.Invalid) {
			errs = append(errs, fmt.Errorf("restore address of %s: %w", containerID, err))
		}
	}
	n.places.storePlace(containerID, p)
	return errors.Join(errs...)
}

// restoreBridges clears bridges and cables that are of no network or container, and sets the rules anew.
func (n *Network) restoreBridges(ctx context.Context, endpoints []string, ports map[bridge.PortKey]bridge.PortTarget) error {
	lans := n.lans.listLANs()
	nets := make([]bridge.Net, 0, len(lans))
	for _, l := range lans {
		nets = append(nets, l.link)
	}
	stand, err := n.fabric.Keep(ctx, nets, endpoints, ports)
	for _, l := range lans {
		l.raising.Lock()
		l.up = slices.Contains(stand, l.record.ID)
		l.raising.Unlock()
	}
	return err
}

// repairEndpoints lays the cables of a running container again that a crash has cut, or that went with a bridge, and
// sets its way out if it has several networks to choose from.
func (n *Network) repairEndpoints(ctx context.Context, containerID string) error {
	p := n.places.findPlace(containerID)
	if p.sandbox.Mode != network.Bridge {
		return nil
	}
	var errs []error
	again := len(p.sandbox.Endpoints) > 1
	for _, a := range p.request.Attach {
		ep, ok := p.sandbox.Endpoints[a.Name]
		l := n.lans.findLAN(ep.NetworkID)
		if !ok || l == nil {
			continue
		}
		there, err := n.fabric.Plugged(ctx, ep.EndpointID)
		if err == nil && !there {
			again = true
			err = n.replugEndpoint(ctx, containerID, a, ep, l)
		}
		errs = append(errs, err)
	}
	if again {
		errs = append(errs, n.fabric.Route(ctx, containerID, p.listGateways()))
	}
	return errors.Join(errs...)
}

func (n *Network) replugEndpoint(
	ctx context.Context, containerID string, a network.Attachment, ep network.Endpoint, l *lan,
) error {
	mac, err := parseMAC(ep.MacAddress)
	if err != nil {
		return err
	}
	if err := n.bringUpLAN(ctx, l); err != nil {
		return err
	}
	return n.fabric.Plug(ctx, containerID, l.toBridgeEndpoint(ep, mac, true, a), nil)
}
