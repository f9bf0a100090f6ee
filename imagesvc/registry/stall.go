package registry

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
)

// patience is how many times longer than in the middle of a transfer a registry may take for what it does with a blob or
// a manifest: it may have to copy what it got.
const patience = 5

var (
	errStalled = errors.New("the server sends nothing any more")
	errShort   = errors.New("the answer ended early")
)

// stallWatch ends the context of a request that makes no progress for too long.
type stallWatch struct {
	ctx    context.Context //nolint:containedctx // the request's; this is what ends it
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// newStallWatch starts the clock: the request has this long until its next step. The caller ends the watch.
func newStallWatch(ctx context.Context, limit time.Duration) *stallWatch {
	ctx, cancel := context.WithCancelCause(ctx)
	return &stallWatch{ctx: ctx, cancel: cancel, timer: time.AfterFunc(limit, func() { cancel(errStalled) })}
}

// restartClock gives the next step its time.
func (w *stallWatch) restartClock(limit time.Duration) { w.timer.Reset(limit) }

// pauseClock stops the clock while the server is not waited for.
func (w *stallWatch) pauseClock() { w.timer.Stop() }

// endRequest ends the request.
func (w *stallWatch) endRequest() {
	w.timer.Stop()
	w.cancel(nil)
}

// explainError turns the end that the watch put to a request into errStalled.
func (w *stallWatch) explainError(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(w.ctx), errStalled) {
		return errStalled
	}
	return err
}

// watchedBody is the body of an answer that has to come without long breaks. The time in which the caller does not read
// does not count.
type watchedBody struct {
	watch *stallWatch
	stall time.Duration
	body  io.ReadCloser
}

// Read returns errStalled when nothing came for too long.
func (b *watchedBody) Read(p []byte) (int, error) {
	b.watch.restartClock(b.stall)
	defer b.watch.pauseClock()
	n, err := b.body.Read(p)
	return n, b.watch.explainError(err)
}

// Close ends the request.
func (b *watchedBody) Close() error {
	b.watch.endRequest()
	return b.body.Close()
}

// upload is a blob on its way to a registry. One request sends it, once. The time in which the blob itself is waited for
// does not count as the server's.
type upload struct {
	size  int64 // in bytes; -1: unknown
	stall time.Duration

	mu       sync.Mutex // guards the fields below; held while from is read, so that stopReading waits for that
	from     io.Reader
	watch    *stallWatch // of the request; nil before it
	digester digest.Digester
	sent     int64
	err      error // of from: io.EOF when all of it was read
	stopped  bool
}

func newUpload(from io.Reader, size int64, algorithm digest.Algorithm, stall time.Duration) *upload {
	return &upload{from: from, size: max(size, -1), digester: algorithm.Digester(), stall: stall}
}

// watchWith names the watch of the request that sends the blob.
func (u *upload) watchWith(w *stallWatch) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.watch = w
}

// Read stops the clock while the blob is waited for.
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return 0, errors.New("read of an upload that has ended")
	}
	u.watch.pauseClock()
	n, err := u.from.Read(p)
	_, _ = u.digester.Hash().Write(p[:n])
	u.sent += int64(n)
	next := u.stall
	if err != nil {
		u.err, next = err, patience*u.stall
	}
	u.watch.restartClock(next)
	return n, err
}

// stopReading ends the reading of the blob: the HTTP client may still be at it when it has returned the answer. whole reports
// whether all of the blob was read. An error is that of the blob's reader.
func (u *upload) stopReading() (whole bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	if u.err == nil || errors.Is(u.err, io.EOF) {
		return u.err != nil, nil
	}
	return false, u.err
}
