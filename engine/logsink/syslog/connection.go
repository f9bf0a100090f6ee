package syslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sort"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	writeTime  = 30 * time.Second // for one batch
	mostAnswer = 64 << 10         // bytes that a receiver may send on a connection; it is asked for none
)

// connection is a way to a receiver. What a receiver sends on a stream is read and thrown away, so that its end is noticed.
type connection struct {
	conn   net.Conn      // takes what is sent
	raw    net.Conn      // the same, or what is below TLS
	stream bool          // otherwise each write is a message
	write  time.Duration // writeTime
	cut    bool          // the deadline of a Send that is over may be set yet

	ended  chan struct{} // closed when a stream has ended; reason is set then
	reason error         // nil: the receiver closed it
}

// newConnection takes a connection over, and reads from it until it is closed.
func newConnection(conn, raw net.Conn) *connection {
	network := raw.RemoteAddr().Network()
	c := &connection{
		conn: conn, raw: raw, stream: network == "tcp" || network == "unix", write: writeTime, ended: make(chan struct{}),
	}
	if c.stream {
		go c.readAnswers()
	} else {
		close(c.ended)
	}
	return c
}

// readAnswers reads until the end.
func (c *connection) readAnswers() {
	defer close(c.ended)
	var buf [512]byte
	for total := 0; total <= mostAnswer; {
		n, err := c.conn.Read(buf[:])
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			c.reason = err
			return
		}
		total += n
	}
	c.reason = fmt.Errorf("the other side sent more than %d bytes, as no syslog receiver does", mostAnswer)
}

// isOver tells whether the connection takes nothing any more. The reason is nil where the receiver has just closed it.
func (c *connection) isOver() (over bool, reason error) {
	if !c.stream {
		return c.cut, nil
	}
	select {
	case <-c.ended:
		return true, c.reason
	default:
		return c.cut, nil
	}
}

// closeAndWait closes the connection and waits for the end of readAnswers. A receiver with TLS is told.
func (c *connection) closeAndWait() {
	_ = c.conn.Close()
	_ = c.raw.Close()
	<-c.ended
}

// writeFrames sends the messages in buf, and returns how many of them the kernel took, with an error. It ends with ctx, and after
// the time of a write.
func (c *connection) writeFrames(ctx context.Context, buf []byte, frames []frame) (taken int, err error) {
	if err := c.raw.SetWriteDeadline(time.Now().Add(c.write)); err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.raw.SetWriteDeadline(time.Unix(1, 0)) })
	if c.stream {
		taken, err = c.writeStream(buf, frames)
	} else {
		taken, err = c.writeDatagrams(buf, frames)
	}
	c.cut = !stop()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return taken, err
}

// writeStream sends all messages at once.
func (c *connection) writeStream(buf []byte, frames []frame) (taken int, err error) {
	n, err := c.conn.Write(buf)
	if err != nil {
		return sort.Search(len(frames), func(i int) bool { return frames[i].end > n }), err
	}
	return len(frames), nil
}

// writeDatagrams sends message by message. The answer that nobody listens at a port comes behind the message that it is about,
// which counts as not sent: this holds for receivers of this machine, whose answers are there at once.
func (c *connection) writeDatagrams(buf []byte, frames []frame) (taken int, err error) {
	socket, udp := c.raw.(*net.UDPConn)
	begin := 0
	for ; taken < len(frames); taken++ {
		if _, err = c.raw.Write(buf[begin:frames[taken].end]); err != nil {
			break
		}
		begin = frames[taken].end
	}
	if udp && err == nil {
		err = pendingError(socket)
	}
	if udp && taken > 0 && errors.Is(err, syscall.ECONNREFUSED) {
		taken--
	}
	return taken, err
}

// pendingError returns what the kernel was told about a datagram that it had taken.
func pendingError(socket *net.UDPConn) error {
	rc, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var pending int
	failed := rc.Control(func(fd uintptr) { pending, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR) })
	if err = errors.Join(failed, err); err == nil && pending != 0 {
		err = syscall.Errno(pending)
	}
	return err
}
