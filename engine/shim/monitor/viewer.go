package monitor

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/stdio"
	"moss/engine/task"
)

// viewer is one attached connection.
type viewer struct {
	conn    *os.File
	raw     syscall.RawConn // of conn
	req     task.Attach
	ended   atomic.Bool   // queue rather than wait
	pending atomic.Int32  // pieces of output that wait for it, one of each stream at most
	gone    chan struct{} // closed when the viewer has taken everything or has hung up
	once    sync.Once

	held time.Duration // how far it lags behind slowestPace while others wait; guarded by the hub's mu

	mu    sync.Mutex // guards the output side of conn and the queue
	queue []byte
	dead  bool
}

func newViewer(conn *os.File, req task.Attach) (*viewer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &viewer{conn: conn, raw: raw, req: req, gone: make(chan struct{})}, nil
}

func (v *viewer) wantsStream(s stdio.Stream) bool {
	if s == stdio.Stderr {
		return v.req.Stderr
	}
	return v.req.Stdout
}

// wantsOutput reports whether the viewer waits for any output.
func (v *viewer) wantsOutput() bool { return v.req.Stdout || v.req.Stderr }

// tryWrite sends what the viewer takes at once and returns the rest. With a rest that has begun, locked is true and v.mu is
// held until finishWrite: nothing may come into the middle of a frame.
func (v *viewer) tryWrite(out []byte) (rest []byte, locked bool) {
	if !v.mu.TryLock() {
		return out, false // a piece of the other stream waits for it
	}
	if v.dead {
		v.mu.Unlock()
		return nil, false
	}
	n := 0
	if !v.ended.Load() {
		var err error
		if err = v.raw.Write(func(fd uintptr) bool {
			n, err = unix.Write(int(fd), out)
			return true
		}); err == nil && n == len(out) {
			v.mu.Unlock()
			return nil, false
		}
	}
	return out[max(n, 0):], true // whatever is wrong comes up again
}

// write sends output. It waits for a slow viewer until unblockWrites. One that hung up takes nothing and is never waited for.
func (v *viewer) write(out []byte) {
	v.mu.Lock()
	v.finishWrite(out)
}

// finishWrite is write for a caller that holds v.mu, and releases it.
func (v *viewer) finishWrite(out []byte) {
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

// unblockWrites ends waiting writes; from now on they queue. The container has ended, or the viewer is cut off: there is at
// most what the pipes hold.
func (v *viewer) unblockWrites() {
	v.ended.Store(true)
	_ = v.conn.SetWriteDeadline(time.Unix(1, 0))
}

// flushAndHangUp sends what is queued and the last words, however long the viewer takes, and then the end. Nothing else is
// written from now on.
func (v *viewer) flushAndHangUp(last []byte) {
	defer v.hangUp()
	v.mu.Lock()
	v.queue = append(v.queue, last...)
	left, dead := v.queue, v.dead
	v.queue, v.dead = nil, true
	v.mu.Unlock()
	if dead || len(left) == 0 {
		return
	}
	_ = v.conn.SetWriteDeadline(time.Time{})
	_, _ = v.conn.Write(left) // who hangs up now does not want the rest
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
	return nil == v.raw.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd)}} //nolint:gosec // a descriptor
		_, err := unix.Poll(poll, 0)
		return err == nil && poll[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
}
