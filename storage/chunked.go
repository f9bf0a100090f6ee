package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	graphdriver "go.podman.io/storage/drivers"
	"go.podman.io/storage/pkg/archive"
	"go.podman.io/storage/pkg/chunked"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// Range is a part of a blob, in bytes.
type Range struct{ Offset, Length uint64 }

// Ranges fetches parts of one blob. Each part comes as a reader of its own, in order, which the caller closes; then both
// channels are closed. An error ends it. An error that is ErrTooManyRanges is answered by a call with fewer parts.
type Ranges interface {
	GetBlobAt(parts []Range) (chan io.ReadCloser, chan error, error)
}

// ErrNotChunked says that a blob cannot be fetched in parts: fetch the whole of it.
var ErrNotChunked = fault.Unsupported("the layer cannot be fetched in parts")

// ErrTooManyRanges says that a registry refuses a request for so many parts.
var ErrTooManyRanges = fault.Unsupported("the registry refuses a request for so many parts")

// chunkedManifest is where the library keeps a layer's table of contents.
const chunkedManifest = "zstd-chunked-manifest"

// StageChunked unpacks a zstd:chunked layer and fetches the parts only that no layer of the store has already: layers that
// came this way are known file by file. blob's annotations lead to the table of contents.
//
// On an error nothing is left. ErrNotChunked, which has the reason in its chain, says that the layer is to be fetched whole.
// Errors of from and of ctx come back as they are; others are internal.
func (g *staging) StageChunked(ctx context.Context, blob Blob, from Ranges) (*Staged, error) {
	if err := blob.Digest.Validate(); err != nil {
		return nil, fault.Invalid("digest of a layer: %w", err)
	}
	src := &rangeSource{ctx: ctx, from: from, quit: make(chan struct{}), contents: &bytes.Buffer{}}
	defer close(src.quit)
	differ, err := chunked.NewDiffer(ctx, g.cs, blob.Digest, blob.Size, blob.Annotations, src)
	if err != nil {
		return nil, src.causeOf(err)
	}
	defer differ.Close() //nolint:errcheck // what it holds was taken over, or is of no use
	if err := checkContents(src.contents.Bytes()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotChunked, err)
	}
	src.contents = nil
	unpack := &chunkedUnpacker{Differ: differ}
	out, err := g.cs.PrepareStagedLayer(nil, unpack)
	if err == nil && out.UncompressedDigest == "" {
		err = errors.New("the digest of the plain archive is unknown")
	}
	if err != nil {
		if out != nil {
			err = errors.Join(err, g.dropStaging(out))
		}
		return nil, src.causeOf(err)
	}
	out.CompressedDigest = blob.Digest
	return &Staged{
		store: g, diffID: out.UncompressedDigest, size: unpack.size, plain: out.Size, blob: blob, out: out,
	}, nil
}

// chunkedUnpacker finishes what the library's differ leaves out.
type chunkedUnpacker struct {
	graphdriver.Differ
	size int64 // bytes of the files
}

// ApplyDiff unpacks the layer into dest.
func (u *chunkedUnpacker) ApplyDiff(dest string, options *archive.TarOptions,
	differ *graphdriver.DifferOptions,
) (graphdriver.DriverWithDifferOutput, error) {
	options.InUserNS = true
	out, err := u.Differ.ApplyDiff(dest, options, differ)
	if err != nil {
		return out, err
	}
	var contents struct {
		Entries []struct {
			Type string `json:"type"`
			Size int64  `json:"size"`
		} `json:"entries"`
	}
	if err := json.Unmarshal(out.BigData[chunkedManifest], &contents); err != nil {
		return out, fmt.Errorf("table of contents: %w", err)
	}
	for _, entry := range contents.Entries {
		switch entry.Type {
		case "reg":
			u.size += entry.Size
		case "fifo":
			return out, errors.New("it has a named pipe, which this way leaves out")
		}
	}
	if out.RootDirMode == nil {
		err = os.Chmod(dest, 0o755)
	}
	return out, err
}

// rangeSource hands a blob's parts to the library, and keeps what went wrong with them.
type rangeSource struct {
	ctx  context.Context //nolint:containedctx // the library's interface has no other way to take one
	from Ranges
	quit chan struct{} // closed when nobody reads any more

	contents *bytes.Buffer // the first part that is fetched, as it is read: the table of contents; nil: it was looked at
	began    bool          // that part was asked for

	mu  sync.Mutex // guards err
	err error      // the first of from or ctx
}

// noteError keeps an error of the source.
func (r *rangeSource) noteError(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	return err
}

// causeOf returns the error that a failure of the library is due to.
func (r *rangeSource) causeOf(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return r.err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return wrapError(err, "unpack layer")
	default:
		return fmt.Errorf("%w: %w", ErrNotChunked, err)
	}
}

// GetBlobAt asks for parts of the blob.
func (r *rangeSource) GetBlobAt(chunks []chunked.ImageSourceChunk) (chan io.ReadCloser, chan error, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, nil, r.noteError(fmt.Errorf("fetch layer: %w", err))
	}
	parts := make([]Range, len(chunks))
	for i, c := range chunks {
		parts[i] = Range{Offset: c.Offset, Length: c.Length}
	}
	streams, errs, err := r.from.GetBlobAt(parts)
	if errors.Is(err, ErrTooManyRanges) && len(parts) > 1 {
		return nil, nil, chunked.ErrBadRequest{}
	}
	if errors.Is(err, ErrNotChunked) || errors.Is(err, ErrTooManyRanges) {
		return nil, nil, err // the registry knows no ranges: the whole blob is the way
	}
	if err != nil {
		return nil, nil, r.noteError(err)
	}
	out, fails := make(chan io.ReadCloser), make(chan error)
	var keep *bytes.Buffer
	if !r.began {
		keep, r.began = r.contents, true
	}
	go r.passParts(streams, errs, out, fails, keep)
	return out, fails, nil
}

// passParts hands the parts on until nobody wants them any more, and keeps what is read of the first one. It ends with the
// source's channels.
func (r *rangeSource) passParts(streams chan io.ReadCloser, errs chan error, out chan io.ReadCloser, fails chan error,
	keep *bytes.Buffer,
) {
	defer close(out)
	defer close(fails)
	for streams != nil || errs != nil {
		select {
		case part, ok := <-streams:
			if !ok {
				streams = nil
				continue
			}
			select {
			case out <- &rangePart{ReadCloser: part, src: r, keep: keep}:
				keep = nil
			case <-r.quit:
				part.Close() //nolint:errcheck // nobody wants it
			}
		case err, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			select {
			case fails <- r.noteError(err):
			case <-r.quit:
			}
		}
	}
}

// rangePart is one part of the blob.
type rangePart struct {
	io.ReadCloser
	src  *rangeSource
	keep *bytes.Buffer // of what is read; may be nil
}

// Read returns the next bytes of the part, or the error of the source or of ctx.
func (p *rangePart) Read(buf []byte) (int, error) {
	if err := p.src.ctx.Err(); err != nil {
		return 0, p.src.noteError(fmt.Errorf("fetch layer: %w", err))
	}
	n, err := p.ReadCloser.Read(buf)
	if p.keep != nil {
		p.keep.Write(buf[:n])
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, p.src.noteError(err)
	}
	return n, err
}
