package conn

import (
	"time"

	"golang.org/x/sys/unix"
)

// headPatience bounds the wait for the client's reading of the head. Who takes longer gets the stream right behind it.
const headPatience = 5 * time.Second

// awaitHead blocks until the client has read the head, as far as that can be seen: over a unix socket. docker-py reads the
// head through a buffer and all that follows from the socket itself, so what comes in one read with the head is lost to it.
func (s *Stream) awaitHead() {
	raw := socketOf(s.conn)
	if raw == nil || s.conn.LocalAddr().Network() != "unix" {
		return
	}
	deadline := time.NewTimer(headPatience)
	defer deadline.Stop()
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		unread := 0
		if err := raw.Control(func(fd uintptr) {
			unread, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) // 0 where it is not known
		}); err != nil || unread == 0 {
			return
		}
		again := time.NewTimer(pause) // the kernel does not tell when it is read
		select {
		case <-again.C:
		case <-deadline.C:
			return
		case <-s.done:
			again.Stop()
			return
		}
	}
}
