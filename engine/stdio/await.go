package stdio

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// AwaitInput blocks until a read of a connection would not, be it for its end or an error, and reads nothing. The error is
// that of a connection that this side has closed.
func AwaitInput(conn syscall.RawConn) error {
	return conn.Read(func(fd uintptr) bool {
		state := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor
		n, err := unix.Poll(state, 0)
		return err != nil || n > 0
	})
}
