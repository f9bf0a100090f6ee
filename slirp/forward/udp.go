package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	clientIdle = 90 * time.Second // after which a client that neither sends nor gets anything is forgotten
	maxClients = 1024             // of one port; one more puts out the one that was quiet the longest
	maxPacket  = 65535            // bytes
	maxControl = 64               // bytes of control messages that come with one
)

// datagram is where one is put that has come; it is shared, since a port has something in hand only for a moment.
type datagram struct {
	data    [maxPacket]byte
	control [maxControl]byte
}

var datagrams = sync.Pool{New: func() any { return new(datagram) }}

// udpPort is one open UDP port.
type udpPort struct {
	parent *Parent
	conn   *net.UDPConn
	raw    syscall.RawConn
	to     target
	kind   kind
	any    bool // it listens on all addresses, so that answers must name the one that was asked

	mu      sync.Mutex // guards clients, closed
	clients map[path]*udpClient
	closed  bool
}

// path is where datagrams come from and where they went.
type path struct {
	client netip.AddrPort
	local  local // nothing when the port listens on one address only
}

// udpClient is a client with its own socket towards the container.
type udpClient struct {
	port    *udpPort
	path    path
	control []byte // that makes answers leave from path.local
	kept    bool   // the container sees the client's address
	conn    *net.UDPConn
	raw     syscall.RawConn
	active  atomic.Int64 // in Unix nanoseconds
}

func (p *Parent) openUDP(ctx context.Context, r route) (*udpPort, error) {
	u := &udpPort{
		parent: p, kind: r.socketKind(), any: r.from.Addr().IsUnspecified(),
		to: target{addr: r.to}, clients: make(map[path]*udpClient),
	}
	lc := net.ListenConfig{}
	if u.any {
		lc.Control = askForLocal
	}
	c, err := lc.ListenPacket(ctx, r.network, r.from.String())
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("not a UDP socket but %T", c), c.Close())
	}
	u.conn = conn
	if u.raw, err = conn.SyscallConn(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	p.work.Go(u.receiveDatagrams)
	return u, nil
}

// askForLocal makes the kernel tell with every datagram to which address it went.
func askForLocal(network, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		if network == "udp4" {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		} else {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		}
	})
	return errors.Join(cerr, err)
}

// receiveDatagrams passes on what clients send, until the port is closed. It alone makes clients: two datagrams of a
// new one come one after the other.
func (u *udpPort) receiveDatagrams() {
	for {
		var failed error
		err := u.raw.Read(func(fd uintptr) bool {
			failed = u.readDatagrams(int(fd))
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err != nil {
			return // closed
		}
		if failed != nil {
			u.parent.logLimited("receive at %s: %v", u.conn.LocalAddr(), failed)
		}
	}
}

// readDatagrams reads all that is there.
func (u *udpPort) readDatagrams(fd int) error {
	d, _ := datagrams.Get().(*datagram)
	defer datagrams.Put(d)
	for {
		n, oobn, _, sa, err := unix.RecvmsgBuffers(fd, [][]byte{d.data[:]}, d.control[:], unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		client, err := toAddrPort(sa)
		if err != nil {
			return err
		}
		at := path{client: client}
		if u.any {
			at.local = parseLocal(d.control[:oobn])
		}
		u.forwardDatagram(at, d.data[:n])
	}
}

// forwardDatagram sends a datagram to the container. Like any router it drops what does not go.
func (u *udpPort) forwardDatagram(at path, data []byte) {
	u.mu.Lock()
	c := u.clients[at]
	u.mu.Unlock()
	if c != nil && c.sendDatagram(data) {
		return
	}
	c, err := u.addClient(at) // new, or forgotten just now
	if err != nil {
		u.parent.logLimited("datagram for %s: %v", u.to.addr, err)
		return
	}
	c.sendDatagram(data)
}

// addClient makes a client.
func (u *udpPort) addClient(at path) (*udpClient, error) {
	d := u.parent.dialer
	c := &udpClient{port: u, path: at, control: at.local.controlMessage()}
	c.kept = d.mayKeepAddress(at.client, &u.to) && d.claimFlow(at.client, u.to.addr)
	var err error
	if c.conn, err = d.dialUDP(at.client, c.kept, u.to.addr, u.kind); err == nil {
		c.raw, err = c.conn.SyscallConn()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	c.active.Store(time.Now().UnixNano())
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		c.close()
		return nil, net.ErrClosed
	}
	if len(u.clients) >= maxClients {
		u.forgetQuietestLocked()
	}
	u.clients[at] = c
	u.parent.work.Go(c.forwardAnswers)
	return c, nil
}

func (u *udpPort) forgetQuietestLocked() {
	var quietest *udpClient
	for _, c := range u.clients {
		if quietest == nil || c.active.Load() < quietest.active.Load() {
			quietest = c
		}
	}
	delete(u.clients, quietest.path)
	quietest.close()
}

// forgetIdle takes a client away that has been quiet for clientIdle, and tells whether it has.
func (u *udpPort) forgetIdle(c *udpClient) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if time.Since(time.Unix(0, c.active.Load())) < clientIdle {
		return false
	}
	if u.clients[c.path] == c {
		delete(u.clients, c.path)
	}
	c.close()
	return true
}

// close ends the port; what containers have answered by now still leaves.
func (u *udpPort) close() error {
	u.mu.Lock()
	clients := u.clients
	u.clients, u.closed = nil, true
	u.mu.Unlock()
	for _, c := range clients {
		_ = c.raw.Control(func(fd uintptr) { _ = c.readAnswers(int(fd)) })
		c.close()
	}
	return u.conn.Close()
}

// cut has nothing left to do.
func (u *udpPort) cut() {}

// sendDatagram passes a datagram on, and is false if the client has been forgotten.
func (c *udpClient) sendDatagram(data []byte) bool {
	c.active.Store(time.Now().UnixNano())
	err := c.raw.Control(func(fd uintptr) {
		// The first may only fetch that an earlier one was refused.
		for range 2 {
			if _, err := unix.SendmsgN(int(fd), data, nil, nil, unix.MSG_DONTWAIT); !errors.Is(err, unix.ECONNREFUSED) {
				return
			}
		}
	})
	return err == nil
}

// forwardAnswers passes on what the container sends, until the client is forgotten or the port closed.
func (c *udpClient) forwardAnswers() {
	for {
		_ = c.conn.SetReadDeadline(time.Unix(0, c.active.Load()).Add(clientIdle))
		err := c.raw.Read(func(fd uintptr) bool { return !errors.Is(c.readAnswers(int(fd)), unix.EAGAIN) })
		switch {
		case err == nil: // refused: the container may listen later
		case !errors.Is(err, os.ErrDeadlineExceeded), c.port.forgetIdle(c):
			return
		}
	}
}

// readAnswers reads all that is there.
func (c *udpClient) readAnswers(fd int) error {
	d, _ := datagrams.Get().(*datagram)
	defer datagrams.Put(d)
	for {
		n, _, _, _, err := unix.RecvmsgBuffers(fd, [][]byte{d.data[:]}, nil, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		c.active.Store(time.Now().UnixNano())
		_, _, _ = c.port.conn.WriteMsgUDPAddrPort(d.data[:n], c.control, c.path.client)
	}
}

func (c *udpClient) close() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
	if c.kept {
		c.port.parent.dialer.releaseFlow(c.path.client, c.port.to.addr)
	}
}

// local is an address of the host that a client has asked.
type local struct {
	addr  netip.Addr
	iface uint32 // for addresses that mean something on one device only
}

// parseLocal reads it from the control messages of a datagram. Without it the kernel chooses where answers leave.
func parseLocal(control []byte) local {
	for len(control) >= unix.CmsgLen(0) {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return local{}
		}
		switch {
		case header.Level == unix.IPPROTO_IP && header.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			return local{addr: netip.AddrFrom4([4]byte(data[4:8]))}
		case header.Level == unix.IPPROTO_IPV6 && header.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			l := local{addr: netip.AddrFrom16([16]byte(data[:16]))}
			if l.addr.IsMulticast() {
				return local{}
			}
			if l.addr.IsLinkLocalUnicast() {
				l.iface = binary.NativeEndian.Uint32(data[16:20])
			}
			return l
		}
		control = rest
	}
	return local{}
}

// controlMessage makes an answer leave from the address.
func (l local) controlMessage() []byte {
	switch {
	case !l.addr.IsValid():
		return nil
	case l.addr.Is4():
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: l.addr.As4()})
	default:
		return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: l.addr.As16(), Ifindex: l.iface})
	}
}
