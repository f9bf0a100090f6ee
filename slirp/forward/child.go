package forward

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"moss/engine/thread"
)

// Child is the half of the driver that runs in RootlessKit's child.
type Child struct{ log io.Writer }

// NewChild returns a child driver that writes its messages to log.
func NewChild(log io.Writer) *Child { return &Child{log: log} }

// RunChildDriver makes sockets in the network namespace at netns (empty: in this one) for the parent until quit. It
// comes back only then, whatever happens: RootlessKit waits for nothing else.
func (c *Child) RunChildDriver(opaque map[string]string, quit <-chan struct{}, netns string) error {
	conn, err := net.DialUnix(network, nil, &net.UnixAddr{Name: opaque[keySocket], Net: network})
	if err != nil {
		_, _ = fmt.Fprintf(c.log, "no published port will work: reach the outer process: %v\n", err)
		<-quit
		return err
	}
	served := make(chan error, 1)
	go func() {
		// The thread stays in the namespace; entering it for each batch would cost more than the batch.
		run := thread.Apart
		if netns != "" {
			run = func(f func() error) error { return thread.InNetworkAt(netns, f) }
		}
		served <- run(func() error { return serveRequests(conn, newSocket) })
	}()
	select {
	case <-quit:
		return errors.Join(conn.Close(), <-served)
	case err = <-served:
	}
	if err != nil {
		_, _ = fmt.Fprintf(c.log, "published ports reach no container any more: %v\n", err)
	}
	<-quit
	return errors.Join(err, conn.Close())
}

// serveRequests answers requests until the other side, or this one, closes the connection.
func serveRequests(conn *net.UnixConn, create func(kind) (int, error)) error {
	request := [requestSize]byte{}
	for {
		n, err := conn.Read(request[:])
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.ECONNRESET) || err == nil && n == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what sockets are wanted: %w", err)
		}
		k, count, err := parseRequest(request[:n])
		if err == nil {
			err = sendSockets(conn, k, count, create)
		}
		if err != nil {
			if _, err := conn.Write([]byte(err.Error())); err != nil {
				return fmt.Errorf("answer that there are no sockets: %w", err)
			}
		}
	}
}

// sendSockets makes sockets and hands them over, fewer than wanted if there is no room for more.
func sendSockets(conn *net.UnixConn, k kind, count int, create func(kind) (int, error)) error {
	var (
		fds   []int
		first error
	)
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd) // the other side has its own
		}
	}()
	for range count {
		fd, err := create(k)
		if err != nil {
			first = err
			break
		}
		fds = append(fds, fd)
	}
	if len(fds) == 0 {
		return first
	}
	_, _, err := conn.WriteMsgUnix([]byte{answerSockets}, unix.UnixRights(fds...), nil)
	return err
}

// newSocket makes a socket in the thread's network namespace that may have an address of elsewhere. Where that is not
// allowed it is an ordinary one, and the other side finds out.
func newSocket(k kind) (int, error) {
	fd, err := unix.Socket(k.addressFamily(), k.socketType()|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("make a socket among the containers: %w", err)
	}
	// A client's port may be in use already, by a connection of it to another published port.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, DialMark)
	if k.addressFamily() == unix.AF_INET6 {
		_ = unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1)
	} else {
		_ = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1)
	}
	return fd, nil
}
