package server

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"moss/engine/fault"
)

// tracked is a client's connection: it tells its limiter when it is closed, also after a handler took it over, of which the
// HTTP server knows no more.
type tracked struct {
	net.Conn

	limiter *connLimiter
	surplus bool         // one too many: it gets one answer
	state   atomic.Int64 // an http.ConnState
	since   atomic.Int64 // when it came into this state; nanoseconds of Unix
	wrote   atomic.Bool  // something was sent since then
	reading atomic.Int64 // since when a handler waits for the request's body; 0: none does
	cancel  atomic.Pointer[context.CancelCauseFunc]
	secure  *tls.Conn     // what TLS it is below; set before it is served
	parting atomic.Bool   // its end has begun
	gone    chan struct{} // closed by Close
	once    sync.Once

	writing sync.Mutex // held while a message is sent, so that none is cut; guards ended
	ended   bool
}

// trackedOf finds the tracked connection below TLS; nil for a stranger.
func trackedOf(c net.Conn) *tracked {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	t, ok := c.(*tracked)
	if !ok {
		return nil
	}
	return t
}

// noteState keeps what a connection is doing.
func noteState(c net.Conn, state http.ConnState) {
	t := trackedOf(c)
	if t == nil {
		return
	}
	t.state.Store(int64(state))
	t.since.Store(time.Now().UnixNano())
	if state == http.StateActive {
		t.wrote.Store(false)
	}
}

// idleSince is when the last request ended of a connection that has none; 0 for others. Times are nanoseconds of Unix.
func (t *tracked) idleSince() int64 {
	if http.ConnState(t.state.Load()) != http.StateIdle {
		return 0
	}
	return t.since.Load()
}

// stalledSince is since when nothing has come of a request's head or body, if that is longer than it should be.
func (t *tracked) stalledSince() int64 {
	at := t.reading.Load()
	if at == 0 && http.ConnState(t.state.Load()) == http.StateNew && !t.surplus {
		at = t.since.Load()
	}
	if at == 0 || time.Now().UnixNano()-at < int64(t.limiter.patience) {
		return 0
	}
	return at
}

// watchedBody notes when a request's body is waited for.
type watchedBody struct {
	io.ReadCloser

	conn *tracked
}

// Read reads.
func (b *watchedBody) Read(p []byte) (int, error) {
	b.conn.reading.Store(time.Now().UnixNano())
	defer b.conn.reading.Store(0)
	return b.ReadCloser.Read(p)
}

// SetReadDeadline leaves one that is too many only the time to be told so: its slot is one of few.
func (t *tracked) SetReadDeadline(at time.Time) error {
	if latest := time.Now().Add(t.limiter.surplus); t.surplus && (at.IsZero() || at.After(latest)) {
		at = latest
	}
	return t.Conn.SetReadDeadline(at)
}

// Write sends one message, whole unless the connection breaks.
func (t *tracked) Write(p []byte) (int, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	if t.ended {
		return 0, net.ErrClosed
	}
	if !t.wrote.Load() {
		t.wrote.Store(true)
	}
	return t.Conn.Write(p)
}

// Close closes the connection and ends its requests.
func (t *tracked) Close() error {
	err := t.Conn.Close()
	t.once.Do(func() {
		close(t.gone)
		t.cancelRequests(nil)
		t.limiter.removeConn(t)
	})
	return err
}

// cancelRequests ends the connection's requests; why is told to clients that can still be told.
func (t *tracked) cancelRequests(why error) {
	if cancel := t.cancel.Load(); cancel != nil {
		(*cancel)(why)
	}
}

// CloseWrite ends what is sent to the client, after the message that is being sent.
func (t *tracked) CloseWrite() error {
	half, ok := t.Conn.(interface{ CloseWrite() error })
	if !ok {
		return fault.Unsupported("a %s connection cannot be closed by half", t.LocalAddr().Network())
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	t.ended = true
	return half.CloseWrite()
}

// SyscallConn gives the socket itself, to watch it.
func (t *tracked) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := t.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, fault.Unsupported("a %s connection is no socket", t.LocalAddr().Network())
}
