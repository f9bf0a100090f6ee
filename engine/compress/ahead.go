package compress

import (
	"io"
	"sync"
)

// Reader reads a source in a goroutine of its own, some pieces ahead of who reads from it.
type Reader struct {
	full  chan filled
	empty chan []byte
	stop  chan struct{}
	once  sync.Once

	now  []byte // what is left of the piece under way
	held []byte // that piece
	err  error

	size int // of a piece, in bytes
}

type filled struct {
	data []byte
	err  error
}

// Ahead returns a reader of src that is so many pieces of size bytes ahead. Its Close ends the goroutine, after the read that
// it may be in: src is the caller's again then.
func Ahead(src io.Reader, pieces, size int) *Reader {
	r := &Reader{full: make(chan filled, pieces+1), empty: make(chan []byte, pieces), stop: make(chan struct{}), size: size}
	for range pieces {
		r.empty <- nil // made when it is needed
	}
	go r.readPieces(src)
	return r
}

// readPieces reads the source to its end or its first error, piece by piece.
func (r *Reader) readPieces(src io.Reader) {
	defer close(r.full)
	for {
		select {
		case <-r.stop:
			return
		case buf := <-r.empty:
			if buf == nil {
				buf = make([]byte, r.size)
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
func (r *Reader) Read(p []byte) (int, error) {
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
func (r *Reader) Close() error {
	r.once.Do(func() { close(r.stop) })
	for range r.full { // only waits
	}
	return nil
}
