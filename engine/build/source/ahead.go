package source

import (
	"io"
	"sync"
)

const (
	piece  = 256 << 10 // bytes read, written and hashed at once
	pieces = 4         // of each kind under way
)

// ahead reads a source in a goroutine of its own, some pieces ahead of who reads from it.
type ahead struct {
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

// readAhead returns a reader of src. Its Close ends the goroutine, after the read that it may be in: src is the caller's again
// then.
func readAhead(src io.Reader) *ahead {
	a := &ahead{full: make(chan filled, pieces+1), empty: make(chan []byte, pieces), stop: make(chan struct{})}
	for range pieces {
		a.empty <- nil // made when it is needed
	}
	go a.fill(src)
	return a
}

func (a *ahead) fill(src io.Reader) {
	defer close(a.full)
	for {
		select {
		case <-a.stop:
			return
		case buf := <-a.empty:
			if buf == nil {
				buf = make([]byte, piece)
			}
			n, err := src.Read(buf)
			for err == nil && n < len(buf)/2 && len(a.full) > 0 { // nobody waits for it
				var more int
				more, err = src.Read(buf[n:])
				n += more
			}
			a.full <- filled{buf[:n], err} // never blocks: it has more places than there are pieces
			if err != nil {
				return
			}
		}
	}
}

// Read returns bytes of the source, then its error.
func (a *ahead) Read(p []byte) (int, error) {
	for len(a.now) == 0 {
		if a.err != nil {
			return 0, a.err
		}
		if a.held != nil {
			a.empty <- a.held[:cap(a.held)]
			a.held = nil
		}
		next, ok := <-a.full
		if !ok {
			next.err = io.EOF
		}
		a.now, a.held, a.err = next.data, next.data, next.err
	}
	n := copy(p, a.now)
	a.now = a.now[n:]
	return n, nil
}

// Close ends the reading.
func (a *ahead) Close() error {
	a.once.Do(func() { close(a.stop) })
	for range a.full { // only waits
	}
	return nil
}
