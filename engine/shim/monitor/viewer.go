package monitor

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/stdio"
	"moss/engine/task"
)

// viewer is one attached connection.
type viewer struct {
	conn  *os.File
	req   task.Attach
	ended atomic.Bool   // queue rather than wait
	gone  chan struct{} // closed when the viewer has taken everything or has hung up
	once  sync.Once

	mu    sync.Mutex // guards the output side of conn and the queue
	queue []byte
	dead  bool
}

func newViewer(conn *os.File, req task.Attach) *viewer {
	return &viewer{conn: conn, req: req, gone: make(chan struct{})}
}

func (v *viewer) wants(s stdio.Stream) bool {
	if s == stdio.Stderr {
		return v.req.Stderr
	}
	return v.req.Stdout
}

// write sends output. It waits for a slow viewer, which holds the container up like a slow terminal, until unblock.
// A viewer that hung up takes nothing and is never waited for.
func (v *viewer) write(out []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dead {
		return
	}
	n := 0
	if !v.ended.Load() {
		var err error
		n, err = v.conn.Write(out)
		if err == nil {
			return
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			v.dead = true
			v.hangUp()
			return
		}
	}
	v.queue = append(v.queue, out[n:]...)
}

// unblock ends waiting writes; from now on they queue. The container has ended, so there is at most what the pipes hold.
func (v *viewer) unblock() {
	v.ended.Store(true)
	_ = v.conn.SetWriteDeadline(time.Unix(1, 0))
}

// finish sends what is queued, however long the viewer takes, and then the end.
func (v *viewer) finish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer v.hangUp()
	if v.dead || len(v.queue) == 0 {
		return
	}
	_ = v.conn.SetWriteDeadline(time.Time{})
	_, _ = v.conn.Write(v.queue) // who hangs up now does not want the rest
}

// hangUp ends the connection for both sides.
func (v *viewer) hangUp() {
	v.once.Do(func() {
		close(v.gone)
		_ = v.conn.Close()
	})
}

// awaitHangUp reports true when the other side has closed the whole connection, not only its half of it, and false when
// this side has.
func (v *viewer) awaitHangUp() bool {
	raw, err := v.conn.SyscallConn()
	if err != nil {
		return false
	}
	return nil == raw.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd)}} //nolint:gosec // a descriptor
		_, err := unix.Poll(poll, 0)
		return err == nil && poll[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
}
