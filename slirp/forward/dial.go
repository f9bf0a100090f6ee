package forward

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	connectWait = 30 * time.Second // for a container whose queue of connections is full
	// sourceWait is for a connection with the client's address: one packet and its first repetition, after a second.
	sourceWait = 1500 * time.Millisecond
	// distrust is how long a port goes without clients' addresses after it has been seen that no answer finds back to them.
	distrust = time.Minute
)

// dialer opens connections into the other namespace.
type dialer struct {
	pool       *pool
	hide       bool          // never use clients' addresses
	sourceWait time.Duration // tests set it before the first connection

	mu     sync.Mutex // guards the fields below
	probes [kinds]int // by udp4 and udp6: sockets that send nothing; 0: not made yet
	flows  map[flow]struct{}
	trying map[*net.TCPConn]struct{} // nil: the driver ends
}

func newDialer(from *pool, hide bool) *dialer {
	return &dialer{
		pool: from, hide: hide, sourceWait: sourceWait, flows: make(map[flow]struct{}),
		trying: make(map[*net.TCPConn]struct{}),
	}
}

// flow is a UDP client's address in use towards a container. The kernel would let two sockets have the same.
type flow struct{ client, to netip.AddrPort }

// target is where a port leads, with what has been learned about the way.
type target struct {
	addr   netip.AddrPort
	hidden atomic.Int64 // until then without clients' addresses, in Unix seconds
}

// mayKeepAddress tells whether a connection of client to the target may have the client's address.
func (d *dialer) mayKeepAddress(client netip.AddrPort, to *target) bool {
	ip := client.Addr()
	if d.hide || ip.Is4() != to.addr.Addr().Is4() || ip.Zone() != "" || client.Port() == 0 {
		return false
	}
	if ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() && ip.Is6() {
		return false
	}
	return time.Now().Unix() >= to.hidden.Load() && d.isOutside(ip)
}

// Addresses that nobody has (RFC 1112, 4; RFC 9637), so the way to them is the way out. That of IPv6 is in 2000::/3, which
// an uplink may have in place of a default route.
var (
	beyond4 = netip.AddrPortFrom(netip.AddrFrom4([4]byte{240, 0, 0, 1}), 9)
	beyond6 = netip.AddrPortFrom(netip.AddrFrom16([16]byte{0: 0x3f, 1: 0xff, 15: 1}), 9)
)

// isOutside tells whether an address means nothing among the containers. One that does cannot be a client's: the answer
// would go to somebody else, and whoever sends datagrams with a forged sender would pass for a container.
func (d *dialer) isOutside(ip netip.Addr) bool {
	k, beyond := udp4, beyond4
	if ip.Is6() {
		k, beyond = udp6, beyond6
	}
	if err := d.ensureProbe(k); err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := localFor(d.probes[k], beyond)
	way := localFor(d.probes[k], netip.AddrPortFrom(ip, beyond.Port()))
	return !way.IsValid() || way == out && way != ip
}

// ensureProbe sees that there is a socket to ask for ways.
func (d *dialer) ensureProbe(k kind) error {
	d.mu.Lock()
	there := d.probes[k] != 0
	d.mu.Unlock()
	if there {
		return nil
	}
	fd, err := d.pool.take(k)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.probes[k] != 0 {
		return unix.Close(fd) // another was quicker
	}
	d.probes[k] = fd
	return nil
}

// localFor tells which address would be used to reach another. Connecting a datagram socket sends nothing.
func localFor(fd int, to netip.AddrPort) netip.Addr {
	if err := unix.Connect(fd, toSockaddr(to)); err != nil {
		return netip.Addr{} // no way there
	}
	sa, err := unix.Getsockname(fd)
	// Without it the next connect would keep the address that this one has chosen.
	_, _, _ = unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unix.RawSockaddr{Family: unix.AF_UNSPEC})),
		unix.SizeofSockaddrInet4)
	if err != nil {
		return netip.Addr{}
	}
	ap, err := toAddrPort(sa)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr()
}

// dialTCP connects to the target, from the client's address where that is possible. What the container answers is passed
// on; whether the client's address is to blame is found out by going without.
func (d *dialer) dialTCP(client netip.AddrPort, to *target, k kind) (*net.TCPConn, error) {
	if !d.mayKeepAddress(client, to) {
		return d.connectTCP(netip.AddrPort{}, to.addr, k, connectWait)
	}
	conn, err := d.connectTCP(client, to.addr, k, d.sourceWait)
	if err == nil || !aboutSource(err) {
		return conn, err
	}
	silent := errors.Is(err, os.ErrDeadlineExceeded)
	conn, err = d.connectTCP(netip.AddrPort{}, to.addr, k, connectWait)
	if err == nil && silent {
		to.hidden.Store(time.Now().Add(distrust).Unix())
	}
	return conn, err
}

// aboutSource tells whether an error may come from the client's address: it may be in use, have a port that only root
// may use, or nobody brings the answers back.
func aboutSource(err error) bool {
	for _, e := range []error{unix.EADDRINUSE, unix.EADDRNOTAVAIL, unix.EACCES, unix.EPERM, unix.EINVAL, os.ErrDeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (d *dialer) connectTCP(from, to netip.AddrPort, k kind, wait time.Duration) (*net.TCPConn, error) {
	conn, err := d.takeConn(k)
	if err != nil {
		return nil, err
	}
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("not a TCP socket but %T", conn), conn.Close())
	}
	err = c.SetWriteDeadline(time.Now().Add(wait))
	if err == nil {
		err = d.tryConnect(c, from, to)
	}
	if err == nil {
		err = c.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	return c, nil
}

// tryConnect connects unless, or until, the driver ends.
func (d *dialer) tryConnect(c *net.TCPConn, from, to netip.AddrPort) error {
	d.mu.Lock()
	if d.trying == nil {
		d.mu.Unlock()
		return net.ErrClosed
	}
	d.trying[c] = struct{}{}
	d.mu.Unlock()
	err := connectSocket(c, from, to)
	d.mu.Lock()
	delete(d.trying, c)
	d.mu.Unlock()
	return err
}

// abortConnects breaks off connections that are being made, and lets no more begin.
func (d *dialer) abortConnects() {
	d.mu.Lock()
	trying := d.trying
	d.trying = nil
	d.mu.Unlock()
	for c := range trying {
		_ = c.Close()
	}
}

// dialUDP makes a socket that is connected to the target, from the client's address if keep is set and that is possible.
func (d *dialer) dialUDP(client netip.AddrPort, keep bool, to netip.AddrPort, k kind) (*net.UDPConn, error) {
	conn, err := d.takeConn(k)
	if err != nil {
		return nil, err
	}
	c, ok := conn.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("not a UDP socket but %T", conn), conn.Close())
	}
	if !keep {
		client = netip.AddrPort{}
	}
	err = connectSocket(c, client, to)
	if keep && err != nil && aboutSource(err) {
		_ = c.Close()
		return d.dialUDP(client, false, to, k)
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	return c, nil
}

// claimFlow tells whether a client's address is free towards a target, and takes it.
func (d *dialer) claimFlow(client, to netip.AddrPort) bool {
	f := flow{client, to}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, taken := d.flows[f]; taken {
		return false
	}
	d.flows[f] = struct{}{}
	return true
}

func (d *dialer) releaseFlow(client, to netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.flows, flow{client, to})
}

// takeConn takes a socket from the pool and gives it to the runtime's poller.
func (d *dialer) takeConn(k kind) (net.Conn, error) {
	fd, err := d.pool.take(k)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "")
	conn, err := net.FileConn(f) // a duplicate
	_ = f.Close()
	return conn, err
}

// connectSocket binds and connects a socket, and waits until the connection's write deadline.
func connectSocket(conn syscall.Conn, from, to netip.AddrPort) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	begun := false
	err = raw.Write(func(fd uintptr) bool {
		if begun {
			var done bool
			done, failed = isConnected(int(fd))
			return done
		}
		begun = true
		if from.IsValid() {
			failed = unix.Bind(int(fd), toSockaddr(from))
		} else {
			// Two sockets that share may be given one port, and answers to either would go to one of them.
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 0)
		}
		if failed != nil {
			return true
		}
		failed = unix.Connect(int(fd), toSockaddr(to))
		if errors.Is(failed, unix.EINPROGRESS) || errors.Is(failed, unix.EINTR) {
			failed = nil
			return false
		}
		return true
	})
	return errors.Join(err, failed)
}

// isConnected reports whether a connection is made, or has failed. What wakes first may be the word of the poller about
// the socket as it was before.
func isConnected(fd int) (done bool, err error) {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return true, err
	}
	if n != 0 {
		return true, unix.Errno(n)
	}
	_, err = unix.Getpeername(fd)
	if errors.Is(err, unix.ENOTCONN) {
		return false, nil
	}
	return true, err
}

// close lets the probes go.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, fd := range d.probes {
		if fd != 0 {
			_ = unix.Close(fd)
			d.probes[k] = 0
		}
	}
}
