package server

import (
	"net"
	"sync"
	"syscall"

	"moss/engine/fault"
)

// tracker is a listener whose connections tell when they are closed.
type tracker struct{ net.Listener }

// Accept waits for the next client.
func (t *tracker) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tracked{Conn: c}, nil
}

// tracked is a client's connection.
type tracked struct {
	net.Conn

	mu     sync.Mutex // guards closed and after
	closed bool
	after  func()
}

// onClose has f called when the connection is closed, at once if it is.
func (t *tracked) onClose(f func()) {
	t.mu.Lock()
	closed := t.closed
	t.after = f
	t.mu.Unlock()
	if closed {
		f()
	}
}

// Close closes the connection.
func (t *tracked) Close() error {
	t.mu.Lock()
	again := t.closed
	after := t.after
	t.closed = true
	t.mu.Unlock()
	if !again && after != nil {
		after()
	}
	return t.Conn.Close()
}

// CloseWrite ends what is sent to the client.
func (t *tracked) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fault.Unsupported("a %s connection cannot be closed by half", t.LocalAddr().Network())
}

// SyscallConn gives the socket itself, to watch it.
func (t *tracked) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := t.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, fault.Unsupported("a %s connection is no socket", t.LocalAddr().Network())
}
