package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"moss/api/client"
)

// logPlace is where a container's log begins to have the output that a session shows.
type logPlace struct {
	driver string // of the log; empty: the engine's default
	since  string // Unix seconds; empty: the beginning
}

// cut is the error of a session that the end of the engine has cut off and that cannot go on without a gap.
type cut struct{ what string }

func (c *cut) Error() string { return c.what }

func isCut(err error) bool {
	_, ok := errors.AsType[*cut](err)
	return ok
}

// goOnWithLog shows the rest of the output from the container's log if the stream has ended because the engine has. It
// returns a *cut if nobody knows whether something is missing.
func (s *session) goOnWithLog(ctx context.Context) error {
	select {
	case <-s.lost:
	case <-s.waited:
		select {
		case <-s.lost:
		default:
			return nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	hint := fmt.Sprintf("the container goes on, see 'moss logs %.12s'", s.id)
	switch {
	case s.stdin && !s.allSent.Load():
		return &cut{"the engine ended, and input on its way to the container may be lost; the container goes on, see 'moss attach " +
			shortenID(s.id, false) + "'"}
	case !s.stdout && !s.stderr:
		return nil
	case s.log == nil:
		return &cut{"the engine ended, and output may be missing from here on; " + hint}
	case s.log.driver == "none":
		return &cut{"the engine ended, and there is no log to take the rest of the output from; the container goes on"}
	}
	err := s.app.goOn(ctx, func() error {
		log, err := s.engine.ContainerLogs(ctx, s.id, client.LogsOptions{
			Stdout: s.stdout, Stderr: s.stderr, Follow: true, Since: s.log.since, Tail: "all",
		})
		if err != nil {
			return err
		}
		defer func() { _ = log.Close() }()
		return s.shown.resumeLog(log)
	})
	if errors.Is(err, errGap) {
		return &cut{err.Error()}
	}
	if _, gone := errors.AsType[*client.ConnectError](err); gone {
		return &client.LostError{Err: io.EOF} // there is no next engine
	}
	return err
}

// removeAtEnd tells why a session has ended before its container, which goes with its end, and removes it then.
func (a *app) removeAtEnd(ctx context.Context, id string, why error) {
	a.printError(fmt.Errorf("%w; it is removed when it ends, for which this command waits", why))
	if _, err := a.awaitEnd(ctx, id, nil); err != nil {
		a.printError(err)
		return
	}
	if err := a.engine.ContainerRemove(ctx, id, client.RemoveOptions{Volumes: true}); !isGone(err) {
		a.printError(fmt.Errorf("remove container: %w", err))
	}
}
