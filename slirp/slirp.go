// Package slirp gives containers their network: it puts together the bridge in the detached namespace, its addresses and
// the ports published on the host, and keeps the three in step. It starts, watches and stops no process.
//
// What exists outlives this process: namespaces are bound to files, devices and rules are the kernel's, published ports
// the outer process's. A new engine calls Restore before anything else.
package slirp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"moss/engine/fault"
	"moss/engine/network"
	"moss/slirp/bridge"
	"moss/slirp/ipam"
	"moss/slirp/publish"
	"moss/slirp/uplink"
)

// Options says where things are. The three directories must be absolute.
type Options struct {
	StateDir string // RootlessKit's: netns, api.sock, resolv.conf
	RunDir   string // of this boot; gets netns/ and bridge.next
	DataDir  string // survives boots; gets networks/bridge.json
	MTU      int    // bytes; 0: uplink.DefaultMTU
	Driver   string // of the uplink; empty: uplink.Slirp4netns
}

// Info describes the network for the engine's own info.
type Info struct {
	Driver    string // of the uplink
	MTU       int    // bytes
	NetworkID string // the rest is empty until the first container, or Warm, has set the bridge up
	Subnet    string
	Gateway   string
}

// Network is the containers' network. All methods may be called at the same time, each container by one caller at a
// time.
type Network struct {
	opts   Options
	bridge *bridge.Bridge
	ports  *publish.Publisher

	mu     sync.Mutex // guards joined, pool, config
	joined map[string]network.Sandbox
	pool   *ipam.Pool
	config bridge.Config
}

// New returns a network and touches nothing yet. Bad options are a fault.Invalid.
func New(opts Options) (*Network, error) {
	for name, dir := range map[string]string{"state": opts.StateDir, "run": opts.RunDir, "data": opts.DataDir} {
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
	avoid, err := netip.ParsePrefix(uplink.Subnet())
	if err != nil {
		return nil, err
	}
	b, err := bridge.New(bridge.Options{
		NetNS:  filepath.Join(opts.StateDir, "netns"),
		Dir:    filepath.Join(opts.RunDir, "netns"),
		File:   filepath.Join(opts.DataDir, "networks", "bridge.json"),
		Uplink: uplink.Device,
		MTU:    opts.MTU,
		Avoid:  []netip.Prefix{avoid},
	})
	if err != nil {
		return nil, err
	}
	return &Network{
		opts:   opts,
		bridge: b,
		ports:  publish.New(filepath.Join(opts.StateDir, "api.sock")),
		joined: make(map[string]network.Sandbox),
	}, nil
}

// Warm sets the default network up and makes the next container's namespace ready. Without it the first Join does.
func (n *Network) Warm(ctx context.Context) error {
	if _, _, err := n.ready(ctx); err != nil {
		return err
	}
	return n.bridge.Warm(ctx)
}

// Join makes the container's network ready and publishes its ports. With network.None and network.Host there is no
// namespace and no port. A container that has joined already is a fault.Conflict, an unknown mode or a malformed MAC
// address a fault.Invalid; see publish.Publish for the faults of ports. On error nothing is left.
func (n *Network) Join(ctx context.Context, req network.Request) (network.Sandbox, error) {
	if n.has(req.ContainerID) {
		return network.Sandbox{}, fault.Conflict("container %s has a network already", req.ContainerID)
	}
	switch req.Mode {
	case network.Bridge:
		return n.joinBridge(ctx, req)
	case network.None, network.Host:
	default:
		return network.Sandbox{}, fault.Invalid("network mode %q is not supported", req.Mode)
	}
	s := network.Sandbox{ID: bridge.NewID(), Mode: req.Mode}
	s.Endpoints = map[string]network.Endpoint{req.Mode: {NetworkID: fixedID(req.Mode), EndpointID: bridge.NewID()}}
	n.add(req.ContainerID, s)
	return s, nil
}

func (n *Network) joinBridge(ctx context.Context, req network.Request) (_ network.Sandbox, err error) {
	fail := func(err error) (network.Sandbox, error) { return network.Sandbox{}, err }
	mac, err := parseMAC(req.MacAddress)
	if err != nil {
		return fail(err)
	}
	dns, err := readResolvConf(filepath.Join(n.opts.StateDir, "resolv.conf"))
	if err != nil {
		return fail(fmt.Errorf("find the containers' name server: %w", err))
	}
	config, pool, err := n.ready(ctx)
	if err != nil {
		return fail(err)
	}
	addr, err := pool.Take(req.ContainerID)
	if err != nil {
		return fail(err)
	}
	if mac == nil {
		mac = bridge.MACFor(addr)
	}
	endpoint := network.Endpoint{
		NetworkID:   config.ID,
		EndpointID:  bridge.NewID(),
		Gateway:     config.Gateway.String(),
		IPAddress:   addr.String(),
		IPPrefixLen: config.Subnet.Bits(),
		MacAddress:  mac.String(),
	}
	s := network.Sandbox{
		ID:        bridge.NewID(),
		Mode:      network.Bridge,
		Endpoints: map[string]network.Endpoint{network.Bridge: endpoint},
		DNS:       dns.servers,
		Search:    dns.search,
		Options:   dns.options,
	}
	n.add(req.ContainerID, s) // first, so that Leave can undo the rest
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Leave(context.WithoutCancel(ctx), req.ContainerID)) // undone even if the client hangs up
		}
	}()
	if s.Path, err = n.bridge.Attach(ctx, bridge.Endpoint{ContainerID: req.ContainerID, ID: endpoint.EndpointID, Addr: addr, MAC: mac}); err != nil {
		return fail(err)
	}
	to := publish.Target{Owner: req.ContainerID, EndpointID: endpoint.EndpointID, Addr: addr}
	if s.Ports, err = n.ports.Publish(ctx, to, req.Ports); err != nil {
		return fail(err)
	}
	n.add(req.ContainerID, s)
	return s, nil
}

// Leave takes a container's ports, namespace and address away. A container that has no network is no error. After an
// error, calling again goes on where it stopped; the address is kept until the ports that lead there are closed.
func (n *Network) Leave(ctx context.Context, containerID string) error {
	err := errors.Join(n.ports.Unpublish(ctx, containerID), n.bridge.Detach(containerID))
	if err != nil {
		return fmt.Errorf("leave network: %w", err)
	}
	n.mu.Lock()
	s, pool := n.joined[containerID], n.pool
	delete(n.joined, containerID)
	n.mu.Unlock()
	if addr, ok := addrOf(s); ok && pool != nil {
		pool.Release(containerID, addr)
	}
	return nil
}

// Restore is called once, before the first Join, with the networks of the containers that are still running: it keeps
// these and clears away whatever else an earlier engine left. An error names what could not be kept or cleared; the rest
// is done nevertheless.
func (n *Network) Restore(ctx context.Context, running map[string]network.Sandbox) error {
	var (
		errs []error
		live []publish.Published
	)
	for id, s := range running {
		n.add(id, s)
		if addr, ok := addrOf(s); ok {
			to := publish.Target{Owner: id, EndpointID: s.Endpoints[network.Bridge].EndpointID, Addr: addr}
			live = append(live, publish.Published{Target: to, Ports: s.Ports})
		}
	}
	attached, err := n.bridge.Attached()
	errs = append(errs, err)
	for _, id := range attached {
		if _, ok := running[id]; !ok {
			errs = append(errs, n.bridge.Detach(id))
		}
	}
	errs = append(errs, n.ports.Restore(ctx, live))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("restore networks: %w", err)
	}
	return nil
}

// Close is for the end of the engine, when no container runs any more: what is left of them is cleared away and
// everything held open is closed. The bridge goes with the namespace it is in. To end without touching the containers'
// networks, do not call it. The Network must not be used afterwards.
func (n *Network) Close(ctx context.Context) error {
	n.mu.Lock()
	ids := make([]string, 0, len(n.joined))
	for id := range n.joined {
		ids = append(ids, id)
	}
	n.mu.Unlock()
	attached, err := n.bridge.Attached()
	errs := []error{err}
	for _, id := range append(ids, attached...) {
		errs = append(errs, n.Leave(ctx, id))
	}
	n.ports.Close()
	errs = append(errs, n.bridge.Close())
	n.mu.Lock()
	pool := n.pool
	n.pool = nil
	n.mu.Unlock()
	if pool != nil {
		errs = append(errs, pool.Close())
	}
	errs = append(errs, removeIfThere(n.cursorPath()), removeIfThere(filepath.Join(n.opts.RunDir, "netns")))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close networks: %w", err)
	}
	return nil
}

// Info says what the network is at the moment.
func (n *Network) Info() Info {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := Info{Driver: n.opts.Driver, MTU: n.opts.MTU}
	if n.pool != nil {
		i.NetworkID, i.Subnet, i.Gateway = n.config.ID, n.config.Subnet.String(), n.config.Gateway.String()
	}
	return i
}

// ready sets the bridge up and opens its addresses the first time; those of restored containers are taken out at once.
func (n *Network) ready(ctx context.Context) (bridge.Config, *ipam.Pool, error) {
	n.mu.Lock()
	config, pool := n.config, n.pool
	n.mu.Unlock()
	if pool != nil {
		return config, pool, nil
	}
	config, err := n.bridge.Ensure(ctx)
	if err != nil {
		return bridge.Config{}, nil, err
	}
	fresh, err := ipam.Open(config.Subnet, n.cursorPath())
	if err != nil {
		return bridge.Config{}, nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pool != nil { // another caller was faster
		return n.config, n.pool, fresh.Close()
	}
	for id, s := range n.joined {
		if addr, ok := addrOf(s); ok {
			// One out of another subnet cannot be given twice.
			if err := fresh.Claim(id, addr); err != nil && !fault.Is(err, fault.Invalid) {
				return bridge.Config{}, nil, errors.Join(fmt.Errorf("restore address of %s: %w", id, err), fresh.Close())
			}
		}
	}
	n.config, n.pool = config, fresh
	return config, fresh, nil
}

func (n *Network) cursorPath() string { return filepath.Join(n.opts.RunDir, "bridge.next") }

func (n *Network) has(containerID string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.joined[containerID]
	return ok
}

func (n *Network) add(containerID string, s network.Sandbox) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.joined[containerID] = s
}

// addrOf returns the sandbox's address in the default network, if it has one.
func addrOf(s network.Sandbox) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(s.Endpoints[network.Bridge].IPAddress)
	return addr, err == nil
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

// fixedID is the id of a network that every host has: the same everywhere and at any time.
func fixedID(name string) string {
	sum := sha256.Sum256([]byte("moss network " + name))
	return hex.EncodeToString(sum[:])
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
