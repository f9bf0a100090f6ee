package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	acceptPauseMin = 5 * time.Millisecond // after an accept that failed, for instance for want of descriptors; doubles
	acceptPauseMax = time.Second
	// drainWait is how long a connection that the container has ended may take for the rest once its port is closed, and
	// cutWait how long the others go on: the end of a container that has just exited may still be behind what it sent.
	drainWait = 30 * time.Second
	cutWait   = 500 * time.Millisecond
	// refuseWait is how long a client has for its first words where nobody listens in the container.
	refuseWait = 200 * time.Millisecond
)

// keepAlive finds dead peers; a machine at rest is woken twice a minute and connection at most.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}
}

// waits are how long a connection's last steps may take.
type waits struct{ cut, refuse time.Duration }

// tcpPort is one open TCP port.
type tcpPort struct {
	parent   *Parent
	listener *net.TCPListener
	to       target
	kind     kind
	waits    waits
	quit     chan struct{} // closed with the port

	mu       sync.Mutex // guards the fields below
	sessions map[*session]struct{}
	closed   bool
	over     bool // the driver ends
}

// session is one connection: both its sides.
type session struct{ client, container *net.TCPConn }

func (p *Parent) openTCP(ctx context.Context, r route) (*tcpPort, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive()}
	l, err := lc.Listen(ctx, r.network, r.from.String())
	if err != nil {
		return nil, err
	}
	listener, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("not a TCP listener but %T", l), l.Close())
	}
	t := &tcpPort{
		parent: p, listener: listener, kind: r.socketKind(), waits: p.waits, quit: make(chan struct{}),
		to: target{addr: r.to}, sessions: make(map[*session]struct{}),
	}
	p.work.Go(t.acceptClients)
	return t, nil
}

func (t *tcpPort) acceptClients() {
	pause := acceptPauseMin
	for {
		client, err := t.listener.AcceptTCP()
		switch {
		case err == nil:
			pause = acceptPauseMin
			t.parent.work.Go(func() { t.serveClient(client) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			t.parent.logLimited("accept at %s: %v", t.listener.Addr(), err)
			select {
			case <-time.After(pause):
			case <-t.quit:
			}
			pause = min(2*pause, acceptPauseMax)
		}
	}
}

// serveClient connects a client with the container and carries everything between them until both have ended, or one is
// gone.
func (t *tcpPort) serveClient(client *net.TCPConn) {
	if !t.parent.admitConnection() {
		t.parent.logLimited("refuse a connection at %s: there are as many as this process can bear", t.listener.Addr())
		resetConn(client)
		return
	}
	defer t.parent.releaseConnection()
	peer, _ := netip.ParseAddrPort(client.RemoteAddr().String()) // invalid: as if it were on the loopback
	container, err := t.parent.dialer.dialTCP(netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port()), &t.to, t.kind)
	if err != nil {
		if errors.Is(err, unix.ECONNREFUSED) {
			refuseClient(client, t.waits.refuse)
		} else {
			resetConn(client)
		}
		return
	}
	s := &session{client: client, container: container}
	if !t.addSession(s) {
		s.abort()
		return
	}
	_ = container.SetKeepAliveConfig(keepAlive()) // a connection that cannot have it does without
	there := make(chan error, 1)
	t.parent.work.Go(func() { there <- s.relayDirection(&t.parent.pipes, container, client) })
	back := s.relayDirection(&t.parent.pipes, client, container)
	_ = errors.Join(back, <-there) // both sides know already
	t.mu.Lock()
	delete(t.sessions, s)
	t.mu.Unlock()
	_ = client.Close()
	_ = container.Close()
}

// refuseClient ends a connection that the container has refused: by a reset once the client has sent something, by an
// end if it sends nothing. A reset that is quicker than the client's connect would be that one's error, and clients
// that wait for a port try again after a refusal alone; an end that is quicker than the request leaves Node's fetch
// waiting for ever.
func refuseClient(client *net.TCPConn, wait time.Duration) {
	_ = client.SetReadDeadline(time.Now().Add(wait))
	if n, _ := client.Read(make([]byte, 1)); n > 0 {
		resetConn(client)
		return
	}
	_ = client.Close()
}

func (t *tcpPort) addSession(s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	if t.closed {
		s.setCloseDeadline(t.waits.cut) // accepted before
	}
	t.sessions[s] = struct{}{}
	return true
}

// setCloseDeadline gives a connection of a closed port drainWait if the container has ended it, wait otherwise.
func (s *session) setCloseDeadline(wait time.Duration) {
	if peerFinished(s.container) {
		wait = drainWait
	}
	for _, c := range []*net.TCPConn{s.client, s.container} {
		_ = c.SetDeadline(time.Now().Add(wait))
	}
}

// relayDirection carries one direction. What breaks it breaks the other, and both peers are told.
func (s *session) relayDirection(via *pipes, to, from *net.TCPConn) error {
	err := via.relayStream(to, from)
	if err != nil {
		s.abort()
	}
	return err
}

// abort resets both sides: neither may take what it got for all there was.
func (s *session) abort() {
	resetConn(s.client)
	resetConn(s.container)
}

func resetConn(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// close ends the port. A connection that the container has ended goes on with what is under way, for drainWait; the
// others are cut after cutWait, since their container is gone or elsewhere.
func (t *tcpPort) close() error {
	err := t.listener.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return err
	}
	t.closed = true
	close(t.quit)
	for s := range t.sessions {
		s.setCloseDeadline(t.waits.cut)
	}
	return err
}

// cut ends what close has left.
func (t *tcpPort) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for s := range t.sessions {
		s.abort()
	}
}

// The states of a TCP connection in which the other side has said its last word, by the kernel's numbers.
const (
	tcpTimeWait  = 6
	tcpClose     = 7
	tcpCloseWait = 8
	tcpLastAck   = 9
	tcpClosing   = 11
)

// peerFinished tells whether the peer has ended its direction, whether or not everything before has been read.
func peerFinished(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	done := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		switch info.State {
		case tcpTimeWait, tcpClose, tcpCloseWait, tcpLastAck, tcpClosing:
			done = true
		}
	})
	return err == nil && done
}
