// Package session carries a client's connection and the streams of a process to each other, for attach and for added
// processes. It knows no containers.
package session

import (
	"context"
	"errors"
	"io"
	"time"

	"moss/engine/stdio"
	"moss/engine/task"
)

// Options say what a session does beside copying.
type Options struct {
	Input    bool     // what the client sends is for the process; otherwise it is dropped
	InputEnd bool     // the session ends with the client's input, and not with the output only
	Keys     []byte   // what the client types to leave; empty: nothing it types does that
	Detached func()   // if not nil, runs when the keys were typed
	Buffers  *Buffers // nil: each direction has one of its own
	// Over, if not nil, runs when the output has ended and before the client is told. ctx is done when the session ends
	// without that.
	Over func(ctx context.Context)
}

// client is what the connection of a client can do beside reading and writing.
type client interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// hangup is implemented by connections that can tell a client that has gone from one that only ended its input.
type hangup interface {
	// AwaitHangup blocks until the client has gone or the connection is closed.
	AwaitHangup()
}

// beyond is implemented by connections on which more may come than their input.
type beyond interface {
	// DropInput reads until the client has ended its side, or the connection is closed.
	DropInput()
}

// linger is how long a client gets to see the end of the output and close its side.
const linger = 2 * time.Second

// Run copies both ways until the output has ended, the client has gone, its keys were typed or ctx is done. It closes conn
// and streams. The end of the client's input leaves the output on, but with InputEnd.
func Run(ctx context.Context, conn io.ReadWriteCloser, streams task.Streams, opt Options) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	input, sent := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(input)
		if pumpInput(conn, streams, opt, sent) {
			cancel()
		}
	}()
	output := make(chan struct{})
	go func() {
		defer close(output)
		opt.Buffers.copyStream(conn, streams) //nolint:errcheck // either side may leave at any time
	}()
	over := false
	select {
	case <-output:
		over = true
	case <-ctx.Done():
	}
	if over && opt.Over != nil {
		opt.Over(ctx)
	}
	if cw, ok := conn.(client); ok {
		cw.CloseWrite() //nolint:errcheck // the client may have gone
		if over {
			streams.Close() //nolint:errcheck // input has nowhere to go any more
			lastInput(conn, sent)
		}
	}
	conn.Close()    //nolint:errcheck // the client may have gone
	streams.Close() //nolint:errcheck // the view ends either way
	<-input
	<-output
}

// End closes a connection on which everything was sent that there is. What the client has sent and nobody has read is
// dropped first, for linger at most: closing on top of it would give the client an error in place of the end.
func End(conn io.ReadWriteCloser) error {
	cw, ok := conn.(client)
	if !ok {
		return conn.Close()
	}
	if err := cw.CloseWrite(); err != nil {
		return errors.Join(err, conn.Close())
	}
	unread := make(chan error, 1)
	unread <- errNotRead
	lastInput(conn, unread)
	return conn.Close()
}

var errNotRead = errors.New("the client's input was not read")

// lastInput drops what the client has sent and nobody has read: closing on top of that would give the client an error in
// place of the end of the output. It returns when the client's input has ended, but soon.
func lastInput(conn io.ReadWriteCloser, sent <-chan error) {
	closer := time.AfterFunc(linger, func() { conn.Close() }) //nolint:errcheck // the client may have gone
	defer closer.Stop()
	if err := <-sent; err != nil {
		io.Copy(io.Discard, conn) //nolint:errcheck // either side may leave at any time
	}
	if more, ok := conn.(beyond); ok {
		more.DropInput()
	}
}

// pumpInput copies the client's input and reports whether the whole session ends with it: the client has typed its detach
// keys, is gone, or has ended its side where that counts. sent gets how the copying ended; after that nothing reads from
// conn here.
func pumpInput(conn io.ReadWriteCloser, streams task.Streams, opt Options, sent chan<- error) bool {
	var src io.Reader = conn
	if len(opt.Keys) > 0 {
		src = stdio.NewDetachReader(conn, opt.Keys)
	}
	dst := io.Writer(streams)
	if !opt.Input {
		dst = io.Discard
	}
	err := opt.Buffers.copyStream(dst, src)
	sent <- err
	if errors.Is(err, stdio.ErrDetached) {
		if opt.Detached != nil {
			opt.Detached()
		}
		return true
	}
	streams.CloseWrite() //nolint:errcheck // the process may have ended
	if opt.InputEnd {
		if more, ok := conn.(beyond); ok {
			more.DropInput() // the input may have been a body, after which the client still listens
		}
		return true
	}
	if h, ok := conn.(hangup); ok {
		h.AwaitHangup()
		return true
	}
	return false
}
