package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How long one thing may take before it counts as failed.
const (
	callLimit     = 30 * time.Second // a call that moves little
	transferLimit = 3 * time.Minute  // a call that moves an image, an archive or a log, or builds
	quickLimit    = 2 * time.Minute  // one sample of a metric that takes milliseconds, and its clearing up
	heavyLimit    = 5 * time.Minute  // one sample of a metric that takes seconds
	setupLimit    = 5 * time.Minute  // images and their registry; an engine's start with its first containers
	pipeLimit     = 2 * time.Second  // a program's output after its end: what it leaves running may hold the pipe
)

// noAnswer is the error of work that ran into its deadline.
type noAnswer struct {
	limit time.Duration
	to    string // the call
}

// Error names the limit first: it is what the table shows.
func (e noAnswer) Error() string { return e.brief() + " to " + e.to }

func (e noAnswer) brief() string { return fmt.Sprintf("no answer within %g s", e.limit.Seconds()) }

// withLimit does work that may not take longer than limit. An error that comes of that is a noAnswer.
func withLimit(ctx context.Context, limit time.Duration, to string, work func(context.Context) error) error {
	late := noAnswer{limit: limit, to: to}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	err := work(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, late) {
		return cause
	}
	return err
}
