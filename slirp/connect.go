package slirp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"moss/engine/fault"
	"moss/engine/network"
)

// Connect gives a running container a place in one more network and returns the whole new state. A container without a
// namespace of its own is a fault.Forbidden, and so is one that is in the network already; see Join for the rest. On error
// nothing has changed.
func (n *Network) Connect(ctx context.Context, containerID string, a network.Attachment) (_ network.Sandbox, err error) {
	old := n.places.findPlace(containerID)
	if old == nil || old.sandbox.Mode != network.Bridge {
		return network.Sandbox{}, fault.Forbidden("container %s has no network namespace of its own to connect", containerID)
	}
	ctx = context.WithoutCancel(ctx) // all or nothing, even if the client hangs up
	var undo []func() error
	defer func() {
		if err == nil {
			return
		}
		for _, u := range slices.Backward(undo) {
			err = errors.Join(err, u())
		}
		err = fmt.Errorf("connect %s to network %s: %w", containerID, a.Name, err)
	}()
	fail := func(err error) (network.Sandbox, error) { return network.Sandbox{}, err }

	p := old.copy()
	cable, err := n.allocateEndpoint(ctx, p, a)
	if err != nil {
		return fail(err)
	}
	ep := p.sandbox.Endpoints[a.Name]
	undo = append(undo, func() error {
		return n.releaseEndpoints(containerID, network.Sandbox{Endpoints: map[string]network.Endpoint{a.Name: ep}})
	})
	p.request.Attach = append(p.request.Attach, a)
	p.sandbox.Primary = p.findPrimary()
	undo = append(undo, func() error { return n.fabric.Unplug(ctx, containerID, ep.EndpointID, old.listGateways()) })
	if err := n.fabric.Plug(ctx, containerID, cable, p.listGateways()); err != nil {
		return fail(err)
	}
	if err := n.ports.movePorts(ctx, old, p); err != nil {
		return fail(err)
	}
	undo = append(undo, func() error { return n.ports.movePorts(ctx, p, old) })
	n.names.fillDNSConfig(p)
	if err := n.names.updateServer(old, p); err != nil { //nolint:contextcheck // what answers names outlives the call
		return fail(err)
	}
	n.places.storePlace(containerID, p)
	if err := n.swarm.renewClient(containerID, p); err != nil {
		n.places.storePlace(containerID, old)
		return fail(errors.Join(err, n.names.updateServer(p, old))) //nolint:contextcheck // likewise
	}
	n.names.registerNames(p)
	return p.sandbox, nil
}

// Disconnect takes a running container out of a network and returns the whole new state. A network that it is not in is a
// fault.NotFound. On error it is still in it.
func (n *Network) Disconnect(ctx context.Context, containerID, networkID string) (network.Sandbox, error) {
	old := n.places.findPlace(containerID)
	var name string
	if old != nil {
		for at, ep := range old.sandbox.Endpoints {
			if ep.NetworkID == networkID {
				name = at
			}
		}
	}
	if name == "" || old.sandbox.Mode != network.Bridge {
		return network.Sandbox{}, fault.NotFound("container %s is not connected to network %s", containerID, networkID)
	}
	ctx = context.WithoutCancel(ctx) // all or nothing, even if the client hangs up
	p := old.copy()
	gone := p.sandbox.Endpoints[name]
	delete(p.sandbox.Endpoints, name)
	p.request.Attach = slices.DeleteFunc(p.request.Attach, func(a network.Attachment) bool { return a.Name == name })
	p.sandbox.Primary = p.findPrimary()
	err := n.ports.movePorts(ctx, old, p)
	if err == nil {
		if err = n.fabric.Unplug(ctx, containerID, gone.EndpointID, p.listGateways()); err != nil {
			err = errors.Join(err, n.fabric.Route(ctx, containerID, old.listGateways()), n.ports.movePorts(ctx, p, old))
		}
	}
	if err != nil {
		return network.Sandbox{}, fmt.Errorf("disconnect %s from network %s: %w", containerID, name, err)
	}
	// From here on it is out, whatever the rest says.
	n.names.server.Remove(networkID, containerID)
	n.names.fillDNSConfig(p)
	n.places.storePlace(containerID, p)
	err = n.names.updateServer(old, p) //nolint:contextcheck // what answers names outlives the call
	err = errors.Join(err, n.swarm.renewClient(containerID, p),
		n.releaseEndpoints(containerID, network.Sandbox{Endpoints: map[string]network.Endpoint{name: gone}}))
	if err != nil {
		n.opts.Log.Warn().Err(err).Str("container", containerID).Str("network", name).
			Msg("disconnected, but not everything could be cleared")
	}
	return p.sandbox, nil
}

// Rename tells of new Names and Links of a running container's attachments. One that does not run is no error.
func (n *Network) Rename(containerID string, all []network.Attachment) {
	old := n.places.findPlace(containerID)
	if old == nil {
		return
	}
	p := old.copy()
	for i, a := range p.request.Attach {
		if j := slices.IndexFunc(all, func(b network.Attachment) bool { return b.Name == a.Name }); j >= 0 {
			p.request.Attach[i].Names, p.request.Attach[i].Links = all[j].Names, all[j].Links
		}
	}
	n.places.storePlace(containerID, p)
	n.names.registerNames(p)
	if err := n.names.updateServer(old, p); err != nil {
		n.opts.Log.Warn().Err(err).Str("container", containerID).Msg("new names not told to the container's name server")
	}
}
