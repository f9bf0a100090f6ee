package imagesvc

import (
	"context"
	"errors"
	"io"
	"sync"
)

// What is read ahead of the layers that are being unpacked, all together.
const (
	chunkSize = 512 << 10 // bytes
	chunks    = 16
)

// pool lends out the chunks.
type pool chan []byte

func newPool() pool {
	p := make(pool, chunks)
	for range chunks {
		p <- nil
	}
	return p
}

// pipe carries one layer from who reads the archive to who unpacks it.
type pipe struct {
	pool  pool
	full  chan []byte   // has room for all chunks
	quit  chan struct{} // closed when nobody reads any more
	chunk []byte        // being read, with at
	at    int

	mu  sync.Mutex // guards err
	err error      // what the reader sees at the end
}

func newPipe(pool pool) *pipe {
	return &pipe{pool: pool, full: make(chan []byte, chunks), quit: make(chan struct{})}
}

// errNoReader says that the layer's reader has ended.
var errNoReader = errors.New("nobody reads")

// fillFrom takes everything of src and reports each step. It returns src's error, errNoReader if the reader has gone, or
// that of ctx. Then closeWriter is called.
func (p *pipe) fillFrom(ctx context.Context, src io.Reader, step func(n int)) error {
	for {
		var chunk []byte
		select {
		case chunk = <-p.pool:
		case <-p.quit:
			return errNoReader
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if chunk == nil {
			chunk = make([]byte, chunkSize)
		}
		n, err := fillChunk(src, chunk[:chunkSize])
		p.full <- chunk[:n]
		step(n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// fillChunk reads until the chunk is full or there is an error. io.ReadFull would hide whether the source was cut short.
func fillChunk(src io.Reader, chunk []byte) (int, error) {
	n := 0
	for n < len(chunk) {
		m, err := src.Read(chunk[n:])
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// closeWriter tells the reader that nothing more comes, and why.
func (p *pipe) closeWriter(err error) {
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	close(p.full)
}

// isBroken reports whether the layer did not come to its end.
func (p *pipe) isBroken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil && !errors.Is(p.err, errNoReader)
}

// Read reads the layer.
func (p *pipe) Read(b []byte) (int, error) {
	for p.at == len(p.chunk) {
		p.giveBack()
		chunk, ok := <-p.full
		if !ok {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.err != nil {
				return 0, p.err
			}
			return 0, io.EOF
		}
		p.chunk, p.at = chunk, 0
	}
	n := copy(b, p.chunk[p.at:])
	p.at += n
	return n, nil
}

func (p *pipe) giveBack() {
	if p.chunk != nil {
		p.pool <- p.chunk // has room: it came from there
		p.chunk, p.at = nil, 0
	}
}

// closeReader ends the reader's side: what still comes is dropped until closeWriter.
func (p *pipe) closeReader() {
	close(p.quit)
	p.giveBack()
	for chunk := range p.full {
		p.pool <- chunk
	}
}
