package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"

	"moss/engine/fault"
	"moss/storage"
)

const (
	// maxTries is how often in a row a connection may be opened for a blob without minProgress bytes coming of it.
	maxTries    = 8
	minProgress = 64 << 10

	maxBackoff = 25 // times the first one
)

// blobReader reads a blob over as many connections as it takes. It is used by one goroutine.
type blobReader struct {
	s    *Source
	blob storage.Blob
	size int64 // bytes of the blob; -1 if unknown

	ctx     context.Context //nolint:containedctx // io.Reader has no other place for it; it is the one of Source.Blob
	door    *door           // that body came by; nil before the first
	body    io.ReadCloser   // nil: none is open
	offset  int64           // bytes delivered
	counted int64           // offset at which tries began to count
	tries   int
	closed  bool
}

func newBlobReader(ctx context.Context, s *Source, b storage.Blob) *blobReader {
	b.Size = max(b.Size, -1)
	return &blobReader{s: s, ctx: ctx, size: b.Size, blob: b}
}

// Read goes on with another connection when one breaks.
func (r *blobReader) Read(p []byte) (int, error) {
	if r.closed {
		return 0, errors.New("read of a closed blob")
	}
	for {
		if r.size >= 0 && r.offset >= r.size {
			return 0, io.EOF
		}
		if r.size >= 0 {
			p = p[:min(int64(len(p)), r.size-r.offset)]
		}
		n, err := r.body.Read(p)
		r.offset += int64(n)
		if err == nil || n > 0 {
			// An error that came with bytes comes again without.
			return n, nil
		}
		if errors.Is(err, io.EOF) {
			if r.size < 0 {
				return 0, io.EOF
			}
			err = errShort
		}
		if err := r.reopenBody(err); err != nil {
			return 0, err
		}
	}
}

// Close ends the connection.
func (r *blobReader) Close() error {
	r.closed = true
	r.closeBody()
	return nil
}

func (r *blobReader) closeBody() {
	if r.body != nil {
		_ = r.body.Close()
		r.body = nil
	}
}

// reopenBody gets a body that goes on at offset, after the one before ended by why; nil is the first time. Its error is
// final.
func (r *blobReader) reopenBody(why error) error {
	r.closeBody()
	for {
		if why != nil {
			if err := r.waitForRetry(why); err != nil {
				return err
			}
		}
		r.door = r.s.currentDoor()
		err := r.openBody()
		switch {
		case err == nil:
			return nil
		case r.ctx.Err() != nil:
			return r.ctx.Err()
		case isFinal(err) && !r.s.leaveDoor(r.door):
			return r.finalError(err)
		}
		why = err
	}
}

// isFinal reports whether another try at the same place cannot help.
func isFinal(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	return troubleOf(err).isPermanent() || errors.Is(err, http.ErrSchemeMismatch) || fault.KindOf(err) != fault.KindInternal
}

// waitForRetry counts a try that failed by why, and waits before the next.
func (r *blobReader) waitForRetry(why error) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.offset-r.counted >= minProgress {
		r.counted, r.tries = r.offset, 0
	}
	r.tries++
	if r.tries >= maxTries {
		if !r.s.leaveDoor(r.door) {
			return r.finalError(why)
		}
		r.tries = 1
	}
	wait := min(r.s.c.cfg.Backoff<<(r.tries-1), maxBackoff*r.s.c.cfg.Backoff)
	wait += rand.N(wait/8 + 1) // so that many layers do not come back at the same moment
	r.s.c.cfg.Log.Debug().Str("blob", r.blob.Digest.String()).Int64("offset", r.offset).Int("try", r.tries).
		Str("reason", printableText(why.Error())).Msg("transfer broke, goes on")
	return awaitDelay(r.ctx, wait)
}

// finalError words the error that ends the transfer.
func (r *blobReader) finalError(why error) error {
	if troubleOf(why).status == http.StatusNotFound {
		return fault.NotFound("blob %s of %s is not in the registry: blob unknown", r.blob.Digest, r.s.ref.FamiliarRepo())
	}
	err := r.door.pullError(r.s.ref, why, r.s.began)
	if r.offset > 0 || r.tries > 0 {
		return fmt.Errorf("blob %s, at byte %d: %w", r.blob.Digest, r.offset, err)
	}
	return fmt.Errorf("blob %s: %w", r.blob.Digest, err)
}

// openBody asks for the blob from offset on. A server that knows no ranges sends all of it: what was delivered is skipped.
func (r *blobReader) openBody() error {
	ranges := ""
	if r.offset > 0 {
		ranges = strconv.FormatInt(r.offset, 10) + "-"
	}
	res, err := r.s.getBlob(r.ctx, r.door, r.blob.Digest, ranges)
	if err != nil {
		return err
	}
	if err := r.acceptAnswer(res); err != nil {
		_ = res.Body.Close()
		return err
	}
	r.body = res.Body
	return nil
}

// acceptAnswer checks that an answer is what was asked for, and leads its body to offset.
func (r *blobReader) acceptAnswer(res *http.Response) error {
	size, at := res.ContentLength, int64(0)
	if res.StatusCode == http.StatusPartialContent {
		part, whole, ok := contentRange(res.Header)
		if !ok || part.Offset != uint64(r.offset) { //nolint:gosec // never negative
			return errors.New("the server sent another part than it was asked for")
		}
		size, at = whole, r.offset
	} else if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the registry answered %d to a request for content", res.StatusCode)
	}
	if r.size >= 0 && size >= 0 && size != r.size {
		return &answerError{trouble{
			status: http.StatusBadRequest, text: fmt.Sprintf("the registry has %d bytes where the manifest says %d", size, r.size),
		}}
	}
	if r.size < 0 {
		r.size = size
	}
	_, err := io.CopyN(io.Discard, res.Body, r.offset-at)
	if errors.Is(err, io.EOF) {
		err = errShort
	}
	return err
}
