package table

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"moss/engine/fault"
)

// beat is how often a manager says something when there is nothing to say; after three of them without a word both sides
// take the connection for dead.
const beat = 10 * time.Second

// mostStreams is how many nodes a manager serves: more than a swarm has. mostStrangers is how many connections may be open of
// which it does not know yet who they are.
const (
	mostStreams   = 2000
	mostStrangers = 256
)

// ServerOptions say who may be served. All must be set but Report.
type ServerOptions struct {
	// TLS returns what the next connection is authenticated by; certificates rotate. It must ask for the client's
	// certificate and verify it: a connection without a verified one is refused. On error the connection is.
	TLS func() (*tls.Config, error)
	// Who returns the id of the node that a verified connection comes from, or why it may not know anything.
	Who func(tls.ConnectionState) (node string, err error)
	// Report is called with why a connection has ended; node is "" before it is known. nil: nobody wants to know.
	Report func(node string, err error)
}

// Server hands the table to nodes, on a manager.
type Server struct {
	opts ServerOptions

	mu      sync.Mutex // guards what follows
	current *Table
	changed chan struct{}        // closed when current or what streams have applied changes, and replaced
	streams map[string]*progress // by node
	open    int                  // connections of nodes
	// strangers are connections before the other side has shown who it is, the oldest first.
	strangers []net.Conn
}

// progress is how far a node is.
type progress struct {
	sent    uint64 // the version of the last Delta
	covered uint64 // the latest version that looks like it to this node
	acked   uint64
	end     context.CancelFunc
}

// appliedVersion returns the version that the node has applied.
func (p *progress) appliedVersion() uint64 {
	if p.acked >= p.sent {
		return p.covered
	}
	return p.acked
}

// NewServer returns a server that has nothing to say before the first Publish. It holds nothing that has to be closed.
func NewServer(o ServerOptions) *Server {
	if o.Report == nil {
		o.Report = func(string, error) {}
	}
	return &Server{opts: o, changed: make(chan struct{}), streams: map[string]*progress{}}
}

// Publish makes t, which is not changed any more, the table that nodes get. An older one than the last is left out.
func (s *Server) Publish(t *Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil || t.Version >= s.current.Version {
		s.current = t
		s.wakeLocked()
	}
}

// Settled returns the version that all nodes have applied: 0 while a ready node does not follow this server, as that one may
// follow another. Without nodes it is the published one.
func (s *Server) Settled() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settledLocked()
}

func (s *Server) settledLocked() uint64 {
	if s.current == nil {
		return 0
	}
	least := s.current.Version
	for _, p := range s.streams {
		least = min(least, p.appliedVersion())
	}
	for id, n := range s.current.Nodes {
		if n.Ready && s.streams[id] == nil {
			return 0
		}
	}
	return least
}

func (s *Server) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Serve accepts connections until ctx ends, then closes l and all connections and returns nil. An error of the listener
// ends it as well.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept nodes: %w", err)
		}
		s.enterStranger(conn)
		all.Go(func() {
			node, err := s.serveConn(ctx, conn)
			if ctx.Err() == nil {
				s.opts.Report(node, err)
			}
		})
	}
}

func (s *Server) serveConn(ctx context.Context, raw net.Conn) (node string, err error) {
	defer func() { _ = raw.Close() }()
	defer s.leaveStranger(raw)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()

	cfg, err := s.opts.TLS()
	if err != nil {
		return "", err
	}
	conn := tls.Server(raw, cfg)
	_ = conn.SetDeadline(time.Now().Add(beat))
	if err := conn.HandshakeContext(ctx); err != nil {
		return "", err
	}
	if len(conn.ConnectionState().VerifiedChains) == 0 {
		return "", fault.Forbidden("a node without a verified certificate")
	}
	if node, err = s.opts.Who(conn.ConnectionState()); err != nil {
		return "", err
	}
	s.leaveStranger(raw)
	if !s.admitConn() {
		return node, fault.Unavailable("more than %d nodes", mostStreams)
	}
	defer s.releaseConn()
	var hello Hello
	if err := readMessage(conn, maxHello, &hello); err != nil {
		return node, err
	}
	p := s.enterStream(node, cancel)
	defer s.leaveStream(node, p)
	read := make(chan error, 1)
	go func() {
		read <- s.readApplied(conn, p)
		cancel()
	}()
	err = s.writeDeltas(ctx, conn, node, p, hello)
	cancel()
	return node, errors.Join(err, <-read)
}

// enterStranger notes a connection of which nothing is known. Where there are too many the oldest ends: a node shows who it is at
// once, and strangers that say nothing do not keep it out.
func (s *Server) enterStranger(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.strangers) >= mostStrangers {
		_ = s.strangers[0].Close()
		s.strangers = slices.Delete(s.strangers, 0, 1)
	}
	s.strangers = append(s.strangers, conn)
}

// leaveStranger forgets a connection that is known or at its end. It may be called twice.
func (s *Server) leaveStranger(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strangers = slices.DeleteFunc(s.strangers, func(c net.Conn) bool { return c == conn })
}

func (s *Server) admitConn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= mostStreams {
		return false
	}
	s.open++
	return true
}

func (s *Server) releaseConn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// enterStream ends the stream that the node had: it would not have come again otherwise.
func (s *Server) enterStream(node string, end context.CancelFunc) *progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.streams[node]; old != nil {
		old.end()
	}
	p := &progress{end: end}
	s.streams[node] = p
	return p
}

func (s *Server) leaveStream(node string, p *progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[node] == p {
		delete(s.streams, node)
	}
	s.wakeLocked()
}

func (s *Server) readApplied(conn net.Conn, p *progress) error {
	for {
		_ = conn.SetReadDeadline(time.Now().Add(3 * beat))
		var a Applied
		if err := readMessage(conn, maxSmall, &a); err != nil {
			return err
		}
		s.mu.Lock()
		if a.Version > p.acked && a.Version <= p.sent {
			p.acked = a.Version
			s.wakeLocked()
		}
		s.mu.Unlock()
	}
}

// writeDeltas sends what concerns the node until the connection ends.
func (s *Server) writeDeltas(ctx context.Context, conn net.Conn, node string, p *progress, hello Hello) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	w := &writer{server: s, node: node, progress: p, hello: hello}
	silent := false // for so long that the node must hear something
	for {
		d, changed := w.nextDelta(silent)
		if d != nil {
			_ = conn.SetWriteDeadline(time.Now().Add(3 * beat))
			if err := writeMessage(conn, maxDelta, d); err != nil {
				return err
			}
		}
		select {
		case <-changed:
			silent = false
		case <-tick.C:
			silent = true
		case <-ctx.Done():
			return nil
		}
	}
}

// writer decides what a node is told.
type writer struct {
	server   *Server
	node     string
	progress *progress
	hello    Hello
	seen     *Table // the last published one that was looked at
	view     *Table // the last that was sent
	told     uint64 // the last version that was sent as Settled
}

// nextDelta returns what is to be sent now, nil for nothing, and when to ask again. What all nodes have applied goes with
// each change, and once more when all are as far as this node.
func (w *writer) nextDelta(silent bool) (*Delta, <-chan struct{}) {
	s, p := w.server, w.progress
	s.mu.Lock()
	current, changed := s.current, s.changed
	s.mu.Unlock()
	if current == nil || current.Version < w.hello.Version {
		return nil, changed
	}
	var d *Delta
	if current != w.seen {
		view := current.View(w.node)
		if d = w.diffFrom(view); d != nil {
			w.view = view
		}
		w.seen = current
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d != nil {
		p.sent = d.Version
	}
	if p.covered != current.Version {
		p.covered = current.Version
		if d == nil { // the others wait for this node no longer
			s.wakeLocked()
		}
	}
	settled := s.settledLocked()
	if d == nil && (silent || settled >= p.sent && w.told < p.sent) {
		d = &Delta{Version: p.sent}
	}
	if d != nil {
		d.Settled, w.told = settled, settled
	}
	return d, changed
}

// diffFrom returns nil when nothing has changed for the node since it was told something.
func (w *writer) diffFrom(view *Table) *Delta {
	if w.view == nil {
		return DiffSums(w.hello.Sums, view)
	}
	if d := Diff(w.view, view); !d.IsZero() {
		return d
	}
	return nil
}
