// Package slirp gives containers their networks: it puts together the bridges in the detached namespace, their addresses,
// names, and the ports published on the host, and keeps the four in step. It starts, watches and stops no process.
//
// What exists outlives this process: namespaces are bound to files, devices and rules are the kernel's, published ports
// the outer process's. A new engine calls Adopt and then Restore before anything else.
package slirp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"

	"github.com/rs/zerolog"

	"moss/engine/fault"
	"moss/engine/thread"
	"moss/slirp/balance"
	"moss/slirp/bridge"
	"moss/slirp/dns"
	"moss/slirp/forward"
	"moss/slirp/publish"
	"moss/slirp/uplink"
)

// Options says where things are. The two directories must be absolute.
type Options struct {
	StateDir string     // RootlessKit's: netns, api.sock, resolv.conf
	RunDir   string     // of this boot; gets netns/ and ipam/
	MTU      int        // bytes; 0: uplink.DefaultMTU
	Driver   string     // of the uplink; empty: uplink.Slirp4netns
	Send     int        // what uplink.Status says
	Keep     dns.Keeper // keeps name servers over a restart of the engine; nil: they end with it
	Log      zerolog.Logger

	// Anchor returns a path that leads to a file of StateDir even when that folder is gone; nil: the file's own path.
	Anchor func(name, path string) (string, error)
	ns     string // what it says of the containers' namespace
}

// Info describes the network for the engine's own info.
type Info struct {
	Driver    string // of the uplink
	MTU       int    // bytes
	NetworkID string // of the default network; the rest is empty before Adopt
	Subnet    string
	Gateway   string
}

// Network makes the networks of containers and connects containers to them. All methods may be called at the same time, each
// container and each network by one caller at a time.
type Network struct {
	opts    Options
	fabric  *bridge.Fabric
	lans    *lanTable
	subnets *subnetChooser
	pools   addressPools
	places  placeTable
	ports   *portPublisher
	names   *names
	swarm   *swarmSide

	adding sync.Mutex // held from the choice of a subnet until the network with it is in lans
}

// New returns networks and touches nothing yet. ctx gives values only. Bad options are a fault.Invalid.
func New(ctx context.Context, opts Options) (*Network, error) {
	for name, dir := range map[string]string{"state": opts.StateDir, "run": opts.RunDir} {
		if !filepath.IsAbs(dir) {
			return nil, fault.Invalid("%s directory %q must be absolute", name, dir)
		}
	}
	if opts.MTU == 0 {
		opts.MTU = uplink.DefaultMTU
	}
	if opts.Driver == "" {
		opts.Driver = uplink.Slirp4netns
	}
	uplinkSubnet, err := netip.ParsePrefix(uplink.Subnet())
	if err != nil {
		return nil, err
	}
	if opts.Anchor == nil {
		opts.Anchor = func(_, path string) (string, error) { return path, nil }
	}
	if opts.ns, err = opts.Anchor("netns", opts.netNS()); err != nil {
		return nil, err
	}
	fabric, err := bridge.New(bridge.Options{
		NetNS: opts.netNS(), Dir: filepath.Join(opts.RunDir, "netns"), Uplink: uplink.Device, Send: opts.Send,
		DialMark: forward.DialMark, ReplyMark: forward.ReplyMark, ReplyTable: forward.Table,
	})
	if err != nil {
		return nil, err
	}
	lans := &lanTable{byID: make(map[string]*lan)}
	publisher := publish.New(filepath.Join(opts.StateDir, "api.sock"), opts.Anchor)
	n := &Network{
		opts: opts, fabric: fabric, lans: lans,
		subnets: &subnetChooser{lans: lans, reserved: []netip.Prefix{uplinkSubnet}, log: opts.Log},
		pools:   addressPools{dir: filepath.Join(opts.RunDir, "ipam")},
		places:  placeTable{byContainer: make(map[string]*place)},
		ports:   &portPublisher{publisher: publisher, fabric: fabric, lans: lans},
		names:   newNames(ctx, opts, lans),
	}
	n.swarm = &swarmSide{
		lans: lans, places: &n.places, names: n.names.server, publisher: publisher, netns: opts.netNS(), log: opts.Log,
		ports: make(map[string]openedPort), clients: make(map[string]balance.Client),
	}
	return n, nil
}

// Warm sets the default network up and makes the next container's namespace ready. Without it the first Join does.
func (n *Network) Warm(ctx context.Context) error {
	if l := n.lans.findDefault(); l != nil {
		if err := n.bringUpLAN(ctx, l); err != nil {
			return err
		}
	}
	n.fabric.Warm()
	return nil
}

// Close is for the end of the engine, when no container runs any more: what is left of them is cleared away and
// everything held open is closed. The bridges go with the namespace they are in. To end without touching the containers'
// networks, do not call it. The Network must not be used afterwards.
func (n *Network) Close(ctx context.Context) error {
	attached, err := n.fabric.Attached()
	for _, id := range append(n.places.listContainers(), attached...) {
		err = errors.Join(err, n.Leave(ctx, id))
	}
	err = errors.Join(err, n.swarm.closePorts(ctx))
	n.ports.publisher.Close()
	err = errors.Join(err, n.names.close(), n.fabric.Close())
	for _, l := range n.lans.takeAll() {
		err = errors.Join(err, l.close())
	}
	err = errors.Join(err, n.pools.removeAll(), removeIfThere(filepath.Join(n.opts.RunDir, "netns")))
	if err != nil {
		return fmt.Errorf("close networks: %w", err)
	}
	return nil
}

// netNS is where the namespace of the containers' bridges is bound.
func (o *Options) netNS() string { return cmp.Or(o.ns, filepath.Join(o.StateDir, "netns")) }

// NetNS returns a path to the namespace of the containers' bridges.
func (n *Network) NetNS() string { return n.opts.netNS() }

// Info says what the network is at the moment.
func (n *Network) Info() Info {
	i := Info{Driver: n.opts.Driver, MTU: n.opts.MTU}
	if l := n.lans.findDefault(); l != nil {
		i.NetworkID, i.Subnet, i.Gateway = l.record.ID, l.link.IPv4.Masked().String(), l.link.IPv4.Addr().String()
	}
	return i
}

// Inside runs f on a thread in the containers' network namespace.
func (n *Network) Inside(f func() error) error { return thread.InNetworkAt(n.opts.netNS(), f) }
