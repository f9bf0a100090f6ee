package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"moss/api/client"
)

// nextPause is the time between two calls while the engine is being stopped.
const nextPause = 50 * time.Millisecond

// withNext calls do, and again while the engine refuses it because it is being stopped, until the next engine has served it. An
// engine at the default socket is started for that once the other has ended; elsewhere the first error counts if none comes.
func (a *app) withNext(ctx context.Context, do func() error) error {
	var ending error
	for {
		err := do()
		_, gone := errors.AsType[*client.ConnectError](err)
		switch {
		case isEnding(err):
			ending = err
		case ending != nil && isLost(err): // its last connections end
		case ending != nil && gone && (a.starter == nil || a.starter.Place.RunDir == ""):
			return ending
		default:
			return err
		}
		select {
		case <-time.After(nextPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isEnding reports whether the engine has refused a call because it is being stopped.
func isEnding(err error) bool {
	return client.StatusOf(err) == statusUnavailable &&
		(strings.Contains(err.Error(), "the engine is shutting down") || strings.Contains(err.Error(), "the engine is ending"))
}
