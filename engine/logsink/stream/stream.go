// Package stream keeps a connection to a receiver of a stream protocol: tcp, tls or unix. Every wait of it has a bound and ends
// with its context. It knows nothing of records, and tries nothing twice.
package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/dial"
	"moss/engine/fault"
)

// Bounds of what a receiver may take its time for.
const (
	connectBound = 10 * time.Second     // name, connection and handshake
	closeBound   = time.Second          // the end of a tls connection
	glanceBound  = 5 * time.Millisecond // the rest of a tls record whose beginning is there
	maxTail      = 64 << 10             // bytes that a tls receiver has to say at its end
)

// Errors of Probe.
var (
	ErrClosed = errors.New("the receiver has closed the connection")
	ErrSpoke  = errors.New("the receiver sent something that was not asked for")
)

// Target is where a receiver listens.
type Target struct {
	Network string // tcp, tls or unix
	Address string // host:port, or the path of a socket
}

// String returns the target as users write it: tcp://host:port.
func (t Target) String() string { return t.Network + "://" + t.Address }

// Conn is a connection. It is used by one goroutine at a time.
type Conn struct {
	target  Target
	conn    net.Conn
	raw     net.Conn // below tls; otherwise conn itself
	made    time.Time
	closing time.Duration // closeBound
	spoiled bool          // a call failed; or its context ended, whose deadline may still hold in later ones
}

// Dial connects. A tls receiver must show a certificate for its host that the system's authorities vouch for. The error is
// fault.Unavailable and names the target. The caller closes the connection.
func Dial(ctx context.Context, t Target) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectBound)
	defer cancel()
	c := &Conn{target: t, made: time.Now(), closing: closeBound}
	var err error
	if t.Network == "tls" {
		dialer := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}
		c.conn, err = dialer.DialContext(ctx, "tcp", t.Address)
	} else {
		c.conn, err = dial.Connect(ctx, &net.Dialer{}, t.Network, t.Address)
	}
	if err != nil {
		return nil, fault.Unavailable("connect to %s: %w", t, err)
	}
	c.raw = c.conn
	if secure, ok := c.conn.(*tls.Conn); ok {
		c.raw = secure.NetConn()
	}
	return c, nil
}

// Made returns when the connection was begun.
func (c *Conn) Made() time.Time { return c.made }

// Probe tells, without a wait, whether the connection is one that the next write can use. Without it the first write after the
// receiver's end would succeed, and be lost. The error is fault.Unavailable, wraps ErrClosed, ErrSpoke or what the kernel says,
// and names the target.
func (c *Conn) Probe() error {
	err := c.peek()
	if err == nil && c.spoiled {
		err = ErrClosed
	}
	if err != nil {
		c.spoiled = true
		return fault.Unavailable("%s: %w", c.target, err)
	}
	return nil
}

func (c *Conn) peek() error {
	n, err := peekRaw(c.raw)
	if err != nil || n == 0 {
		return err
	}
	if c.raw == c.conn {
		return ErrSpoke
	}
	// Bytes below tls may be session tickets, which this read takes away, or the announced end.
	if err := c.conn.SetReadDeadline(time.Now().Add(glanceBound)); err != nil {
		return err
	}
	n, err = c.conn.Read(make([]byte, 1))
	switch {
	case n > 0:
		return ErrSpoke
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case errors.Is(err, io.EOF):
		return ErrClosed
	default:
		return err
	}
}

// peekRaw returns how many bytes wait to be read, at most 1. ErrClosed: there will be none.
func peekRaw(conn net.Conn) (n int, err error) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return 0, fmt.Errorf("%T has no descriptor", conn)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peeked error
	// Not its Read: the deadline of an earlier call would hold.
	err = raw.Control(func(fd uintptr) {
		n, _, peeked = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(peeked, unix.EAGAIN), errors.Is(peeked, unix.EINTR):
		return 0, nil
	case peeked != nil:
		return 0, peeked
	case n == 0:
		return 0, ErrClosed
	}
	return n, nil
}

// Write writes p within bound, and returns how much of it the kernel took. The error is fault.Unavailable, or the context's,
// and names the target; the connection is then good for nothing but Close.
func (c *Conn) Write(ctx context.Context, bound time.Duration, p []byte) (int, error) {
	defer c.bind(ctx, bound)()
	n, err := c.conn.Write(p)
	return n, c.explain(ctx, "write to", err)
}

// Read reads into p within bound, as io.Reader does. Errors are those of Write; the end of the stream is one that wraps io.EOF.
func (c *Conn) Read(ctx context.Context, bound time.Duration, p []byte) (int, error) {
	defer c.bind(ctx, bound)()
	n, err := c.conn.Read(p)
	return n, c.explain(ctx, "read from", err)
}

// bind sets the deadline of one call, and lets the end of ctx bring it forward. The caller calls what it returns at its end.
func (c *Conn) bind(ctx context.Context, bound time.Duration) (release func()) {
	_ = c.conn.SetDeadline(time.Now().Add(bound)) // of a closed connection, which the call itself reports
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	return func() {
		if !stop() {
			c.spoiled = true
		}
	}
}

func (c *Conn) explain(ctx context.Context, verb string, err error) error {
	if err == nil {
		return nil
	}
	c.spoiled = true
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", verb, c.target, ctx.Err())
	}
	return fault.Unavailable("%s %s: %w", verb, c.target, err)
}

// Close ends the connection. What was written still arrives, if the receiver reads it and no call failed. A tls receiver has
// a second to end its side.
func (c *Conn) Close() error {
	if secure, ok := c.conn.(*tls.Conn); ok && !c.spoiled {
		// The kernel answers bytes that nobody has read, such as session tickets, with a reset, which can overtake what was
		// written: they are read, up to the receiver's own end.
		if secure.CloseWrite() == nil && secure.SetReadDeadline(time.Now().Add(c.closing)) == nil {
			_, _ = io.CopyN(io.Discard, secure, maxTail)
		}
	}
	return c.raw.Close()
}
