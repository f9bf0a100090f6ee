package slirp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/slirp/bridge"
	"moss/slirp/ipam"
)

// defaultDevice is the name of the default network's bridge.
const defaultDevice = "moss0"

// lan is one network of the drivers bridge and overlay. Only up and members change.
type lan struct {
	record *network.Network
	set    settings
	link   bridge.Net
	v4, v6 *ipam.Pool // v6 is nil without IPv6

	raising sync.Mutex // held while the device is made; guards up
	up      bool

	members map[string]bool // containers that have, or are getting, a place; guarded by lanTable.mu
}

func (l *lan) close() error {
	err := l.v4.Close()
	if l.v6 != nil {
		err = errors.Join(err, l.v6.Close())
	}
	return err
}

// Adopt implements network.Driver.
func (n *Network) Adopt(ctx context.Context, all []*network.Network) (changed []*network.Network, err error) {
	standing, err := n.fabric.Devices(ctx)
	if err != nil {
		return nil, fmt.Errorf("take up networks: %w", err)
	}
	for _, nw := range all {
		filled, l, err := n.adoptNetwork(nw, all, standing)
		if err != nil {
			// One network must not keep the engine, and with it all others, from answering.
			n.opts.Log.Error().Err(err).Str("network", nw.Name).Str("id", nw.ID).Msg("network not taken up: no container can join it")
			continue
		}
		n.lans.storeLAN(l)
		if filled != nw {
			changed = append(changed, filled)
		}
	}
	return changed, nil
}

func (n *Network) adoptNetwork(
	nw *network.Network, all []*network.Network, standing []bridge.Device,
) (_ *network.Network, _ *lan, err error) {
	if nw.Name == network.Bridge {
		if nw, err = n.subnets.chooseDefaultSubnet(nw, all, standing); err != nil {
			return nil, nil, err
		}
	}
	l, err := n.newLAN(nw)
	return nw, l, err
}

// AddNetwork implements network.Driver.
func (n *Network) AddNetwork(ctx context.Context, nw *network.Network) (_ *network.Network, err error) {
	n.adding.Lock()
	defer n.adding.Unlock()
	filled, err := n.fillNetwork(ctx, nw)
	if err != nil {
		return nil, err
	}
	l, err := n.newLAN(filled)
	if err != nil {
		return nil, err
	}
	if err := n.bringUpLAN(ctx, l); err != nil {
		undo := n.fabric.Down(context.WithoutCancel(ctx), l.link) // undone even if the client hangs up
		return nil, errors.Join(err, undo, l.close(), n.pools.forgetCursors(filled.ID))
	}
	n.lans.storeLAN(l)
	return filled, nil
}

// fillNetwork returns the network with pools and device. The error names the setting that is wrong.
func (n *Network) fillNetwork(ctx context.Context, nw *network.Network) (*network.Network, error) {
	set, err := parseSettings(nw.Options)
	if err != nil {
		return nil, err
	}
	filled := *nw
	if filled.Device, err = n.freeDevice(ctx, nw.ID, set.device); err != nil {
		return nil, err
	}
	filled.IPAM.Pools, err = n.subnets.fillPools(nw)
	if err != nil {
		return nil, err
	}
	return &filled, nil
}

// freeDevice returns the name of the bridge: the one asked for, or one made of the network's id.
func (n *Network) freeDevice(ctx context.Context, id, asked string) (string, error) {
	name := asked
	if name == "" {
		name = "br-" + id[:min(12, len(id))]
	}
	taken, err := n.fabric.Taken(ctx, name)
	if err != nil {
		return "", err
	}
	for _, l := range n.lans.listLANs() { // a network whose device does not stand yet
		taken = taken || l.record.Device == name
	}
	if taken || name == defaultDevice {
		return "", fault.Conflict("the bridge device name %s is already in use", name)
	}
	return name, nil
}

// RemoveNetwork implements network.Driver.
func (n *Network) RemoveNetwork(ctx context.Context, id string) error {
	l, err := n.lans.takeUnused(id)
	if l == nil {
		return err
	}
	if err := n.fabric.Down(context.WithoutCancel(ctx), l.link); err != nil { // all or nothing, even if the client hangs up
		n.lans.storeLAN(l)
		return fmt.Errorf("error while removing network: network %s id %s: %w", l.record.Name, id, err)
	}
	return errors.Join(l.close(), n.pools.forgetCursors(id))
}

// newLAN opens the network's addresses. Its pools have been filled.
func (n *Network) newLAN(nw *network.Network) (*lan, error) {
	set, err := parseSettings(nw.Options)
	if err != nil {
		return nil, err
	}
	l := &lan{record: nw, set: set, members: make(map[string]bool)}
	l.link = bridge.Net{
		ID: nw.ID, Device: nw.Device, MTU: set.mtu, Internal: nw.Internal, Isolated: set.isolated, NoMasq: set.noMasq,
	}
	if l.link.MTU == 0 {
		l.link.MTU = n.opts.MTU
	}
	pool, ok := nw.Pool(false)
	if !ok {
		return nil, fault.Invalid("network %s has no IPv4 subnet", nw.Name)
	}
	if nw.Overlay != nil {
		l.setOverlay(nw)
		l.v4, err = ipam.Open(poolOptions(pool)) // its addresses are asked for: there is no next one to remember
	} else {
		l.v4, err = n.pools.openPool(nw.ID, pool)
	}
	if err != nil {
		return nil, err
	}
	l.link.IPv4 = netip.PrefixFrom(l.v4.Gateway(), pool.Subnet.Bits())
	if pool, ok = nw.Pool(true); ok {
		if l.v6, err = n.pools.openPool(nw.ID, pool); err != nil {
			return nil, errors.Join(err, l.v4.Close())
		}
		l.link.IPv6 = netip.PrefixFrom(l.v6.Gateway(), pool.Subnet.Bits())
	}
	return l, nil
}

// bringUpLAN makes the network's device and rules unless they are there.
func (n *Network) bringUpLAN(ctx context.Context, l *lan) error {
	l.raising.Lock()
	defer l.raising.Unlock()
	if l.up {
		return nil
	}
	if err := n.fabric.Up(ctx, l.link); err != nil {
		return err
	}
	if l.record.Name == network.Bridge {
		if err := n.names.openSharedServer(l); err != nil { //nolint:contextcheck // what answers names outlives the call
			return err
		}
	}
	l.up = true
	return nil
}

// isUp reports whether the network's device is known to be there.
func (l *lan) isUp() bool {
	l.raising.Lock()
	defer l.raising.Unlock()
	return l.up
}

// settings are the parsed options of a network.
type settings struct {
	device   string // empty: one is made up
	mtu      int    // bytes; 0: the engine's
	isolated bool
	noMasq   bool
	host     netip.Addr // where ports are published that name no address; invalid: everywhere
	prefix   string     // of the devices inside containers
}

// parseSettings reads what engine/network has checked; values that cannot be are a fault.Invalid all the same.
func parseSettings(options map[string]string) (settings, error) {
	s := settings{prefix: "eth"}
	for key, value := range options {
		var err error
		var on bool
		switch key {
		case network.OptionName:
			s.device = value
		case network.OptionMTU:
			s.mtu, err = strconv.Atoi(value)
		case network.OptionICC:
			on, err = strconv.ParseBool(value)
			s.isolated = !on
		case network.OptionMasq:
			on, err = strconv.ParseBool(value)
			s.noMasq = !on
		case network.OptionHostIPv4:
			s.host, err = netip.ParseAddr(value)
		case network.OptionPrefix:
			s.prefix = value
		}
		if err != nil {
			return settings{}, fault.Invalid("invalid value for %s: %q: %w", key, value, err)
		}
	}
	return s, nil
}
