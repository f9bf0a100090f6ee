package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The limits of what one owner, and all together, may keep busy.
const (
	maxForwards     = 1024 // queries that wait for an answer from outside
	maxForwardsEach = 256  // of one container
	maxConnsEach    = 16   // TCP connections of one container; those of its own name server wait in the backlog
	maxConns        = 256  // of all that share a name server
	maxQuery        = 4096 // bytes; a query is a name and a few options
	idleConn        = 10 * time.Second
	writeTime       = 5 * time.Second
)

// packet is a buffer for whatever may come over UDP.
type packet [1 << 16]byte

// client answers what comes over one pair of sockets.
type client struct {
	server *Server
	sock   Sockets
	view   atomic.Pointer[View]
	own    bool            // in a container's own namespace: where a query comes from says nothing
	raw    syscall.RawConn // of sock.UDP
	start  sync.Once
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// newClient returns one that does not answer before startServing.
func (s *Server) newClient(sock Sockets, v View) (*client, error) {
	raw, err := sock.UDP.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &client{server: s, sock: sock, raw: raw, cancel: func() {}}
	if at, ok := sock.UDP.LocalAddr().(*net.UDPAddr); ok {
		c.own = at.IP.IsLoopback()
	}
	c.view.Store(&v)
	return c, nil
}

// startServing starts answering, once. It must not meet close.
func (c *client) startServing() {
	c.start.Do(func() {
		ctx, cancel := context.WithCancel(c.server.life)
		c.cancel = cancel
		c.work.Go(func() { c.serveUDP(ctx) })
		c.work.Go(func() { c.serveTCP(ctx) })
	})
}

func (c *client) close() error {
	c.cancel()
	err := c.sock.Close()
	c.work.Wait()
	return err
}

// serveUDP ends when the socket is closed.
func (c *client) serveUDP(ctx context.Context) {
	for {
		query, from, err := c.server.receivePacket(c.raw)
		if err != nil && ctx.Err() != nil {
			return
		}
		if err != nil { // of an earlier answer, or for want of memory
			pauseAfterError(ctx)
			continue
		}
		if len(query) > 0 && len(query) <= maxQuery {
			c.answerUDP(ctx, query, from)
		}
	}
}

// receivePacket returns the next packet. While it waits it holds no buffer, since most containers are silent most of
// the time. An error means that there will be no more.
func (s *Server) receivePacket(raw syscall.RawConn) (data []byte, from netip.AddrPort, err error) {
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		buf := s.packs.Get().(*packet) //nolint:forcetypeassert // its own
		defer s.packs.Put(buf)
		n, sa, err := unix.Recvfrom(int(fd), buf[:], 0)
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		if failed = err; err == nil {
			data, from = append([]byte(nil), buf[:n]...), addrOf(sa)
		}
		return true
	})
	return data, from, errors.Join(err, failed)
}

func addrOf(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

func (c *client) answerUDP(ctx context.Context, raw []byte, from netip.AddrPort) {
	v := c.view.Load()
	q, reply := c.server.answerLocally(v, raw, false)
	if q == nil {
		c.sendReply(reply, from)
		return
	}
	source := c.sourceOf(from)
	if !c.server.limit.tryAcquire(source) {
		return // like a network that is full; the client asks again
	}
	c.work.Go(func() {
		defer c.server.limit.release(source)
		c.sendReply(c.server.forwardQuery(ctx, v, q), from)
	})
}

func (c *client) sendReply(reply []byte, to netip.AddrPort) {
	if reply != nil {
		_, _ = c.sock.UDP.WriteToUDPAddrPort(reply, to) // whoever asked may be gone
	}
}

// sourceOf returns what queries are counted by: the containers of the default network share their sockets.
func (c *client) sourceOf(from netip.AddrPort) any {
	if c.own {
		return c
	}
	return from.Addr()
}

// serveTCP ends when the listener is closed, after the connections have.
func (c *client) serveTCP(ctx context.Context) {
	most := maxConns
	if c.own {
		most = maxConnsEach
	}
	slots := make(chan struct{}, most)
	each := newLimiter(most, maxConnsEach)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := c.sock.TCP.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or the client has gone
			<-slots
			pauseAfterError(ctx)
			continue
		}
		source := c.sourceOf(peerAddr(conn))
		if !each.tryAcquire(source) { // one container does not keep the others of the default network waiting
			<-slots
			_ = conn.Close()
			continue
		}
		c.work.Go(func() {
			defer func() { <-slots }()
			defer each.release(source)
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			defer func() { _ = conn.Close() }()
			c.serveConn(ctx, conn)
		})
	}
}

func peerAddr(conn net.Conn) netip.AddrPort {
	from, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return from.AddrPort()
}

// pauseAfterError keeps a loop from spinning on an error that lasts.
func pauseAfterError(ctx context.Context) {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// serveConn answers the queries of one connection, one after the other, until it is silent for too long.
func (c *client) serveConn(ctx context.Context, conn net.Conn) {
	for {
		_ = conn.SetReadDeadline(time.Now().Add(idleConn))
		raw, err := readMessage(conn, maxQuery)
		if err != nil {
			return
		}
		v := c.view.Load()
		q, reply := c.server.answerLocally(v, raw, true)
		if q != nil {
			source := c.sourceOf(peerAddr(conn))
			if c.server.limit.tryAcquire(source) {
				reply = c.server.forwardQuery(ctx, v, q)
				c.server.limit.release(source)
			} else {
				reply = q.failureReply()
			}
		}
		_ = conn.SetWriteDeadline(time.Now().Add(writeTime))
		if reply == nil || writeMessage(conn, reply) != nil {
			return
		}
	}
}

// readMessage reads one message with its length before it (RFC 1035, 4.2.2).
func readMessage(r io.Reader, most int) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	if n > most {
		return nil, io.ErrShortBuffer
	}
	msg := make([]byte, n)
	_, err := io.ReadFull(r, msg)
	return msg, err
}

func writeMessage(w io.Writer, msg []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...))
	return err
}

// limiter counts what is under way, in all and by who asked for it.
type limiter struct {
	most, each int

	mu  sync.Mutex // guards all, now
	all int
	now map[any]int // by who asks
}

func newLimiter(most, each int) *limiter {
	return &limiter{most: most, each: each, now: make(map[any]int)}
}

func (l *limiter) tryAcquire(source any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.most || l.now[source] >= l.each {
		return false
	}
	l.all++
	l.now[source]++
	return true
}

func (l *limiter) release(source any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.now[source]--; l.now[source] == 0 {
		delete(l.now, source)
	}
}
