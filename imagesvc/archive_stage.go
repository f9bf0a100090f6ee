package imagesvc

import (
	"context"
	"fmt"
	"hash"
	"io"
	"sync/atomic"

	"github.com/opencontainers/go-digest"

	"moss/engine/compress"
	"moss/engine/fault"
	"moss/storage"
)

// archiveLayer is a layer of an archive. Its fields but for the first are final when all stages have ended.
type archiveLayer struct {
	name    string
	blob    storage.Blob // Digest is the one that the name promises; empty if it promises none
	skipped bool         // it was not read: the store has it
	diffID  digest.Digest
	plain   int64           // bytes without compression
	staged  *storage.Staged // nil: skipped, broken or spent
	err     error           // what is wrong with it
}

// runStaging unpacks a layer that comes through p.
func (l *loader) runStaging(ctx context.Context, layer *archiveLayer, p *pipe) {
	defer p.closeReader()
	if err := l.stageLayer(ctx, layer, p); err != nil {
		layer.err = fmt.Errorf("layer %s: %w", layer.name, err)
		// A file that looks like a layer may belong to no image; everything else ends the load.
		if !fault.Is(err, fault.Invalid) || layer.blob.Digest == "" || p.isBroken() {
			l.cancel(layer.err)
		}
	}
}

func (l *loader) stageLayer(ctx context.Context, layer *archiveLayer, p *pipe) error {
	var src io.Reader = p
	var sum hash.Hash
	if layer.blob.Digest != "" {
		sum = layer.blob.Digest.Algorithm().Hash()
		src = io.TeeReader(p, sum)
	}
	in := compress.From(src)
	plain, err := compress.Plain(in)
	if err != nil {
		return err
	}
	defer plain.Close() //nolint:errcheck // it was read to its end, or an error is known
	c := &counter{src: l.limitRatio(plain)}
	staged, err := l.service.store.Stage(ctx, newChecker(c, l.service.limits, in.Count), layer.blob)
	if err != nil {
		return err
	}
	layer.staged, layer.diffID, layer.plain = staged, staged.DiffID(), c.n
	if _, err := io.Copy(io.Discard, in); err != nil { // what follows the compressed data
		return err
	}
	if sum != nil && digest.NewDigest(layer.blob.Digest.Algorithm(), sum) != layer.blob.Digest {
		return fault.Invalid("the content does not have the digest %s", layer.blob.Digest)
	}
	return nil
}

// counter counts what is read.
type counter struct {
	src io.Reader
	n   int64
}

// Read reads from the source.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.n += int64(n)
	return n, err
}

// ratio ends a stream that grows out of all proportion to what came in.
type ratio struct {
	src    io.Reader
	limits Limits
	read   func() int64
	out    *atomic.Int64
}

// newRatio bounds src by what read says came in.
func newRatio(src io.Reader, limits Limits, read func() int64) *ratio {
	return &ratio{src: src, limits: limits, read: read, out: new(atomic.Int64)}
}

// limitRatio bounds a layer: all layers of the archive together count against what came in of it.
func (l *loader) limitRatio(src io.Reader) io.Reader {
	return &ratio{src: src, limits: l.service.limits, read: l.in.Count, out: &l.unpacked}
}

// Read reads from the source.
func (r *ratio) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	if out := r.out.Add(int64(n)); out > r.limits.Free && out-r.limits.Free > r.limits.Ratio*r.read() {
		return 0, fault.Invalid("the archive unpacks to more than %d times its size", r.limits.Ratio)
	}
	return n, err
}
