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
	"time"

	"moss/engine/fault"
	"moss/storage"
)

const (
	// maxTries is how often in a row a connection may be opened for a blob without minProgress bytes coming of it.
	maxTries    = 8
	minProgress = 64 << 10

	maxBackoff = 25 // times the first one
)

var (
	errStalled = errors.New("the server sends nothing any more")
	errShort   = errors.New("the answer ended early")
)

// blobReader reads a blob over as many connections as it takes. It is used by one goroutine.
type blobReader struct {
	s    *Source
	blob storage.Blob
	size int64 // bytes of the blob; -1 if unknown

	ctx     context.Context //nolint:containedctx // io.Reader has no other place for it; it is the one of Source.Blob
	door    *door           // that body came by; nil before the first
	body    *watchedBody    // nil: none is open
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
		r.body.Close()
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
	return sleep(r.ctx, wait)
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
	body := newWatchedBody(r.ctx, r.s.c.cfg.Stall)
	ranges := ""
	if r.offset > 0 {
		ranges = strconv.FormatInt(r.offset, 10) + "-"
	}
	res, err := r.s.getBlob(body.ctx, r.door, r.blob.Digest, ranges) //nolint:bodyclose // body closes it
	if err != nil {
		return body.abortRequest(err)
	}
	body.watchBody(res)
	if err := r.acceptAnswer(res, body); err != nil {
		body.Close()
		return err
	}
	r.body = body
	return nil
}

// acceptAnswer checks that an answer is what was asked for, and leads body to offset.
func (r *blobReader) acceptAnswer(res *http.Response, body *watchedBody) error {
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
	_, err := io.CopyN(io.Discard, body, r.offset-at)
	if errors.Is(err, io.EOF) {
		err = errShort
	}
	return err
}

// watchedBody is the body of an answer that has to come without long breaks. The time in which nobody reads does not
// count.
type watchedBody struct {
	ctx    context.Context //nolint:containedctx // the request's; this is what ends it
	cancel context.CancelFunc
	stall  time.Duration
	timer  *time.Timer
	body   io.ReadCloser
}

// newWatchedBody begins to watch a request that is going to be sent with its ctx.
func newWatchedBody(ctx context.Context, stall time.Duration) *watchedBody {
	ctx, cancel := context.WithCancel(ctx)
	return &watchedBody{ctx: ctx, cancel: cancel, stall: stall, timer: time.AfterFunc(stall, cancel)}
}

// watchBody goes over to watching the body.
func (b *watchedBody) watchBody(res *http.Response) {
	b.timer.Stop()
	b.body = res.Body
}

// abortRequest gives up the request, which brought an error.
func (b *watchedBody) abortRequest(err error) error {
	if !b.timer.Stop() {
		err = errStalled
	}
	b.cancel()
	return err
}

// Read is errStalled when nothing came for too long.
func (b *watchedBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.stall)
	n, err := b.body.Read(p)
	if !b.timer.Stop() && err != nil && !errors.Is(err, io.EOF) {
		err = errStalled
	}
	return n, err
}

// Close ends the request.
func (b *watchedBody) Close() {
	b.timer.Stop()
	b.cancel()
	_ = b.body.Close()
}
