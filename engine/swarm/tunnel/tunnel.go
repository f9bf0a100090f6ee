// Package tunnel leads the networks of a swarm from node to node: WireGuard in this process, with its UDP socket in the
// network namespace of the calling thread, the host's, and its device in the containers' one. It knows nothing of where
// tables come from, of bridges and of names, and makes no rules.
//
// Networks are routed, not bridged: every node has one device for all networks, a route of one address to it for each
// task and each node elsewhere, and bridges that answer ARP for these addresses. A peer may send from the addresses of its
// own tasks only: WireGuard drops the rest, so that no node can speak for another one's containers. A container sees the
// address of the other container, not that of a node.
//
// What else the containers' namespace needs (package bridge sets it): proxy_arp of each bridge, without the delay of up to 0.8 s
// by which the kernel answers for others, and forwarding. All bridges, and the devices of containers in them, have the MTU of
// the tunnel: nothing in between could say that a packet is too large. Which network may reach which through the tunnel is
// the balancer's rules' matter: WireGuard only knows who speaks.
//
// What it costs, on two cores with both nodes on one machine: 145 to 215 MB/s in one stream at MTU 1500 outside (1,700
// without the tunnel), 0.08 ms more for a round trip, 2 MiB when idle, and up to 45 MiB on each side under load.
//
// Memory is bounded: the library holds a buffer of 64 KiB for each packet in flight, in queues without a bound in bytes,
// and packets to a peer that does not answer for 90 s and more. A ledger counts them on their way from the device to the
// socket and from the socket to the device. Beyond 256 packets each way, and half of these for one peer, packets are lost,
// as at any full queue: neither a container that floods nor a peer that is away takes the others' room. What a container
// sends that cannot be read is lost as well: the library would end the tunnel.
//
// The device is persistent: it outlives this process with its routes, so that nothing but packets is lost while the
// process is started again. Remove takes it away, when the node leaves the swarm.
package tunnel

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"moss/engine/fault"
	"moss/engine/swarm/table"
	"moss/engine/thread"
)

// DefaultMTU is that of the device in bytes: what remains of 1500 under WireGuard, UDP and IPv6.
const DefaultMTU = 1420

// Options say where the tunnel is. NetNS, Device and Key must be set.
type Options struct {
	NetNS  string // the path of the containers' network namespace
	Device string // the name of the device in there
	Key    PrivateKey
	Port   uint16 // UDP, on all addresses of the host; 0: the kernel chooses
	MTU    int    // of the device, in bytes; 0: DefaultMTU
	// Report is called with what goes wrong while packets are carried, from any goroutine. nil: nobody wants to know.
	Report func(text string)
}

// Tunnel is a device that carries packets.
type Tunnel struct {
	device *device.Device
	routes *routes
	port   uint16
	own    table.Key

	ledger  *ledger
	holders atomic.Pointer[map[netip.Addr]table.Key] // the peers of addresses

	mu     sync.Mutex // guards what follows, and all changes
	peers  map[table.Key]Peer
	closed bool
}

// speakUpDelay is how long one of two nodes that learn of each other waits for the other to begin.
const speakUpDelay = 250 * time.Millisecond

// Open makes the device, or takes over the one that an earlier process has left, and carries packets from then on: to
// nobody before Set. Its caller closes it. The calling thread must be in the host's network namespace.
func Open(o Options) (*Tunnel, error) {
	if o.MTU == 0 {
		o.MTU = DefaultMTU
	}
	if o.Report == nil {
		o.Report = func(string) {}
	}
	own, err := o.Key.Public()
	if err != nil {
		return nil, err
	}
	t := &Tunnel{own: own, peers: map[table.Key]Peer{}}
	var dev *tunDevice
	err = thread.InNetworkAt(o.NetNS, func() (err error) {
		if dev, err = openDevice(o.Device, o.MTU); err != nil {
			return err
		}
		if t.routes, err = openRoutes(o.Device, o.MTU); err != nil {
			_ = dev.Close()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make the device %s of the swarm's networks: %w", o.Device, err)
	}
	t.carryPackets(dev, &reporter{report: o.Report})
	if err := t.openPort(o); err != nil {
		_ = t.Close()
		return nil, err
	}
	return t, nil
}

// carryPackets begins to read from the device.
func (t *Tunnel) carryPackets(dev tun.Device, r *reporter) {
	t.holders.Store(&map[netip.Addr]table.Key{})
	// The first packet is read before this function returns, but nothing is sent to a peer before Set.
	t.ledger = newLedger(t.dropWaiting)
	limited := &limitedDevice{Device: dev, ledger: t.ledger, holders: &t.holders, report: r.reportError}
	bind := &limitedBind{Bind: conn.NewDefaultBind(), ledger: t.ledger}
	t.device = device.NewDevice(limited, bind, &device.Logger{Verbosef: device.DiscardLogf, Errorf: r.reportText})
}

// dropWaiting drops what waits for the handshake of a peer.
func (t *Tunnel) dropWaiting(key table.Key) {
	if peer := t.device.LookupPeer(device.NoisePublicKey(key)); peer != nil {
		peer.FlushStagedPackets()
	}
}

func (t *Tunnel) openPort(o Options) error {
	conf := fmt.Sprintf("private_key=%s\nlisten_port=%d\n", hex.EncodeToString(o.Key[:]), o.Port)
	if err := t.device.IpcSet(conf); err != nil {
		return fmt.Errorf("set up the swarm's data port: %w", err)
	}
	if err := t.device.Up(); err != nil {
		return fmt.Errorf("open the swarm's data port %d: %w", o.Port, err)
	}
	state, err := t.device.IpcGet()
	if err != nil {
		return fmt.Errorf("read the swarm's data port: %w", err)
	}
	for line := range strings.Lines(state) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "listen_port="); ok {
			port, err := strconv.ParseUint(text, 10, 16)
			if err != nil {
				return fmt.Errorf("read the swarm's data port: %w", err)
			}
			t.port = uint16(port)
		}
	}
	return nil
}

// Port returns the UDP port of the host.
func (t *Tunnel) Port() uint16 { return t.port }

// Close ends the tunnel. The device stays, with its routes.
func (t *Tunnel) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		t.device.Close()
		t.routes.closeHandle()
	}
	return nil
}

// Remove takes the device away that a closed tunnel has left. One that is not there is no error.
func Remove(netNS, name string) error {
	return thread.InNetworkAt(netNS, func() error {
		link, err := netlink.LinkByName(name)
		if isNotFound(err) {
			return nil
		}
		if err == nil {
			err = netlink.LinkDel(link)
		}
		if err != nil {
			return fmt.Errorf("remove the device %s of the swarm's networks: %w", name, err)
		}
		return nil
	})
}

// Set makes the peers those that there are, and the routes to their addresses. An address that two peers have is
// fault.Invalid, and nothing has changed. After another error Set may be repeated.
func (t *Tunnel) Set(peers []Peer) error {
	next := make(map[table.Key]Peer, len(peers))
	holders := map[netip.Addr]table.Key{}
	for _, p := range peers {
		for _, a := range p.Addrs {
			if other, ok := holders[a]; ok && other != p.Key {
				return fault.Invalid("address %s belongs to two nodes, with the keys %s and %s", a, other, p.Key)
			}
			holders[a] = p.Key
		}
		next[p.Key] = p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fault.Unavailable("the tunnel of the swarm's networks is closed")
	}
	// Nobody may speak for an address that has gone before its route goes, nor is a route there before its peer.
	old := t.peers
	if conf := configFor(old, next); conf != "" {
		if err := t.device.IpcSet(conf); err != nil {
			return fmt.Errorf("set the nodes of the swarm's networks: %w", err)
		}
	}
	t.peers = next
	t.holders.Store(&holders)
	if err := t.routes.setAddrs(holders); err != nil {
		return err
	}
	for key, p := range next {
		if _, ok := old[key]; !ok && p.Data.IsValid() {
			t.speakUp(key)
		}
	}
	return nil
}

// speakUp begins a handshake with a new peer. A peer that knew an earlier process of this node goes on with keys of that
// one for 15 s otherwise. Two handshakes that cross are both void, and the next one comes after 5 s: so the node with the
// lower key waits for a moment.
func (t *Tunnel) speakUp(key table.Key) {
	begin := func() {
		if peer := t.device.LookupPeer(device.NoisePublicKey(key)); peer != nil {
			_ = peer.SendHandshakeInitiation(false) // it is tried again as soon as there is a packet
		}
	}
	if slices.Compare(t.own[:], key[:]) > 0 {
		begin()
		return
	}
	time.AfterFunc(speakUpDelay, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.closed {
			begin()
		}
	})
}
