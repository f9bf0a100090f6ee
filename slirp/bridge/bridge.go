// Package bridge builds the containers' networks inside the detached network namespace: one bridge device per network,
// the rules between them and the outside, and per container a network namespace with a virtual cable to each bridge.
//
// Everything is done by netlink from this process; nothing is executed. It holds no list of containers and gives no
// addresses: a container's network is its file under Options.Dir, so that a new engine finds what the old one left.
package bridge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/thread"
)

// Options says where things are. NetNS, Dir and Uplink must be set.
type Options struct {
	NetNS  string // the detached network namespace, bound to a file
	Dir    string // gets one bound namespace per container; on a file system that ends with the boot
	Uplink string // the device that leads outside, in the detached namespace
	Send   int    // bytes that a connection of a container may have under way; 0: as many as the host's

	// How forwarded connections keep their clients' addresses; all 0: they do not.
	DialMark   uint32 // that sockets of the forwarder have
	ReplyMark  uint32 // for what answers them
	ReplyTable int    // where packets with ReplyMark are routed: to the forwarder
}

// Net is one network as its device and the rules have it.
type Net struct {
	ID       string
	Device   string
	IPv4     netip.Prefix // the bridge's own address in its subnet
	IPv6     netip.Prefix // likewise; invalid: none
	MTU      int          // bytes
	Internal bool         // nothing is forwarded in or out
	Isolated bool         // its containers do not reach each other
	NoMasq   bool         // what leaves keeps its address
	Tunnel   string       // the device that leads to the network's containers on other nodes; empty: it has none
	Own      netip.Addr   // this node's own address in a network with a tunnel; invalid: it has none
}

// Fabric is all of the networks. All methods may be called at the same time, each container and each network by one
// caller at a time.
type Fabric struct {
	opts  Options
	spare spares

	setup sync.Mutex // held while the namespace is entered and devices and rules change, over system calls; guards ports, ruled
	ports map[PortKey]PortTarget
	ruled bool // this process has set the rules

	mu   sync.Mutex // guards live, up; taken below setup
	live *live
	up   map[string]standing // by id
}

// standing is a network whose device stands.
type standing struct {
	Net
	index int // of the device
}

// live is the detached namespace as this process reaches it. It is never changed.
type live struct {
	handle *netlink.Handle
	raw    *nl.SocketHandle
	rules  *nftables.Conn // used with Fabric.setup held
	packet int            // a socket for frames; -1: none
	has6   bool           // the kernel has IPv6
}

// New returns the networks without touching anything.
func New(opts Options) (*Fabric, error) {
	if opts.NetNS == "" || opts.Dir == "" || opts.Uplink == "" {
		return nil, fault.Internal("bridge: incomplete options %+v", opts)
	}
	more := sendSysctls(opts.Send)
	return &Fabric{opts: opts, spare: spares{more: more}, ports: make(map[PortKey]PortTarget), up: make(map[string]standing)}, nil
}

// Warm makes a namespace ready, so that the first container does not wait for it.
func (f *Fabric) Warm() { f.spare.refill() }

// Close waits for work in the background and closes what this process holds open. The networks themselves and the
// containers' namespaces stay. The Fabric must not be used afterwards.
func (f *Fabric) Close() error {
	err := f.spare.close()
	f.mu.Lock()
	l := f.live
	f.live = nil
	f.mu.Unlock()
	if l != nil {
		l.close()
	}
	return err
}

// ensureLive returns the way into the namespace, which is opened the first time.
func (f *Fabric) ensureLive(ctx context.Context) (*live, error) {
	f.setup.Lock()
	defer f.setup.Unlock()
	return f.ensureLiveLocked(ctx)
}

// ensureLiveLocked wants setup to be held.
func (f *Fabric) ensureLiveLocked(ctx context.Context) (*live, error) {
	if l := f.currentLive(); l != nil {
		return l, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("set up networks: %w", err)
	}
	if err := os.MkdirAll(f.opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("set up networks: %w", err)
	}
	l := &live{packet: -1}
	if err := f.openSockets(l); err != nil {
		l.close()
		return nil, fmt.Errorf("set up networks: %w", err)
	}
	f.mu.Lock()
	f.live = l
	f.mu.Unlock()
	return l, nil
}

func (f *Fabric) currentLive() *live {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live
}

// indexOf returns the device's index of a network that is up.
func (f *Fabric) indexOf(networkID string) (int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok := f.up[networkID]
	return n.index, ok
}

// netsUp lists the networks that are up.
func (f *Fabric) netsUp() []Net {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]Net, 0, len(f.up))
	for _, n := range f.up {
		all = append(all, n.Net)
	}
	slices.SortFunc(all, func(a, b Net) int { return strings.Compare(a.Device, b.Device) }) // the same rules every time
	return all
}

func (f *Fabric) markUp(n Net, index int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up[n.ID] = standing{n, index}
}

func (f *Fabric) markDown(networkID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.up, networkID)
}

// openSockets opens the sockets into the containers' network namespace and sets its sysctls, before the devices that
// copy the defaults.
func (f *Fabric) openSockets(l *live) error {
	return thread.InNetworkAt(f.opts.NetNS, func() (err error) {
		if l.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		here := netns.None()
		sock, err := nl.GetNetlinkSocketAt(here, here, unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		l.raw = &nl.SocketHandle{Socket: sock}
		if l.packet, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open a packet socket: %w", err)
		}
		l.has6 = fileExists("/proc/sys/net/ipv6")
		if err := applySysctls(detachedSysctls(f.opts.Uplink)); err != nil {
			return err
		}
		_ = applySysctls(bridgedSysctls()) // for speed only
		if l.rules, err = nftables.New(nftables.AsLasting()); err != nil {
			return fmt.Errorf("open nftables: %w", err)
		}
		return nil
	})
}

func (l *live) close() {
	if l.handle != nil {
		l.handle.Close()
	}
	if l.raw != nil {
		l.raw.Close()
	}
	if l.packet >= 0 {
		_ = unix.Close(l.packet)
	}
	if l.rules != nil {
		_ = l.rules.CloseLasting()
	}
}

// NewID returns a fresh id of 64 hexadecimal digits.
func NewID() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// MACFor returns the address that goes with an IPv4 address, as clients know it: 02:42 and the four bytes. A container
// that gets the address of one long gone has its MAC too, so that no neighbour remembers a wrong one.
func MACFor(addr netip.Addr) net.HardwareAddr {
	a := addr.As4()
	return net.HardwareAddr{0x02, 0x42, a[0], a[1], a[2], a[3]}
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// HostRoutes lists the networks that this process's own namespace, which is the host's, has IPv4 routes to.
func HostRoutes() ([]netip.Prefix, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink on the host: %w", err)
	}
	defer h.Close()
	routes, err := h.RouteList(nil, unix.AF_INET)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list the host's routes: %w", err)
	}
	var nets []netip.Prefix
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		ip, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		// The default route, and the halves of it that VPNs set, do not name a network.
		if bits, _ := r.Dst.Mask.Size(); ok && bits > 1 {
			nets = append(nets, netip.PrefixFrom(ip, bits))
		}
	}
	return nets, nil
}
