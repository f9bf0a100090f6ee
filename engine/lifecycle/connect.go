package lifecycle

import (
	"context"
	"errors"
	"maps"
	"net/netip"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/network"
)

// ConnectNetwork gives a container a place in one more network, at once if it runs and from its next start on. fault.Invalid
// for settings that cannot be and for networks that do not go together, fault.Forbidden if it is in that network already or
// none can be put into it (network.CheckJoin), fault.Conflict if an address is taken or the container is being removed.
// On error all is as before.
func (ns *Networks) ConnectNetwork(ctx context.Context, ref string, n *network.Network, cfg container.EndpointConfig) error {
	c, err := ns.index.find(ref)
	if err != nil {
		return err
	}
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	ctx = context.WithoutCancel(ctx) // half connected would be neither
	if c.isRemoved() {
		return noSuch(ref) // while this waited
	}
	if err := n.CheckJoin(ctx); err != nil {
		return err
	}
	if n, err = ns.store.Find(n.ID); err != nil {
		return err // likewise
	}
	if err := ns.checkConnect(c.record(), n, &cfg); err != nil {
		return err
	}
	change := func(r *container.Record) {
		in := maps.Clone(r.Networks())
		if in == nil {
			in = map[string]container.EndpointConfig{}
		}
		in[n.Name] = cfg
		r.Endpoints = in
	}
	return ns.changeNetworks(c, change, func(before *container.Record) error { return ns.connectLive(ctx, c, before, n, change) })
}

// DisconnectNetwork takes a container out of a network, at once if it runs. fault.NotFound if it is not in it, fault.Invalid
// for the host's network. With force a container that is not there is no error. On error all is as before.
func (ns *Networks) DisconnectNetwork(ctx context.Context, ref string, n *network.Network, force bool) error {
	c, err := ns.index.find(ref)
	if force && fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	ctx = context.WithoutCancel(ctx)
	if c.isRemoved() {
		if force {
			return nil
		}
		return noSuch(ref)
	}
	r := c.record()
	if err := errors.Join(removalConflict(r), r.CanDisconnect(n.Name)); err != nil {
		return err
	}
	name, in := ns.inNetwork(r, n)
	if !in {
		return fault.NotFound("container %s is not connected to network %s", ref, n.Name)
	}
	return ns.changeNetworks(c, leaveNamed(name), func(before *container.Record) error {
		return ns.disconnectLive(ctx, c, before, name, n)
	})
}

// leaveNamed is the change of the record of a container that leaves a network.
func leaveNamed(name string) func(*container.Record) {
	return func(r *container.Record) {
		in := maps.Clone(r.Networks())
		delete(in, name)
		r.Endpoints = in
	}
}

// removalConflict is the answer for a container that is on its way out.
func removalConflict(r *container.Record) error {
	if r.State == container.Removing || r.State == container.Dead {
		return fault.Conflict("Container %s is marked for removal and cannot be connected or disconnected to the network", r.ID)
	}
	return nil
}

// checkConnect checks what is asked of a further network and completes it.
func (ns *Networks) checkConnect(r *container.Record, n *network.Network, cfg *container.EndpointConfig) error {
	if err := errors.Join(removalConflict(r), r.CanConnect(n.Name)); err != nil {
		return err
	}
	if e, named := r.Networks()[n.Name]; named && e.NetworkID != n.ID && !ns.isStaleNetwork(e.NetworkID) {
		return fault.Conflict("container %s is connected to another network of the name %s", r.Name, n.Name)
	}
	// A network that is gone leaves the name behind: whoever connects to the new one of that name may say how.
	if name, in := ns.inNetwork(r, n); in && (r.State.HasProcess() || r.Networks()[name].NetworkID == n.ID) {
		return fault.Forbidden("endpoint with name %s already exists in network %s", r.Name, n.Name)
	}
	if err := container.CheckEndpoint(n.Name, cfg); err != nil {
		return err
	}
	if n.Name == network.Bridge && len(cfg.Links) > 0 {
		return fault.Invalid("links of the default network are made at create: it has no names")
	}
	if err := checkAddresses(n, cfg); err != nil {
		return err
	}
	cfg.NetworkID = n.ID
	*cfg = withShortID(r.ID, n.Name, *cfg)
	return nil
}

// changeNetworks carries out a change of a container's networks: by live if it has a process, which keeps its networks
// meanwhile, and otherwise for the next start.
func (ns *Networks) changeNetworks(c *ctr, change func(*container.Record), live func(before *container.Record) error) error {
	c.net.changing.Lock()
	before := c.record()
	if before.State.HasProcess() && before.End == nil {
		err := live(before)
		c.net.changing.Unlock()
		if err == nil {
			ns.links.linksChanged(c)
		}
		return err
	}
	c.net.changing.Unlock()
	c.update(change)
	return c.saveOrUndo(func(r *container.Record) { r.Endpoints = before.Endpoints })
}

// connectLive connects a container that runs. A crash in between leaves a place that no record has: the next engine takes
// it away.
func (ns *Networks) connectLive(
	ctx context.Context, c *ctr, before *container.Record, n *network.Network, change func(*container.Record),
) (err error) {
	if before.Network.Mode == network.None {
		return fault.Conflict("container %s was started without a network: stop it before it is connected to one", before.Name)
	}
	after := *before
	change(&after)
	spec, err := container.SpecOf(&after)
	if err != nil {
		return err
	}
	var back undo
	defer func() { back.run(ctx, &err) }()
	s, err := ns.driver.Connect(ctx, c.id, ns.networkAttachment(&after, &spec, n.Name, n))
	if err != nil {
		return err
	}
	back.push(func(ctx context.Context) error {
		_, err := ns.driver.Disconnect(ctx, c.id, n.ID)
		return err
	})
	if err := ns.noteLive(c, before, s, change); err != nil {
		return err
	}
	ns.etc.renewEtc(c)
	ns.publishEndpoint("connect", c.record(), n.Name, n.ID)
	return nil
}

// disconnectLive takes a container that runs out of a network. The record says so first: an engine that finds it in the
// midst of that goes on with it. The network none has nothing to be taken out of.
func (ns *Networks) disconnectLive(
	ctx context.Context, c *ctr, before *container.Record, name string, n *network.Network,
) error {
	s := sandboxOf(before)
	_, placed := s.Endpoints[name]
	if placed && name != network.None {
		var err error
		if s, err = ns.takeOut(ctx, c, before, n); err != nil {
			return err
		}
	} else {
		delete(s.Endpoints, name)
	}
	if err := ns.noteLive(c, before, s, leaveNamed(name)); err != nil {
		if placed && name != network.None {
			err = errors.Join(err, ns.putBack(ctx, c, before, name, n))
		}
		return err
	}
	ns.etc.renewEtc(c)
	ns.publishEndpoint("disconnect", c.record(), name, n.ID)
	return nil
}

func (ns *Networks) takeOut(ctx context.Context, c *ctr, before *container.Record,
	n *network.Network,
) (s network.Sandbox, err error) {
	c.update(func(r *container.Record) { r.Network.Leaving = n.ID })
	if err = c.saveRecord(false); err == nil {
		s, err = ns.driver.Disconnect(ctx, c.id, n.ID)
	}
	if err != nil {
		c.update(func(r *container.Record) { r.Network = before.Network })
		return s, errors.Join(err, c.saveRecord(false))
	}
	return s, nil
}

// putBack undoes takeOut: the place in the network is another one, at the same addresses.
func (ns *Networks) putBack(ctx context.Context, c *ctr, before *container.Record, name string, n *network.Network) error {
	spec, err := container.SpecOf(before)
	if err != nil {
		return err
	}
	a, had := ns.networkAttachment(before, &spec, name, n), before.Network.Endpoints[name]
	a.IPv4, _ = netip.ParseAddr(had.IPAddress)
	a.IPv6, _ = netip.ParseAddr(had.GlobalIPv6Address)
	s, err := ns.driver.Connect(ctx, c.id, a)
	if err != nil {
		return err
	}
	c.update(func(r *container.Record) { r.Network = recordNetwork(s) })
	return c.saveRecord(false)
}

// noteLive writes down what a running container's networks are now.
func (ns *Networks) noteLive(c *ctr, before *container.Record, s network.Sandbox, change func(*container.Record)) error {
	etc, err := etcOf(before)
	if err != nil {
		return err
	}
	c.update(func(r *container.Record) {
		change(r)
		r.Network = recordNetwork(s)
		r.Network.Etc = etc
	})
	return c.saveOrUndo(func(r *container.Record) { r.Endpoints, r.Network = before.Endpoints, before.Network })
}

// finishLeaving ends a disconnect that a crash interrupted. The container is not watched yet.
func (ns *Networks) finishLeaving(ctx context.Context, c *ctr) {
	before := c.record()
	networkID := before.Network.Leaving
	if networkID == "" {
		return
	}
	for name, ep := range before.Network.Endpoints {
		if ep.NetworkID != networkID {
			continue
		}
		n, err := ns.networkNamed(name, networkID)
		if err == nil {
			err = ns.disconnectLive(ctx, c, before, name, n)
		}
		if err != nil {
			ns.log.Error().Err(err).Str("container", c.id).Str("network", name).Msg("interrupted disconnect not completed")
		}
		return
	}
	c.update(func(r *container.Record) { r.Network.Leaving = "" })
}
