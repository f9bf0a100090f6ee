package session

import (
	"errors"
	"io"
	"sync"
)

// Buffers are lent to copies while these have something to copy: thousands of sessions in which nothing happens have
// none. The zero value is ready; it must not be copied. Sessions at the same time share it.
type Buffers struct{ pool sync.Pool }

// bufferSize is what is copied at once, in bytes: as much as a pipe or a socket hands over.
const bufferSize = 64 << 10

// awaiter is implemented by sources that can be waited for without a buffer.
type awaiter interface {
	// AwaitInput blocks until Read would not, be it for an error.
	AwaitInput() error
}

// copyStream copies src to dst until either fails. The end of src is no error.
func (b *Buffers) copyStream(dst io.Writer, src io.Reader) error {
	source, ok := src.(awaiter)
	if b == nil || !ok {
		_, err := io.Copy(dst, src)
		return err
	}
	for {
		if err := source.AwaitInput(); err != nil {
			return err
		}
		if err := b.copyChunk(dst, src); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// copyChunk copies what one read gives.
func (b *Buffers) copyChunk(dst io.Writer, src io.Reader) error {
	buf, ok := b.pool.Get().(*[bufferSize]byte)
	if !ok {
		buf = new([bufferSize]byte)
	}
	defer b.pool.Put(buf)
	n, err := src.Read(buf[:])
	if n > 0 {
		if _, werr := dst.Write(buf[:n]); werr != nil {
			return werr
		}
	}
	return err
}
