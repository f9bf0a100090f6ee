// Package bridge builds the containers' default network inside the detached network namespace: the bridge device, its
// rules, and per container a network namespace with one virtual cable to the bridge.
//
// Everything is done by netlink from this process; nothing is executed. It holds no list of containers and no addresses:
// a container's network is its file under Options.Dir, so that a new engine finds what the old one left.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/thread"
)

// Device is the bridge's name. Containers of this network are its ports.
const Device = "moss0"

// Options says where things are. Every field but Avoid must be set.
type Options struct {
	NetNS  string         // the detached network namespace, bound to a file
	Dir    string         // gets one bound namespace per container; on a file system that ends with the boot
	File   string         // remembers the network's id and subnet over boots
	Uplink string         // the device that leads outside, in the detached namespace
	MTU    int            // bytes, of the bridge and of the containers' devices
	Avoid  []netip.Prefix // networks that the subnet must stay clear of, beside those the host has routes to
}

// Config is what a network that is set up looks like.
type Config struct {
	ID      string // 64 hexadecimal digits
	Subnet  netip.Prefix
	Gateway netip.Addr // the bridge's own address
}

// Bridge is the default network. All methods may be called at the same time, each container by one caller at a time.
type Bridge struct {
	opts Options

	setup sync.Mutex // held while the network is set up, over system calls, so that it happens once
	spare spares

	mu   sync.Mutex // guards live
	live *live
}

// live is a network that is set up, with the sockets into the detached namespace. It is never changed.
type live struct {
	config Config
	index  int32 // of the bridge device
	handle *netlink.Handle
	raw    *nl.SocketHandle
}

// New returns the network without touching anything: the first Ensure or Attach sets it up.
func New(opts Options) (*Bridge, error) {
	if opts.NetNS == "" || opts.Dir == "" || opts.File == "" || opts.Uplink == "" || opts.MTU <= 0 {
		return nil, fault.Internal("bridge: incomplete options %+v", opts)
	}
	return &Bridge{opts: opts}, nil
}

// Ensure sets the network up unless it is, and returns what it looks like. What an earlier engine has set up is kept.
func (b *Bridge) Ensure(ctx context.Context) (Config, error) {
	l, err := b.ensure(ctx)
	if err != nil {
		return Config{}, err
	}
	return l.config, nil
}

// Warm sets the network up and makes a namespace ready, so that the first container waits for neither.
func (b *Bridge) Warm(ctx context.Context) error {
	if _, err := b.ensure(ctx); err != nil {
		return err
	}
	b.spare.refill()
	return nil
}

// Close waits for work in the background and closes what this process holds open. The network itself and the
// containers' namespaces stay. The Bridge must not be used afterwards.
func (b *Bridge) Close() error {
	err := b.spare.close()
	b.mu.Lock()
	l := b.live
	b.live = nil
	b.mu.Unlock()
	if l != nil {
		l.close()
	}
	return err
}

func (b *Bridge) ensure(ctx context.Context) (*live, error) {
	if l := b.current(); l != nil {
		return l, nil
	}
	b.setup.Lock()
	defer b.setup.Unlock()
	if l := b.current(); l != nil {
		return l, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("set up network bridge: %w", err)
	}
	l, err := b.open()
	if err != nil {
		return nil, fmt.Errorf("set up network bridge: %w", err)
	}
	b.mu.Lock()
	b.live = l
	b.mu.Unlock()
	return l, nil
}

func (b *Bridge) current() *live {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live
}

// open makes or adopts the device and rules, and keeps sockets into the namespace.
func (b *Bridge) open() (_ *live, err error) {
	if err := os.MkdirAll(b.opts.Dir, 0o700); err != nil {
		return nil, err
	}
	l := &live{}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	rules, err := b.reach(l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rules.CloseLasting()) }()

	link, existing, err := findDevice(l.handle)
	if err != nil {
		return nil, err
	}
	if l.config, err = b.settle(existing); err != nil {
		return nil, err
	}
	// Each step may find its work done by an earlier engine, in whole or in part.
	if link == nil {
		if link, err = makeDevice(l.handle, b.opts.MTU, l.config.Gateway); err != nil {
			return nil, err
		}
	}
	l.index = int32(link.Attrs().Index)
	if err := raiseDevice(l.handle, link, b.opts.MTU, l.config); err != nil {
		return nil, err
	}
	return l, setRules(rules, b.opts.Uplink, l.config.Subnet)
}

// reach opens the sockets into the containers' network namespace and sets its sysctls, before the devices that copy the
// defaults. The libraries' own ways to open a socket elsewhere would spoil the thread: a process in a user namespace may
// leave the host's network namespace but never enter it again.
func (b *Bridge) reach(l *live) (rules *nftables.Conn, err error) {
	err = thread.Apart(func() error {
		ns, err := os.Open(b.opts.NetNS)
		if err != nil {
			return fmt.Errorf("open the containers' network namespace: %w", err)
		}
		err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		if err = errors.Join(err, ns.Close()); err != nil {
			return fmt.Errorf("enter the containers' network namespace: %w", err)
		}
		if l.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		here := netns.None()
		sock, err := nl.GetNetlinkSocketAt(here, here, unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		l.raw = &nl.SocketHandle{Socket: sock}
		if err := applySysctls(append(quietIPv6(),
			sysctl{"net/ipv6/conf/" + b.opts.Uplink + "/accept_ra", "0"},
			sysctl{"net/ipv4/ip_forward", "1"},
		)); err != nil {
			return err
		}
		if rules, err = nftables.New(nftables.AsLasting()); err != nil {
			return fmt.Errorf("open nftables: %w", err)
		}
		return nil
	})
	return rules, err
}

func (l *live) close() {
	if l.handle != nil {
		l.handle.Close()
	}
	if l.raw != nil {
		l.raw.Close()
	}
}

// findDevice returns nothing and no error when there is no bridge yet.
func findDevice(h *netlink.Handle) (netlink.Link, netip.Prefix, error) {
	link, err := h.LinkByName(Device)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); missing {
		return nil, netip.Prefix{}, nil
	}
	if err != nil {
		return nil, netip.Prefix{}, fmt.Errorf("look for %s: %w", Device, err)
	}
	addrs, err := h.AddrList(link, unix.AF_INET)
	if err != nil {
		return nil, netip.Prefix{}, fmt.Errorf("list addresses of %s: %w", Device, err)
	}
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP.To4())
		bits, _ := a.Mask.Size()
		if ok && bits > 0 {
			return link, netip.PrefixFrom(ip, bits).Masked(), nil
		}
	}
	return link, netip.Prefix{}, nil
}

// makeDevice gives the bridge a fixed MAC address: otherwise it takes the lowest of its ports' and changes it under the
// containers' feet.
func makeDevice(h *netlink.Handle, mtu int, gateway netip.Addr) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = Device
	attrs.MTU = mtu
	attrs.HardwareAddr = MACFor(gateway)
	link := &netlink.Bridge{LinkAttrs: attrs}
	if err := h.LinkAdd(link); err != nil {
		return nil, fmt.Errorf("make %s: %w", Device, err)
	}
	return link, nil
}

func raiseDevice(h *netlink.Handle, link netlink.Link, mtu int, c Config) error {
	if link.Attrs().MTU != mtu {
		if err := h.LinkSetMTU(link, mtu); err != nil {
			return fmt.Errorf("set the MTU of %s to %d: %w", Device, mtu, err)
		}
	}
	addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(c.Gateway, c.Subnet.Bits()))}
	if err := h.AddrAdd(link, addr); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("give %s the address %s: %w", Device, c.Gateway, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up %s: %w", Device, err)
	}
	return nil
}
