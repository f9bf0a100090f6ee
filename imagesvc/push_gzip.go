package imagesvc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/opencontainers/go-digest"
)

// The way layers are compressed decides their digests: the same layer has to give the same bytes on every machine, so that
// registries keep it once. None of these may depend on the machine.
const (
	gzipLevel = 6       // a third of the time of zlib, for four percent more bytes
	gzipBlock = 1 << 20 // bytes that are compressed together, and by one processor
)

// gzipHeader says nothing of times, names or systems (RFC 1952, 2.3).
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

// gzipper is an archive that is compressed while it is read, by as many processors as its slots allow. It checks the plain
// archive on the way.
type gzipper struct {
	plain  io.ReadCloser
	want   digest.Digest // of the plain archive
	slots  chan struct{} // shared by all gzippers: one for each processor
	blocks chan chan block
	stop   chan struct{}
	close  sync.Once
	wg     sync.WaitGroup

	rest []byte
	err  error
}

// block is a compressed piece of an archive, or why there is none.
type block struct {
	data []byte
	err  error
}

// newGzipper compresses plain, the archive with the digest want. It closes plain at its end or by Close.
func newGzipper(plain io.ReadCloser, want digest.Digest, slots chan struct{}) *gzipper {
	g := &gzipper{
		plain: plain, want: want, slots: slots,
		blocks: make(chan chan block, cap(slots)), stop: make(chan struct{}), rest: gzipHeader,
	}
	g.wg.Go(g.cutBlocks)
	return g
}

// Read returns compressed bytes. An archive that is not the one that was meant is an error at the end.
func (g *gzipper) Read(p []byte) (int, error) {
	for len(g.rest) == 0 && g.err == nil {
		next, ok := <-g.blocks
		if !ok {
			g.err = io.EOF
			break
		}
		b := <-next
		g.rest, g.err = b.data, b.err
	}
	if len(g.rest) == 0 {
		return 0, g.err
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

// hasFailed reports whether the plain archive could not be read or is not the one that was meant. It must not be called while
// somebody reads.
func (g *gzipper) hasFailed() bool { return g.err != nil && !errors.Is(g.err, io.EOF) }

// Close ends the compression and closes the plain archive. It must not be called while somebody reads.
func (g *gzipper) Close() error {
	g.close.Do(func() { close(g.stop) })
	g.wg.Wait()
	return nil
}

// cutBlocks cuts the archive into blocks.
func (g *gzipper) cutBlocks() {
	defer close(g.blocks)
	defer g.plain.Close() //nolint:errcheck // it has been read and checked, or nobody wants it any more
	sum, check, size := g.want.Algorithm().Digester(), crc32.NewIEEE(), uint32(0)
	both := io.MultiWriter(sum.Hash(), check)
	for last := false; !last; {
		piece, _ := pieces.Get().([]byte)
		n, err := io.ReadFull(g.plain, piece)
		piece = piece[:n]
		_, _ = both.Write(piece) // hashes take everything
		size += uint32(n)        //nolint:gosec // the format counts modulo 2^32
		last = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && n < gzipBlock
		if last {
			err = nil
			if got := sum.Digest(); got != g.want {
				err = fmt.Errorf("the layer in the store is damaged: its digest is %s, not %s", got, g.want)
			}
		}
		if !g.dispatchBlock(piece, last,
			binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, check.Sum32()), size), err) {
			return
		}
	}
}

// dispatchBlock has a block compressed in its turn. It reports whether more are wanted.
func (g *gzipper) dispatchBlock(piece []byte, last bool, trailer []byte, err error) bool {
	next := make(chan block, 1)
	if err != nil {
		next <- block{err: err}
	}
	select {
	case g.blocks <- next:
	case <-g.stop:
		return false
	}
	if err != nil {
		return false
	}
	select {
	case g.slots <- struct{}{}:
	case <-g.stop:
		next <- block{err: io.ErrClosedPipe}
		return false
	}
	g.wg.Go(func() {
		defer func() { <-g.slots }()
		data, err := deflateBlock(piece, last)
		pieces.Put(piece[:gzipBlock]) //nolint:staticcheck // a slice's header is nothing beside the slice
		if last {
			data = append(data, trailer...)
		}
		next <- block{data, err}
	})
	return true
}

// What blocks need is kept: making it costs more than a small block.
var (
	deflaters = sync.Pool{New: func() any { return newDeflater() }}
	pieces    = sync.Pool{New: func() any { return make([]byte, gzipBlock) }}
)

func newDeflater() *flate.Writer {
	w, err := flate.NewWriter(io.Discard, gzipLevel)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}

// deflateBlock compresses a block so that the next one can follow it, or as the last one. Blocks know nothing of each other.
func deflateBlock(piece []byte, last bool) ([]byte, error) {
	w, _ := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	var out bytes.Buffer
	out.Grow(len(piece)/3 + 64)
	w.Reset(&out)
	_, err := w.Write(piece)
	if last {
		err = errors.Join(err, w.Close())
	} else {
		err = errors.Join(err, w.Flush())
	}
	return out.Bytes(), err
}
