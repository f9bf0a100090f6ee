package client

import (
	"context"
	"errors"
	"testing"
	"time"
)

// overdue is a context whose deadline has passed and which ends just after it was asked whether it has.
type overdue struct {
	context.Context //nolint:containedctx // it is one

	end func()
}

func (overdue) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }

func (o overdue) Err() error {
	defer o.end()
	return o.Context.Err()
}

// TestDialAtTheDeadline: what counts is why the context ends, also when the dialer has seen the deadline first.
func TestDialAtTheDeadline(t *testing.T) {
	silence := silenceError(time.Second)
	ctx, cancel := context.WithCancelCause(t.Context())
	shim := &transport{dir: t.TempDir()}
	if _, err := shim.dialOnce(overdue{ctx, func() { cancel(silence) }}); !errors.Is(err, silence) {
		t.Errorf("dialing at the deadline = %v, want %v", err, silence)
	}
}
