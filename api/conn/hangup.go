package conn

import (
	"context"
	"net"
	"net/http"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// awaitHangup blocks until the client of a connection has closed both of its sides or stop is closed, beside whoever reads
// and writes it. It reports false, at once, where a connection cannot be watched.
func awaitHangup(conn net.Conn, stop <-chan struct{}) bool {
	file := duplicateSocket(conn)
	if file == nil {
		return false
	}
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close() //nolint:errcheck // a second descriptor
		return false
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stop:
		case <-over:
		}
		file.Close() //nolint:errcheck // a second descriptor; this ends the waiting
	}()
	// The poller wakes this at every change of the socket. Reading nothing, it does not take bytes from a reader.
	raw.Read(func(fd uintptr) bool { //nolint:errcheck // its end is all that counts
		state := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(state, 0)
		return err == nil && n > 0 && state[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
	close(over)
	<-ended
	return true
}

// duplicateSocket returns a second descriptor of a connection, so that waiting takes no lock of the first; nil for what is no
// socket of the kernel's.
func duplicateSocket(conn net.Conn) *os.File {
	raw := socketOf(conn)
	if raw == nil {
		return nil
	}
	second := -1
	err := raw.Control(func(fd uintptr) {
		if n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			second = n
		}
	})
	if err != nil || second < 0 {
		return nil
	}
	return os.NewFile(uintptr(second), "client")
}

// socketOf returns a connection's socket, the one below where it is encrypted; nil if there is none.
func socketOf(conn net.Conn) syscall.RawConn {
	if above, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = above.NetConn()
	}
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// lineKey is the context's key of a line.
type lineKey struct{}

// line is a connection that requests come by.
type line struct {
	conn net.Conn
	life context.Context //nolint:containedctx // of the server, which ends before its connections
}

// WithLine notes on the context of a connection, which is its server's, what Patient needs.
func WithLine(ctx context.Context, c net.Conn) context.Context {
	if c.LocalAddr().Network() != "unix" {
		return ctx // over TCP a client that has gone looks like one that only ended its side
	}
	return context.WithValue(ctx, lineKey{}, &line{conn: c, life: ctx})
}

// Patient returns a context of a request that ends when its client has gone. The HTTP server ends the request's own as soon
// as the client has closed its side for writing, which it may do with the request: it still reads the answer. The caller
// cancels it at the end of the request.
func Patient(r *http.Request) (context.Context, context.CancelFunc) {
	l, ok := r.Context().Value(lineKey{}).(*line)
	if !ok {
		return r.Context(), func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	shut := context.AfterFunc(l.life, cancel)
	left := context.AfterFunc(r.Context(), func() {
		awaitHangup(l.conn, ctx.Done())
		cancel()
	})
	return ctx, func() {
		shut()
		left()
		cancel()
	}
}
