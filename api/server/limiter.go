package server

import (
	"net"
	"net/http"
	"sync"
	"time"

	"moss/engine/fault"
)

const (
	// defaultConnections is the limit where none is set.
	defaultConnections = 256
	// remoteShare and mostRemote limit the connections over TCP: a share of all, and as many unfinished handshakes as a
	// machine bears. So a flood over TCP leaves the owner's socket as it is.
	remoteShare, mostRemote = 4, 4096
	// stallPatience is how long a client may keep others out of a full limiter without sending what it has announced: its
	// request's head, or the next byte of the body. Where there is room it may take as long as it likes.
	stallPatience = 5 * time.Second
	// surplusPatience is how long a connection that is too many may take to send its head, and the rest of its body.
	surplusPatience = 2 * time.Second
	// refusedConns is the number of connections beyond the limit that get an answer: 503. Further ones wait in the queue.
	refusedConns = 64
)

// connLimiter counts and holds the connections of one transport.
type connLimiter struct {
	slots    chan struct{} // holds one for each connection
	most     int           // more are told to come again
	patience time.Duration // stallPatience, but in tests
	surplus  time.Duration // surplusPatience, but in tests

	mu  sync.Mutex // guards all
	all map[*tracked]struct{}
}

func newConnLimiter(most int) *connLimiter {
	slots := make(chan struct{}, most+refusedConns)
	return &connLimiter{slots: slots, most: most, patience: stallPatience, surplus: surplusPatience, all: map[*tracked]struct{}{}}
}

// addConn takes a connection in, for which there is a slot. Where there are too many, the one that has been idle the longest
// has to go, or else the one whose client has been silent the longest in the middle of a request; where there is neither,
// the new one is told so.
func (c *connLimiter) addConn(conn net.Conn) *tracked {
	t := &tracked{Conn: conn, limiter: c, gone: make(chan struct{})}
	t.since.Store(time.Now().UnixNano())
	c.mu.Lock()
	var out *tracked
	if len(c.all) >= c.most {
		if out = c.longestLocked((*tracked).idleSince); out == nil {
			out = c.longestLocked((*tracked).stalledSince)
		}
		t.surplus = out == nil
	}
	c.all[t] = struct{}{}
	c.mu.Unlock()
	if out != nil {
		_ = out.Close()
	}
	return t
}

// longestLocked returns the connection with the earliest time; nil if none has one.
func (c *connLimiter) longestLocked(since func(*tracked) int64) *tracked {
	var (
		longest *tracked
		first   int64
	)
	for t := range c.all {
		if at := since(t); at != 0 && (longest == nil || at < first) {
			longest, first = t, at
		}
	}
	return longest
}

// removeConn gives a connection's slot back. It is called once for each that was added.
func (c *connLimiter) removeConn(t *tracked) {
	c.mu.Lock()
	delete(c.all, t)
	c.mu.Unlock()
	<-c.slots
}

// listConns returns all connections.
func (c *connLimiter) listConns() []*tracked {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*tracked, 0, len(c.all))
	for t := range c.all {
		all = append(all, t)
	}
	return all
}

// closeConns closes all connections.
func (c *connLimiter) closeConns() {
	for _, t := range c.listConns() {
		_ = t.Close() // It may be closing already.
	}
}

// limitedListener accepts no more clients than its limiter has room for; further ones wait in the socket's queue. Otherwise
// the process would run out of descriptors, which its containers need as well.
type limitedListener struct {
	net.Listener

	limiter *connLimiter
	once    sync.Once
	stop    chan struct{} // closed by Close
}

// Accept waits for room, then for the next client.
func (g *limitedListener) Accept() (net.Conn, error) {
	select {
	case g.limiter.slots <- struct{}{}:
	case <-g.stop:
		return nil, net.ErrClosed
	}
	c, err := g.Listener.Accept()
	if err != nil {
		<-g.limiter.slots
		return nil, err
	}
	return g.limiter.addConn(c), nil
}

// Close stops accepting.
func (g *limitedListener) Close() error {
	g.once.Do(func() { close(g.stop) })
	return g.Listener.Close()
}

// surplusHandler answers 503 to requests over connections beyond the limit.
type surplusHandler struct {
	next   http.Handler
	refuse func(w http.ResponseWriter, r *http.Request, err error)
	most   int
}

type clientKey struct{}

// ServeHTTP passes requests over other connections on.
func (s *surplusHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, ok := r.Context().Value(clientKey{}).(*tracked)
	if !ok || !t.surplus {
		if ok && r.Body != http.NoBody {
			r.Body = &watchedBody{r.Body, t}
		}
		s.next.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Connection", "close")
	err := fault.Unavailable("there are %d connections to the engine already: close some, or try again", s.most)
	if s.refuse == nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	s.refuse(w, r, err)
}
