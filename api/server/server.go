package server

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/fault"
)

const (
	// headerPatience is how long a client may take to send its request's head. Bodies and answers have no limit: an import
	// or a log may take hours.
	headerPatience = 30 * time.Second
	// maxHeader is how many bytes a request's head may have: credentials for many registries travel in it.
	maxHeader = 1 << 20
)

// Options says where to listen.
type Options struct {
	Handler http.Handler
	// Hosts are unix:///path, tcp://127.0.0.1:port and fd:// (all of Files). At least one is needed.
	Hosts []string
	// AllowInsecureTCP lets Hosts name TCP addresses on the loopback. Every user of the machine can then use the engine.
	AllowInsecureTCP bool
	// Files are listening sockets that were handed over, for fd://. The server duplicates and closes them.
	Files []*os.File
	// Origin is the one origin, besides the server's own, whose pages may send requests over TCP; * for all, empty for none.
	Origin string
	Log    zerolog.Logger
}

// Server answers clients on its listeners. It is made by New, which opens them.
type Server struct {
	http      *http.Server
	listeners []net.Listener
	addresses []string
	log       zerolog.Logger
	cancel    context.CancelFunc // ends the requests under way
	ended     chan struct{}      // closed once everything is cut off
	endOnce   sync.Once

	mu    sync.Mutex // guards taken
	taken map[net.Conn]struct{}
}

// New opens every listener, or none. Addresses that are not allowed or malformed are fault.Invalid, a socket on which
// another engine answers is fault.Conflict.
func New(ctx context.Context, opt Options) (*Server, error) {
	if len(opt.Hosts) == 0 {
		return nil, fault.Invalid("no host to listen on")
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{log: opt.Log, cancel: cancel, ended: make(chan struct{}), taken: map[net.Conn]struct{}{}}
	s.http = &http.Server{
		Handler:           &guard{next: opt.Handler, origin: opt.Origin},
		ReadHeaderTimeout: headerPatience,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(opt.Log, "", 0),
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       markTransport,
		ConnState:         s.watch,
	}
	// Idle connections stay open: they are the same user's, and closing one races with the client's next request.
	for _, host := range opt.Hosts {
		opened, err := open(ctx, host, opt)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen on %s: %w", host, err), s.closeListeners())
		}
		for _, l := range opened {
			s.listeners = append(s.listeners, l)
			s.addresses = append(s.addresses, l.Addr().Network()+"://"+l.Addr().String())
		}
	}
	return s, nil
}

// Addresses returns where the server listens, with the port that the system chose for port 0.
func (s *Server) Addresses() []string { return s.addresses }

// Serve answers until ctx is done, Shutdown is called (nil) or a listener breaks (its error). When ctx ends, requests
// under way are cut off; call Shutdown before for those that should end by themselves.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, len(s.listeners))
	var serving sync.WaitGroup
	for _, l := range s.listeners {
		serving.Go(func() { failed <- s.http.Serve(l) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	if errors.Is(err, http.ErrServerClosed) {
		<-s.ended // Shutdown gives requests their time
		err = nil
	}
	if closed := s.close(); err == nil {
		err = closed
	}
	serving.Wait()
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Shutdown stops listening, ends streams and connections that were taken over, and waits for the other requests until
// ctx is done, when it cuts them off and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- s.http.Shutdown(ctx) }()
	s.cancel()
	s.closeTaken()
	err := <-done
	if closed := s.close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("shut the API down: %w", err)
	}
	return nil
}

// close cuts everything off. It is safe to call twice.
func (s *Server) close() error {
	defer s.endOnce.Do(func() { close(s.ended) })
	s.cancel()
	err := s.http.Close()
	s.closeTaken()
	if closed := s.closeListeners(); err == nil {
		err = closed
	}
	return err
}

func (s *Server) closeListeners() error {
	s.cancel()
	var all error
	for _, l := range s.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// watch keeps the connections that handlers took over: the HTTP server forgets them. Each leaves when it is closed.
func (s *Server) watch(c net.Conn, state http.ConnState) {
	if state != http.StateHijacked {
		return
	}
	s.mu.Lock()
	s.taken[c] = struct{}{}
	s.mu.Unlock()
	if t, ok := c.(*tracked); ok {
		t.onClose(func() {
			s.mu.Lock()
			delete(s.taken, c)
			s.mu.Unlock()
		})
	}
}

func (s *Server) closeTaken() {
	s.mu.Lock()
	taken := make([]net.Conn, 0, len(s.taken))
	for c := range s.taken {
		taken = append(taken, c)
	}
	s.mu.Unlock()
	for _, c := range taken {
		_ = c.Close() // It may be closing already.
	}
}
