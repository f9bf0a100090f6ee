package monitor

import (
	"io"
	"sync"
)

// stdin is the way to the container's input: the writing end of a pipe or the pty. Several viewers may write.
type stdin struct {
	ready     chan struct{} // closed by open or close
	readyOnce sync.Once

	mu     sync.Mutex // guards the fields below
	f      io.WriteCloser
	closed bool

	turn sync.Mutex // one write at a time
}

func newStdin() *stdin { return &stdin{ready: make(chan struct{})} }

// open lets writes through to f, which belongs to stdin from now on. Nil takes no input.
func (s *stdin) open(f io.WriteCloser) {
	s.mu.Lock()
	if s.closed && f != nil {
		_ = f.Close()
		f = nil
	}
	s.f = f
	s.mu.Unlock()
	s.readyOnce.Do(func() { close(s.ready) })
}

// write waits until there is a process to write to and then for it to take p. io.ErrClosedPipe once the input is closed.
func (s *stdin) write(p []byte) error {
	<-s.ready
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	f := s.f
	s.mu.Unlock()
	if f == nil {
		return io.ErrClosedPipe
	}
	_, err := f.Write(p)
	return err
}

// close gives the process the end of its input once it runs, and ends waiting writes.
func (s *stdin) close() {
	s.mu.Lock()
	f := s.f
	s.f, s.closed = nil, true
	s.mu.Unlock()
	if f != nil {
		_ = f.Close()
	}
	s.readyOnce.Do(func() { close(s.ready) })
}

// closeAfterStart is close for a viewer that has sent all its input: it waits until the process is there to see the end.
func (s *stdin) closeAfterStart() {
	<-s.ready
	s.close()
}
