package main

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"io"
	"slices"
	"strconv"
	"time"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
)

// How soon a call is made again that the end of an engine has cut off: at first, and at most; a call that goes wrong at once
// seven times is not made again. The next engine is asked over the same socket, in whose queue the call waits; the pause is
// for a socket that is closed just now.
const (
	resumePause    = 10 * time.Millisecond
	resumePauseMax = time.Second
)

// isLost reports whether the end of the engine has cut off a call.
func isLost(err error) bool {
	_, ok := errors.AsType[*client.LostError](err)
	return ok
}

// goOn calls do again whenever the end of the engine has cut it off, unless that happens again and again. An engine that was
// stopped is not started for it.
func (a *app) goOn(ctx context.Context, do func() error) error {
	var lost error
	for pause := resumePause; ; pause *= 2 {
		began := time.Now()
		err := do()
		if time.Since(began) > resumePauseMax {
			pause = resumePause
		}
		if _, gone := errors.AsType[*client.ConnectError](err); gone && lost != nil {
			return lost // there is no next engine
		}
		lost = err
		if !isLost(err) || ctx.Err() != nil || pause > resumePauseMax {
			return err
		}
		if a.starter != nil {
			a.starter.Stay()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitEnd waits for the next end of a container and returns its exit code. lost, if not nil, runs when the end of the
// engine cuts the wait off, which then goes on with the next one: an end that has come meanwhile is among its events.
func (a *app) awaitEnd(ctx context.Context, ref string, lost func()) (code int, err error) {
	since, again := time.Now(), false
	err = a.goOn(ctx, func() error {
		var found bool
		if again {
			if code, found, err = a.endSince(ctx, ref, since); found || err != nil {
				return err
			}
		}
		code, err = a.engine.ContainerWait(ctx, ref)
		if again && client.StatusOf(err) == statusNotFound {
			if missed, found, failed := a.endSince(ctx, ref, since); found && failed == nil {
				code, err = missed, nil // it was removed with its end
			}
		}
		if isLost(err) && !again {
			again = true
			if lost != nil {
				lost()
			}
		}
		return err
	})
	return code, err
}

// endSince looks for the first end of a container since a time.
func (a *app) endSince(ctx context.Context, ref string, since time.Time) (code int, found bool, err error) {
	err = a.engine.Events(ctx, client.EventsOptions{
		Since: arg.Seconds(since), Until: arg.Seconds(time.Now()),
		Filters: map[string][]string{"container": {ref}, "event": {"die"}},
	}, func(event types.Event, _ json.RawMessage) error {
		if number, failed := strconv.Atoi(event.Actor.Attributes["exitCode"]); failed == nil && !found {
			code, found = number, true
		}
		return nil
	})
	return code, found, err
}

// goOnEvents calls each for every event once, and goes on with the next engine's where the end of one cuts them off.
func (a *app) goOnEvents(
	ctx context.Context, engine *client.Client, opts client.EventsOptions, each func(types.Event, json.RawMessage) error,
) error {
	began, last := time.Now(), int64(0)
	var shown []string // of the time last
	first := opts.Since
	return a.goOn(ctx, func() error {
		err := engine.Events(ctx, opts, func(event types.Event, raw json.RawMessage) error {
			if event.TimeNano < last || event.TimeNano == last && slices.Contains(shown, string(raw)) {
				return nil
			}
			if event.TimeNano > last {
				last, shown = event.TimeNano, nil
			}
			shown = append(shown, string(raw))
			return each(event, raw)
		})
		switch {
		case last > 0:
			opts.Since = arg.Seconds(time.Unix(0, last))
		case first == "":
			opts.Since = arg.Seconds(began)
		}
		return err
	})
}

// errGap says that a log does not hold what was shown of it before.
var errGap = errors.New("the engine ended, and the log no longer holds what comes next; output is missing here")

// resumable passes a stream on. After rewindStream it is given the stream from its beginning, and leaves out what it has passed.
type resumable struct {
	out   io.Writer
	shown int64
	sum   maphash.Hash // of what was shown

	again int64        // bytes that are still to be left out
	past  maphash.Hash // of those that were
}

func newResumable(out io.Writer) *resumable {
	r := &resumable{out: out}
	r.past.SetSeed(r.sum.Seed())
	return r
}

func (r *resumable) rewindStream() {
	r.again = r.shown
	r.past.Reset()
}

// Write passes on what was not passed on before. It returns errGap if the stream is another one.
func (r *resumable) Write(p []byte) (int, error) {
	known := int(min(r.again, int64(len(p))))
	if known > 0 {
		_, _ = r.past.Write(p[:known]) // it never fails
		r.again -= int64(known)
		if r.again == 0 && r.past.Sum64() != r.sum.Sum64() {
			return 0, errGap
		}
	}
	n, err := r.out.Write(p[known:])
	_, _ = r.sum.Write(p[known : known+n])
	r.shown += int64(n)
	return known + n, err
}

// followed is a log, or the output that is in it, which goes on where the end of an engine has cut it off.
type followed struct {
	stdout, stderr *resumable
	tty            bool
}

func newFollowed(stdout, stderr io.Writer, tty bool) *followed {
	return &followed{stdout: newResumable(stdout), stderr: newResumable(stderr), tty: tty}
}

// copyStream shows a stream.
func (f *followed) copyStream(stream io.Reader) error {
	var err error
	if f.tty {
		err = client.Copy(f.stdout, stream)
	} else {
		err = client.Demux(f.stdout, f.stderr, stream)
	}
	if errors.Is(err, errGap) {
		return errGap
	}
	return err
}

// resumeLog shows a log that begins where the stream has begun that was cut off.
func (f *followed) resumeLog(log io.Reader) error {
	f.stdout.rewindStream()
	f.stderr.rewindStream()
	err := f.copyStream(log)
	if err == nil && f.stdout.again+f.stderr.again > 0 {
		return errGap
	}
	return err
}
