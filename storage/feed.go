package storage

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// What a feed holds of a stream at a time is bounded: several layers are staged at once.
const (
	chunkSize = 256 << 10
	chunks    = 4
)

// errStopped is what the readers of a feed see that another one ended.
var errStopped = errors.New("the stream was given up")

// chunk is a piece of a stream that several readers share.
type chunk struct {
	data []byte // what was read, of buf
	buf  []byte
	left atomic.Int32 // readers that are not through with it
}

// feed gives one stream to several readers, each at its own pace as far as the buffers go. One that fails ends it for all.
type feed struct {
	free    chan *chunk
	readers []*feedReader
	quit    chan struct{}
	once    sync.Once
	err     error // what ended it; read after quit is closed
}

// newFeed makes a feed for so many readers. Each of them is read to its end, or fail is called.
func newFeed(readers int) *feed {
	f := &feed{free: make(chan *chunk, chunks), quit: make(chan struct{})}
	for range chunks {
		f.free <- &chunk{}
	}
	for range readers {
		f.readers = append(f.readers, &feedReader{feed: f, next: make(chan *chunk, chunks)})
	}
	return f
}

// fail ends the feed for everyone. The first error stays.
func (f *feed) fail(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.quit)
	})
}

// failureOr returns what ended the feed, or err if nothing did. It is called when all readers are through.
func (f *feed) failureOr(err error) error {
	select {
	case <-f.quit:
		return f.err
	default:
		return err
	}
}

// shareSource reads src to its end, or until a reader fails. It returns the number of bytes and the error of src.
func (f *feed) shareSource(src io.Reader) (int64, error) {
	var total int64
	for {
		var c *chunk
		select {
		case c = <-f.free:
		case <-f.quit:
			return total, f.err
		}
		if c.buf == nil {
			c.buf = make([]byte, chunkSize)
		}
		n, err := f.fillBuffer(src, c.buf)
		total += int64(n)
		if err != nil && !errors.Is(err, io.EOF) {
			f.fail(err)
			return total, err
		}
		if n > 0 {
			c.data = c.buf[:n]
			c.left.Store(int32(len(f.readers)))
			for _, r := range f.readers {
				r.next <- c // never blocks: there are no more chunks than it holds
			}
		}
		if err != nil {
			for _, r := range f.readers {
				close(r.next)
			}
			return total, nil
		}
	}
}

// fillBuffer reads until buf is full, the stream ends or a reader has failed.
func (f *feed) fillBuffer(src io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		select {
		case <-f.quit:
			return n, f.err
		default:
		}
		var m int
		m, err = src.Read(buf[n:])
		n += m
	}
	return n, err
}

// feedReader is one reader's view of the stream. It belongs to one goroutine.
type feedReader struct {
	feed *feed
	next chan *chunk
	held *chunk
	data []byte // of held, not read yet
}

// Read returns the next bytes. After the failure of another reader, or of the stream, it returns an error.
func (r *feedReader) Read(p []byte) (int, error) {
	if err := r.fetchChunk(); err != nil {
		return 0, err
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}

// WriteTo passes on what is left, without a buffer of its own.
func (r *feedReader) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		if err := r.fetchChunk(); errors.Is(err, io.EOF) {
			return total, nil
		} else if err != nil {
			return total, err
		}
		n, err := w.Write(r.data)
		total += int64(n)
		if err != nil {
			return total, err
		}
		r.data = nil
	}
}

// fetchChunk makes sure that there are bytes to read.
func (r *feedReader) fetchChunk() error {
	for len(r.data) == 0 {
		if r.held != nil {
			if r.held.left.Add(-1) == 0 {
				r.feed.free <- r.held
			}
			r.held = nil
		}
		select {
		case <-r.feed.quit: // no use in going on, even if there are bytes
			return errStopped
		default:
		}
		select {
		case c, ok := <-r.next:
			if !ok {
				return io.EOF
			}
			r.held, r.data = c, c.data
		case <-r.feed.quit:
			return errStopped
		}
	}
	return nil
}
