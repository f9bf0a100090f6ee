package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"moss/engine/fault"
	"moss/storage"
)

// maxParts bounds the parts of one request, whose header servers have to take. What is more goes into the next.
const maxParts = 100

// blobRanges fetches parts of one blob.
type blobRanges struct {
	ctx  context.Context //nolint:containedctx // the interface has no other place for it; it is the one of Source.Ranges
	s    *Source
	blob storage.Blob
}

// Ranges returns what fetches parts of a blob, until ctx ends. A connection that breaks is an error there: what was
// fetched is not lost, and the rest can be asked for again.
func (s *Source) Ranges(ctx context.Context, b storage.Blob) storage.Ranges {
	return &blobRanges{ctx: ctx, s: s, blob: b}
}

// GetBlobAt asks for parts, sorted and apart; the length of the last may be math.MaxUint64, which is up to the end. Each
// has to be closed before the next comes. A server that knows no ranges is made up for by skipping.
// storage.ErrTooManyRanges and storage.ErrNotChunked say that the server takes no request with so many parts, or none.
func (r *blobRanges) GetBlobAt(parts []storage.Range) (chan io.ReadCloser, chan error, error) {
	if err := r.s.checkDigest(r.blob); err != nil {
		return nil, nil, err
	}
	if err := checkParts(parts); err != nil {
		return nil, nil, err
	}
	first, err := r.requestParts(parts[:min(len(parts), maxParts)]) //nolint:bodyclose // sendAll closes it
	if err != nil {
		return nil, nil, err
	}
	p := &partSender{streams: make(chan io.ReadCloser), errs: make(chan error, 1)}
	go func() {
		defer close(p.streams)
		defer close(p.errs)
		if err := p.sendAll(r, first, parts); err != nil {
			p.errs <- err
		}
	}()
	return p.streams, p.errs, nil
}

func checkParts(parts []storage.Range) error {
	if len(parts) == 0 {
		return fault.Invalid("no part of the blob is asked for")
	}
	end := uint64(0)
	for i, p := range parts {
		open := p.Length == math.MaxUint64 && i == len(parts)-1
		if p.Offset < end || p.Length == 0 || (!open && p.Offset+p.Length < p.Offset) {
			return fault.Invalid("part %d of the blob is empty, or begins before the end of the one before", i)
		}
		end = p.Offset + p.Length
	}
	return nil
}

// requestParts sends the request for some parts. The caller closes the answer's body.
func (r *blobRanges) requestParts(parts []storage.Range) (*http.Response, error) {
	words := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Length == math.MaxUint64 {
			words = append(words, fmt.Sprintf("%d-", p.Offset))
		} else {
			words = append(words, fmt.Sprintf("%d-%d", p.Offset, p.Offset+p.Length-1))
		}
	}
	for {
		d := r.s.currentDoor()
		res, err := r.s.getBlob(r.ctx, d, r.blob.Digest, strings.Join(words, ","))
		if err == nil {
			return res, nil
		}
		status := troubleOf(err).status
		switch {
		case status == http.StatusBadRequest, status == http.StatusRequestedRangeNotSatisfiable,
			status == http.StatusRequestHeaderFieldsTooLarge:
			if len(parts) > 1 {
				return nil, storage.ErrTooManyRanges
			}
			return nil, storage.ErrNotChunked
		case r.ctx.Err() != nil:
			return nil, r.ctx.Err()
		case !r.s.leaveDoor(d):
			return nil, fmt.Errorf("parts of blob %s: %w", r.blob.Digest, d.pullError(r.s.ref, err, r.s.began))
		}
	}
}

// partSender hands parts out, one after the other.
type partSender struct {
	streams chan io.ReadCloser
	errs    chan error
}

// sendAll hands out all parts, of which the first have been asked for.
func (p *partSender) sendAll(r *blobRanges, answer *http.Response, parts []storage.Range) error {
	for {
		n := min(len(parts), maxParts)
		done, err := p.sendAnswer(r, answer, parts, n)
		_ = answer.Body.Close()
		if parts = parts[done:]; err != nil || len(parts) == 0 {
			return err
		}
		if answer, err = r.requestParts(parts[:min(len(parts), maxParts)]); err != nil {
			return err
		}
	}
}

// sendAnswer hands out the parts of one answer, of which n were asked for, and tells how many that were: all there are if
// the server sends the whole blob.
func (p *partSender) sendAnswer(r *blobRanges, answer *http.Response, parts []storage.Range, n int) (done int, err error) {
	if answer.StatusCode == http.StatusOK {
		return len(parts), p.sendWhole(r.ctx, answer.Body, parts)
	}
	kind, params, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		kind = ""
	}
	if !strings.HasPrefix(kind, "multipart/") {
		if err := sameRange(answer.Header, parts[0]); err != nil {
			return 0, err
		}
		return 1, p.sendPart(r.ctx, answer.Body, parts[0])
	}
	boundary := params["boundary"]
	if boundary == "" {
		// CloudFront sends one with a colon and without quotes, which is no parameter.
		_, boundary, _ = strings.Cut(answer.Header.Get("Content-Type"), "boundary=")
	}
	mr := multipart.NewReader(answer.Body, boundary)
	for i := range n {
		part, err := mr.NextRawPart()
		if err != nil {
			return i, fmt.Errorf("part %d of %d of the blob: %w", i+1, n, noEOF(err))
		}
		if err := sameRange(http.Header(part.Header), parts[i]); err != nil {
			return i, err
		}
		if err := p.sendPart(r.ctx, part, parts[i]); err != nil {
			return i, err
		}
	}
	return n, nil
}

// sendWhole hands out parts of a body that has the whole blob.
func (p *partSender) sendWhole(ctx context.Context, body io.Reader, parts []storage.Range) error {
	at := uint64(0)
	for _, part := range parts {
		if _, err := io.CopyN(io.Discard, body, int64(part.Offset-at)); err != nil { //nolint:gosec // checked to be sorted, and no blob is that large
			return noEOF(err)
		}
		if err := p.sendPart(ctx, body, part); err != nil {
			return err
		}
		at = part.Offset + part.Length
	}
	return nil
}

// sendPart hands out one part and waits until it is closed. The part's own errors are the reader's to see.
func (p *partSender) sendPart(ctx context.Context, body io.Reader, part storage.Range) error {
	out := &onePart{left: part.Length, body: body, closed: make(chan struct{})}
	select {
	case p.streams <- out:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-out.closed:
	case <-ctx.Done():
		return ctx.Err()
	}
	if out.left > 0 && out.left != math.MaxUint64 {
		if _, err := io.CopyN(io.Discard, body, int64(out.left)); err != nil { //nolint:gosec // no part is that large
			return noEOF(err)
		}
	}
	return nil
}

// onePart is a part that is being read. A body that ends before it does is an error.
type onePart struct {
	body   io.Reader
	left   uint64 // bytes; math.MaxUint64: up to the end of the body
	once   sync.Once
	closed chan struct{}
}

func (o *onePart) Read(b []byte) (int, error) {
	if o.left == 0 {
		return 0, io.EOF
	}
	if uint64(len(b)) > o.left {
		b = b[:o.left]
	}
	n, err := o.body.Read(b)
	if o.left == math.MaxUint64 {
		return n, err
	}
	o.left -= uint64(n) //nolint:gosec // never negative
	if o.left == 0 {
		return n, nil
	}
	return n, noEOF(err)
}

func (o *onePart) Close() error {
	o.once.Do(func() { close(o.closed) })
	return nil
}

// noEOF makes an end that comes too early an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return errShort
	}
	return err
}

// sameRange checks that a part is the one that was asked for.
func sameRange(h http.Header, want storage.Range) error {
	got, _, ok := contentRange(h)
	if !ok || got.Offset != want.Offset || (want.Length != math.MaxUint64 && got.Length != want.Length) {
		return fmt.Errorf("the server sent another part (%s) than it was asked for", printableText(h.Get("Content-Range")))
	}
	return nil
}

// contentRange reads Content-Range (RFC 9110, 14.4): bytes 0-9/100. whole is -1 if it is not told.
func contentRange(h http.Header) (part storage.Range, whole int64, ok bool) {
	text, ok := strings.CutPrefix(h.Get("Content-Range"), "bytes ")
	span, total, ok2 := strings.Cut(text, "/")
	from, to, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return part, 0, false
	}
	first, err1 := strconv.ParseUint(from, 10, 63)
	last, err2 := strconv.ParseUint(to, 10, 63)
	whole = -1
	var err3 error
	if total != "*" {
		whole, err3 = strconv.ParseInt(total, 10, 64)
	}
	if err1 != nil || err2 != nil || err3 != nil || last < first || (total != "*" && whole <= int64(last)) { //nolint:gosec // 63 bits
		return part, 0, false
	}
	return storage.Range{Offset: first, Length: last - first + 1}, whole, true
}

// mediaTypeOf reads Content-Type without its parameters; empty if there is none.
func mediaTypeOf(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}
