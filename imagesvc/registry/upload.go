package registry

import (
	"context"
	"errors"
	"io"
	"time"
)

// watchedReader gives a blob to the library and ends the upload when that takes nothing more for too long, for then the
// server does not. The time in which the blob itself is waited for does not count.
type watchedReader struct {
	ctx    context.Context //nolint:containedctx // the upload's; this is what ends it
	cancel context.CancelFunc
	from   io.Reader
	stall  time.Duration
	timer  *time.Timer
}

func newWatchedReader(ctx context.Context, from io.Reader, stall time.Duration) *watchedReader {
	ctx, cancel := context.WithCancel(ctx)
	// Before the first byte the library asks, and waits where there are too many requests.
	return &watchedReader{ctx: ctx, cancel: cancel, from: from, stall: stall, timer: time.AfterFunc(patience*stall, cancel)}
}

// Read stops the clock while the blob is waited for.
func (w *watchedReader) Read(p []byte) (int, error) {
	w.timer.Stop()
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.from.Read(p)
	next := w.stall
	if errors.Is(err, io.EOF) {
		next *= patience
	}
	w.timer.Reset(next)
	return n, err
}

// explainError turns the end that the watch put to an upload into errStalled.
func (w *watchedReader) explainError(caller context.Context, err error) error {
	if w.ctx.Err() != nil && caller.Err() == nil {
		return errStalled
	}
	return err
}

func (w *watchedReader) stop() {
	w.timer.Stop()
	w.cancel()
}
