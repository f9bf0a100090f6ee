package tasktest

import (
	"bytes"
	"io"
	"slices"
	"sync"

	"moss/engine/stdio"
	"moss/engine/task"
)

// stream is a pipe without bounds.
type stream struct {
	mu     sync.Mutex // guards the fields below
	more   *sync.Cond
	data   []byte
	closed bool
}

func newStream() *stream {
	s := &stream{}
	s.more = sync.NewCond(&s.mu)
	return s
}

// Read waits for data or the end.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.data) == 0 && !s.closed {
		s.more.Wait()
	}
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.data)
	s.data = s.data[n:]
	return n, nil
}

// Write never blocks.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	s.data = append(s.data, p...)
	s.more.Broadcast()
	return len(p), nil
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.more.Broadcast()
}

// fakeOutput takes what a script writes to every view.
type fakeOutput struct {
	process *FakeProcess
	stream  stdio.Stream
}

func (o fakeOutput) Write(p []byte) (int, error) {
	o.process.mu.Lock()
	views := slices.Clone(o.process.views)
	o.process.mu.Unlock()
	out := append(stdio.AppendHeader(nil, o.stream, len(p)), p...)
	if o.process.terminal {
		out = bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))
	}
	for _, v := range views {
		if o.stream == stdio.Stderr && v.req.Stderr || o.stream == stdio.Stdout && v.req.Stdout {
			_, _ = v.out.Write(out) // a view that has left takes nothing
		}
	}
	return len(p), nil
}

// fakeView is a joined view.
type fakeView struct {
	process *FakeProcess
	req     task.Attach
	out     *stream

	mu     sync.Mutex // guards closed
	closed bool
}

func (v *fakeView) Read(p []byte) (int, error) { return v.out.Read(p) }

func (v *fakeView) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return 0, errClosed
	}
	if v.req.Stdin && v.process.openStdin {
		return v.process.input.Write(p)
	}
	return len(p), nil
}

func (v *fakeView) CloseWrite() error {
	if v.req.Stdin && v.process.stdinOnce && !v.process.terminal {
		v.process.input.close()
	}
	return nil
}

func (v *fakeView) Close() error {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.process.mu.Lock()
	v.process.views = slices.DeleteFunc(v.process.views, func(o *fakeView) bool { return o == v })
	v.process.mu.Unlock()
	v.out.close()
	return v.CloseWrite()
}
