package archive

import (
	"io"
	"sync"
)

// reader reads a source in a goroutine of its own, some pieces ahead of who reads from it.
type reader struct {
	full  chan filled
	empty chan []byte
	stop  chan struct{}
	once  sync.Once

	now  []byte // what is left of the piece under way
	held []byte // that piece
	err  error
}

type filled struct {
	data []byte
	err  error
}

// readAhead returns a reader of src. Its Close ends the goroutine, after the read that it may be in: src is the caller's
// again then.
func readAhead(src io.Reader) *reader {
	const pieces = 3
	r := &reader{full: make(chan filled, pieces+1), empty: make(chan []byte, pieces), stop: make(chan struct{})}
	for range pieces {
		r.empty <- nil // made when it is needed
	}
	go r.fill(src)
	return r
}

func (r *reader) fill(src io.Reader) {
	defer close(r.full)
	for {
		select {
		case <-r.stop:
			return
		case buf := <-r.empty:
			if buf == nil {
				buf = make([]byte, piece)
			}
			n, err := src.Read(buf)
			for err == nil && n < len(buf)/2 && len(r.full) > 0 { // nobody waits for it
				var more int
				more, err = src.Read(buf[n:])
				n += more
			}
			r.full <- filled{buf[:n], err} // never blocks: it has more places than there are pieces
			if err != nil {
				return
			}
		}
	}
}

// Read returns bytes of the source, then its error.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.now) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.held != nil {
			r.empty <- r.held[:cap(r.held)]
			r.held = nil
		}
		next, ok := <-r.full
		if !ok {
			next.err = io.EOF
		}
		r.now, r.held, r.err = next.data, next.data, next.err
	}
	n := copy(p, r.now)
	r.now = r.now[n:]
	return n, nil
}

// Close ends the reading.
func (r *reader) Close() error {
	r.once.Do(func() { close(r.stop) })
	for range r.full { // only waits
	}
	return nil
}
