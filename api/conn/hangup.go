package conn

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// hangups watches a connection for its client's going, beside whoever reads and writes it.
type hangups struct {
	file *os.File // a second descriptor of the connection, so that waiting takes no lock of the first
}

// newHangups returns nil for a connection that is no socket of the kernel's.
func newHangups(conn net.Conn) *hangups {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	second := -1
	err = raw.Control(func(fd uintptr) {
		second, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err != nil || second < 0 {
		return nil
	}
	return &hangups{file: os.NewFile(uintptr(second), "client")}
}

// wait blocks until the client has closed both of its sides or close is called. It reports whether it could watch.
func (h *hangups) wait() bool {
	raw, err := h.file.SyscallConn()
	if err != nil {
		return false
	}
	// The poller wakes this at every change of the socket. Reading nothing, it does not take bytes from a reader.
	return raw.Read(func(fd uintptr) bool {
		state := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(state, 0)
		return err == nil && n > 0 && state[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	}) == nil
}

func (h *hangups) close() error { return h.file.Close() }
