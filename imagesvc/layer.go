package imagesvc

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync/atomic"

	"github.com/opencontainers/go-digest"

	"moss/engine/compress"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/storage"
)

// source is one image in a registry, as registry.Source gives it.
type source interface {
	manifestSource
	Blob(ctx context.Context, b storage.Blob) (body io.ReadCloser, size int64, err error)
	Ranges(ctx context.Context, b storage.Blob) storage.Ranges
	Close() error
}

// lease counts who uses a source: the pull that opened it, and the flights it started, which may outlive it.
type lease struct {
	source

	users atomic.Int32
}

func newLease(src source) *lease {
	l := &lease{source: src}
	l.users.Store(1)
	return l
}

// addUser keeps the lease for one user more, who releases it as well.
func (l *lease) addUser() { l.users.Add(1) }

// release closes the source when nobody uses it any more.
func (l *lease) release() {
	if l.users.Add(-1) == 0 {
		_ = l.Close() // Everything that was read has been verified.
	}
}

// fetchLayer brings one layer to the store's disk and moves the meter on. What comes back has the layer's diff id and
// came from bytes of the layer's digest and size; after an error nothing is left.
func (s *Transfers) fetchLayer(ctx context.Context, src source, d descriptor, diffID digest.Digest,
	m *meter,
) (*storage.Staged, error) {
	m.reachPhase(phaseDownloading)
	staged, err := s.stageLayer(ctx, src, d, diffID, m)
	if err == nil && staged.DiffID() != diffID {
		err = fmt.Errorf("its content has the diff id %s, and the image's config says %s", staged.DiffID(), diffID)
		err = errors.Join(err, staged.Discard())
	}
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", id.Short(d.Digest.Encoded()), err)
	}
	m.bytes.Store(d.Size)
	m.reachPhase(phaseStaged)
	return staged, nil
}

// stageLayer takes the cheapest way: from a layer with the same content, from parts, or as a whole.
func (s *Transfers) stageLayer(ctx context.Context, src source, d descriptor, diffID digest.Digest,
	m *meter,
) (*storage.Staged, error) {
	staged, err := s.store.StageTwin(ctx, diffID)
	if staged != nil || err != nil && !fault.Is(err, fault.NotFound) { // not found: it was removed just now
		return staged, err
	}
	blob := d.toBlob()
	if len(blob.Annotations) > 0 {
		staged, err = s.stageChunked(ctx, src, blob, diffID, m)
		if staged != nil || err != nil {
			return staged, err
		}
	}
	body, size, err := src.Blob(ctx, blob)
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // it was read to its end, or an error is known
	if size >= 0 && size != d.Size {
		return nil, fmt.Errorf("the registry has %d bytes of it, and the manifest says %d", size, d.Size)
	}
	return s.unpackBlob(ctx, newVerifier(body, d, m), blob)
}

// stageChunked fetches the parts of a layer that are not here; nil if it must be fetched whole. That is so too if its table
// of contents leads nowhere, or to something else than its archive, as some that older tools wrote do. Errors are ctx's.
func (s *Transfers) stageChunked(ctx context.Context, src source, blob storage.Blob, diffID digest.Digest,
	m *meter,
) (*storage.Staged, error) {
	staged, err := s.store.StageChunked(ctx, blob, countedRanges{src.Ranges(ctx, blob), &m.bytes})
	if err == nil && staged.DiffID() == diffID {
		return staged, nil
	}
	m.bytes.Store(0)
	if err == nil {
		return nil, staged.Discard()
	}
	return nil, ctx.Err() // whatever stood in the way stands in the way of the whole as well, or does not matter
}

// unpackBlob stages a blob as it comes in.
func (s *Transfers) unpackBlob(ctx context.Context, in *verifier, blob storage.Blob) (*storage.Staged, error) {
	counted := compress.From(in)
	plain, err := compress.Plain(counted)
	if err != nil {
		return nil, in.ownErrorOr(err)
	}
	staged, err := s.store.Stage(ctx, newChecker(plain, s.limits, counted.Count), blob)
	if cerr := plain.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		// What stands behind the archive's end belongs to the blob and its digest.
		_, err = io.Copy(io.Discard, in)
	}
	if err == nil {
		return staged, nil
	}
	if staged != nil {
		err = errors.Join(err, staged.Discard())
	}
	return nil, in.ownErrorOr(err)
}

// verifier passes a blob on and ends with io.EOF only if it had the right size and digest. It reads one byte more than
// the blob should have and no further.
type verifier struct {
	src   io.Reader
	want  descriptor
	hash  hash.Hash
	meter *meter
	n     int64
	err   error
}

func newVerifier(src io.Reader, want descriptor, m *meter) *verifier {
	return &verifier{src: src, want: want, hash: want.Digest.Algorithm().Hash(), meter: m}
}

// Read reads from the blob.
func (v *verifier) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	if rest := v.want.Size - v.n + 1; int64(len(p)) > rest {
		p = p[:rest]
	}
	n, err := v.src.Read(p)
	v.n += int64(n)
	if v.n > v.want.Size {
		v.err = wrongSize(v.want, v.n)
		return 0, v.err
	}
	_, _ = v.hash.Write(p[:n]) // Hashes return no errors.
	v.meter.bytes.Store(v.n)
	switch {
	case errors.Is(err, io.EOF):
		v.err = v.verifyWhole()
	case err != nil:
		v.err = err
	}
	return n, v.err
}

// verifyWhole checks the size and the digest of all that was read.
func (v *verifier) verifyWhole() error {
	v.meter.reachPhase(phaseVerifying)
	if v.n != v.want.Size {
		return wrongSize(v.want, v.n)
	}
	if hex.EncodeToString(v.hash.Sum(nil)) != v.want.Digest.Encoded() {
		return wrongDigest(v.want)
	}
	v.meter.reachPhase(phaseDownloaded)
	v.meter.reachPhase(phaseExtracting)
	return io.EOF
}

// ownErrorOr returns the verifier's own error when it has one: what others said of the content is a consequence of it. To
// know, it reads the rest of a blob that others found broken.
func (v *verifier) ownErrorOr(err error) error {
	if fault.Is(err, fault.Invalid) {
		_, _ = io.Copy(io.Discard, v)
	}
	if v.err != nil && !errors.Is(v.err, io.EOF) {
		return v.err
	}
	return err
}

// countedRanges adds up what is asked for.
type countedRanges struct {
	storage.Ranges

	bytes *atomic.Int64
}

// GetBlobAt fetches parts.
func (c countedRanges) GetBlobAt(parts []storage.Range) (chan io.ReadCloser, chan error, error) {
	for _, part := range parts {
		c.bytes.Add(int64(part.Length & (maxBlob - 1))) //nolint:gosec // masked
	}
	return c.Ranges.GetBlobAt(parts)
}
