package client

import (
	"errors"
	"io"
	"sync"
)

// bulkBuffer is the size of the pieces in which archives move: each is one system call at either end.
const bulkBuffer = 256 << 10

// bulk is a request's body that is sent in large pieces, and that remembers why it broke: net/http copies in pieces of
// 32 KiB what does not write itself. A reader that writes itself does so.
type bulk struct {
	io.Reader

	mu  sync.Mutex // guards err
	err error
}

// Read reads a piece.
func (b *bulk) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.noteSourceErr(err)
	}
	return n, err
}

func (b *bulk) noteSourceErr(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// noting is a writer that remembers its failure.
type noting struct {
	io.Writer

	err error
}

// Write writes.
func (n *noting) Write(p []byte) (int, error) {
	size, err := n.Writer.Write(p)
	if err != nil {
		n.err = err
	}
	return size, err
}

// WriteTo sends all of it.
func (b *bulk) WriteTo(w io.Writer) (int64, error) {
	if direct, ok := b.Reader.(io.WriterTo); ok {
		out := &noting{Writer: w}
		n, err := direct.WriteTo(out)
		if err != nil && out.err == nil {
			b.noteSourceErr(err)
		}
		return n, err
	}
	return io.CopyBuffer(struct{ io.Writer }{w}, readOnly{b}, make([]byte, bulkBuffer))
}

// sourceErr returns what broke the body, nil if it did not break.
func (b *bulk) sourceErr() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// readOnly hides every method of a reader but Read.
type readOnly struct{ r io.Reader }

func (r readOnly) Read(p []byte) (int, error) { return r.r.Read(p) }

// CopyBulk copies a stream without frames in large pieces, with the errors of Demux.
func CopyBulk(out io.Writer, stream io.Reader) (int64, error) {
	n, err := io.CopyBuffer(struct{ io.Writer }{guard{out}}, readOnly{stream}, make([]byte, bulkBuffer))
	return n, streamFault(err)
}

// lostReader is an answer's body whose breaking off is a *LostError.
type lostReader struct {
	io.ReadCloser
	client *Client
}

// Read reads a piece.
func (l lostReader) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, l.client.classifyError(err)
}
