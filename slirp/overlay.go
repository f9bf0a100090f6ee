package slirp

import (
	"context"
	"errors"
	"reflect"

	"moss/engine/fault"
	"moss/engine/network"
)

// PutNetwork implements network.Driver. The network's device stands when it returns.
func (n *Network) PutNetwork(ctx context.Context, nw *network.Network) (*network.Network, error) {
	n.adding.Lock()
	defer n.adding.Unlock()
	if old := n.lans.findLAN(nw.ID); old != nil {
		if reflect.DeepEqual(old.record.IPAM.Pools, nw.IPAM.Pools) {
			return n.changeOverlay(ctx, old, nw)
		}
		// Other addresses make another network of it, for which nobody may be left in this one.
		if err := n.RemoveNetwork(ctx, nw.ID); err != nil {
			return nil, err
		}
	}
	filled := *nw
	var err error
	if filled.Device, err = n.freeDevice(ctx, nw.ID, ""); err != nil {
		return nil, err
	}
	for _, p := range nw.IPAM.Pools {
		if err := n.subnets.checkPool(&p); err != nil {
			return nil, err
		}
	}
	l, err := n.newLAN(&filled)
	if err != nil {
		return nil, err
	}
	if err := n.bringUpLAN(ctx, l); err != nil {
		undo := n.fabric.Down(context.WithoutCancel(ctx), l.link) // undone even if the client hangs up
		return nil, errors.Join(err, undo, l.close())
	}
	n.lans.storeLAN(l)
	return &filled, nil
}

// changeOverlay gives a network other settings. Its containers, their addresses and its device stay.
func (n *Network) changeOverlay(ctx context.Context, old *lan, nw *network.Network) (*network.Network, error) {
	if nw.Overlay == nil {
		return nil, fault.Internal("network %s has become one of another driver", nw.Name)
	}
	filled := *nw
	filled.Device = old.record.Device
	next := &lan{record: &filled, set: old.set, link: old.link, v4: old.v4, members: old.members, up: old.isUp()}
	next.setOverlay(&filled)
	if next.up && next.link == old.link {
		n.lans.storeLAN(next)
		return &filled, nil
	}
	next.up = false
	if err := n.bringUpLAN(ctx, next); err != nil {
		return nil, err
	}
	n.lans.storeLAN(next)
	return &filled, nil
}

// setOverlay fills in what the devices and the rules of a swarm's network have beside the rest.
func (l *lan) setOverlay(nw *network.Network) {
	l.link.MTU, l.link.Tunnel, l.link.Own = nw.Overlay.MTU, nw.Overlay.Tunnel, nw.Overlay.Own
	l.link.Internal, l.link.Isolated = nw.Internal, nw.Overlay.Ingress
}

// isIngress reports whether the network leads published ports of a swarm to tasks.
func (l *lan) isIngress() bool { return l.record.Overlay != nil && l.record.Overlay.Ingress }
