package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"moss/api/conn"
	"moss/engine/fault"
)

const (
	// headerPatience is how long a client of a unix socket may take to send its request's head. Bodies and answers have no
	// limit: an import or a log may take hours.
	headerPatience = 30 * time.Second
	// remotePatience is the same over TCP, for the handshake of TLS as well.
	remotePatience = 10 * time.Second
	// remoteIdle is how long a connection over TCP may stay open without a request: longer than clients keep one themselves,
	// since closing it races with the next request. Those on unix sockets are the same user's and close with their process.
	remoteIdle = 5 * time.Minute
	// maxHeader is how many bytes a request's head may have: credentials for many registries travel in it.
	maxHeader = 1 << 20
)

// Options says what to serve, and where.
type Options struct {
	Handler http.Handler
	// Refuse answers a request that must not reach Handler; nil answers in plain text.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	// Files are sockets that listen, unix or TCP. At least one is needed. The server duplicates and closes them; what their
	// paths name stays.
	Files []*os.File
	// TLS is spoken on all sockets of TCP; nil: none. Without client certificates those are refused, see AllowInsecureTCP.
	TLS *TLS
	// AllowInsecureTCP lets sockets of TCP on the loopback be served without client certificates. Every user of the machine
	// can then use the engine.
	AllowInsecureTCP bool
	// MaxConnections is how many connections there may be; 0 is a bound for tests and small machines.
	MaxConnections int
	// Origin is the one origin, besides the server's own, whose pages may send requests over TCP; * for all, empty for none.
	Origin string
	Log    zerolog.Logger
}

// Server answers clients on its listeners. It is made by New, which takes them over.
type Server struct {
	local, remote *transport
	addresses     []string
	log           zerolog.Logger
	cancel        context.CancelFunc // ends the requests under way
	stopping      atomic.Bool        // Shutdown was called
	ended         chan struct{}      // closed once everything is cut off
	endOnce       sync.Once

	mu        sync.Mutex // guards the fields below
	listeners []serving
	added     []serving     // those of Add, which are among them
	begin     func(serving) // nil before Serve and after it
}

// transport is one kind of clients with what bounds them.
type transport struct {
	http    *http.Server
	limiter *connLimiter
}

// serving is a listener and who answers there.
type serving struct {
	net.Listener

	by *transport
}

// New takes over every socket, or none. A socket of TCP that others could reach without a certificate, and certificates that
// cannot be used, are fault.Invalid.
func New(ctx context.Context, opt Options) (*Server, error) {
	if len(opt.Files) == 0 {
		return nil, fault.Invalid("no socket to serve")
	}
	if opt.MaxConnections == 0 {
		opt.MaxConnections = defaultConnections
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{log: opt.Log, cancel: cancel, ended: make(chan struct{})}
	certificates, err := loadCertificates(opt.TLS, opt.Log)
	if err != nil {
		cancel()
		return nil, err
	}
	gate := &guard{next: opt.Handler, refuse: opt.Refuse, origin: opt.Origin, certified: certificates.coversHost}
	s.local = newTransport(base, gate, opt, opt.MaxConnections)
	s.local.http.ReadHeaderTimeout = headerPatience
	s.remote = newTransport(base, gate, opt,
		min(opt.MaxConnections, max(opt.MaxConnections/remoteShare, defaultConnections), mostRemote))
	s.remote.http.ReadHeaderTimeout, s.remote.http.IdleTimeout = remotePatience, remoteIdle
	if err := s.takeSockets(opt, certificates); err != nil {
		return nil, errors.Join(err, s.closeListeners())
	}
	return s, nil
}

func newTransport(base context.Context, handler http.Handler, opt Options, most int) *transport {
	t := &transport{limiter: newConnLimiter(most)}
	t.http = &http.Server{
		Handler:        &surplusHandler{next: handler, refuse: opt.Refuse, most: most},
		MaxHeaderBytes: maxHeader,
		ErrorLog:       log.New(opt.Log, "", 0),
		BaseContext:    func(net.Listener) context.Context { return base },
		ConnContext:    connContext,
		ConnState:      noteState,
		// HTTP/2 has no connections that a handler could take over.
		Protocols: new(http.Protocols),

		DisableGeneralOptionsHandler: true, // OPTIONS * is answered as that of every path
	}
	t.http.Protocols.SetHTTP1(true)
	return t
}

// connContext gives each connection a context of its own, which draining ends.
func connContext(ctx context.Context, c net.Conn) context.Context {
	ctx = markTransport(ctx, c)
	t := trackedOf(c)
	if t == nil {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	t.cancel.Store(&cancel)
	t.secure, _ = c.(*tls.Conn) // nil without TLS
	return context.WithValue(conn.WithLine(ctx, c), clientKey{}, t)
}

// Addresses returns where the server listens, with the port that the system chose for port 0.
func (s *Server) Addresses() []string { return s.addresses }

// Serve answers until ctx is done, Shutdown is called (nil) or a listener breaks (its error). When ctx ends, requests
// under way are cut off; call Shutdown before for those that should end by themselves.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error)
	var all sync.WaitGroup
	s.mu.Lock()
	s.begin = func(l serving) {
		all.Go(func() {
			err := l.by.http.Serve(l.Listener)
			if s.isGone(l) {
				return
			}
			select {
			case failed <- err:
			case <-s.ended:
			}
		})
	}
	for _, l := range s.listeners {
		s.begin(l)
	}
	s.mu.Unlock()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	if s.stopping.Load() {
		<-s.ended // Shutdown gives requests their time
		err = nil
	}
	if closed := s.closeAll(); err == nil {
		err = closed
	}
	all.Wait()
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// closeAll cuts everything off. It is safe to call twice.
func (s *Server) closeAll() error {
	defer s.endOnce.Do(func() { close(s.ended) })
	s.cancel()
	err := s.closeListeners()
	for _, t := range []*transport{s.local, s.remote} {
		err = errors.Join(err, ignoreClosed(t.http.Close()))
		t.limiter.closeConns()
	}
	return err
}

func (s *Server) closeListeners() error {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin = nil
	var all error
	for _, l := range s.listeners {
		all = errors.Join(all, ignoreClosed(l.Close()))
	}
	return all
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
