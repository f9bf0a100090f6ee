package monitor

import (
	"errors"
	"io"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/stdio"
)

const (
	smallBuffer = 4 << 10         // enough for lines and keys
	largeBuffer = 128 << 10       // when data flows
	pipeSize    = 512 << 10       // of a pipe whose data flows; the kernel may refuse it
	quietAfter  = 2 * time.Second // a large buffer is given back after so long without data
)

// source reads from a non-blocking descriptor. Its buffer grows while data flows and goes back to the system
// afterwards. Each read leaves room for a frame header in front of the data.
type source struct {
	f       *os.File
	raw     syscall.RawConn
	idle    func() // called when there is nothing more to read for now
	buf     []byte
	n       int
	err     error
	stopped atomic.Bool
	late    int // bytes that were read after stop
	try     func(fd uintptr) bool
}

func newSource(f *os.File, idle func()) (*source, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &source{f: f, raw: raw, idle: idle}
	s.try = s.tryRead
	return s, nil
}

// next waits for data and returns stdio.HeaderSize bytes of room followed by the data, valid until the next call. It
// returns io.EOF at the end or after stop.
func (s *source) next() ([]byte, error) {
	for {
		err := s.read()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.handleDeadline()
		case err != nil:
			return nil, err
		case s.err != nil:
			return nil, s.err
		case s.n == 0, s.tooLate():
			return nil, io.EOF
		default:
			frame := s.buf[:stdio.HeaderSize+s.n]
			return frame, nil
		}
	}
}

// read waits for data, but not once the source is stopped: then it takes what is there.
func (s *source) read() error {
	if !s.stopped.Load() {
		return s.raw.Read(s.try)
	}
	return s.raw.Control(func(fd uintptr) { s.tryRead(fd) })
}

// stop makes next return io.EOF as soon as it would wait, or at once if it waits. A process that keeps writing does not hold
// it up: no more is read than what a pipe holds.
func (s *source) stop() {
	s.stopped.Store(true)
	_ = s.f.SetReadDeadline(time.Unix(1, 0))
}

// tooLate counts what was read after stop.
func (s *source) tooLate() bool {
	if s.stopped.Load() {
		s.late += s.n
	}
	return s.late > pipeSize+largeBuffer
}

func (s *source) tryRead(fd uintptr) bool {
	s.fitBuffer(int(fd))
	for {
		s.n, s.err = unix.Read(int(fd), s.buf[stdio.HeaderSize:])
		switch {
		case errors.Is(s.err, unix.EINTR):
			continue
		case errors.Is(s.err, unix.EAGAIN):
			s.err, s.n = nil, 0
			s.prepareWait()
			return false
		case errors.Is(s.err, unix.EIO):
			s.err = io.EOF // a pty whose last user has closed it
		}
		return true
	}
}

// fitBuffer chooses the buffer for the next read: larger after one that filled it.
func (s *source) fitBuffer(fd int) {
	room := len(s.buf) - stdio.HeaderSize
	switch {
	case s.buf == nil:
		s.buf = make([]byte, stdio.HeaderSize+smallBuffer)
	case s.n == room && room < largeBuffer:
		s.buf = make([]byte, stdio.HeaderSize+largeBuffer)
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, pipeSize) // fails on anything but a pipe
	}
}

// prepareWait prepares for a wait: what was read so far is flushed, and a large buffer gets a date on which it goes.
func (s *source) prepareWait() {
	if s.idle != nil {
		s.idle()
	}
	if len(s.buf) > stdio.HeaderSize+smallBuffer && !s.stopped.Load() {
		_ = s.f.SetReadDeadline(time.Now().Add(quietAfter))
		if s.stopped.Load() {
			_ = s.f.SetReadDeadline(time.Unix(1, 0))
		}
	}
}

// handleDeadline gives the buffer back when the deadline has passed that prepareWait has set. The one of stop leaves it.
func (s *source) handleDeadline() {
	_ = s.f.SetReadDeadline(time.Time{})
	if s.stopped.Load() {
		return
	}
	s.buf, s.n = nil, 0
	debug.FreeOSMemory()
}
