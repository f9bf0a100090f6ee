package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"moss/api/client"
	"moss/cmd/moss/progress"
	"moss/cmd/moss/tty"
)

// follower shows the messages of one operation. Close ends it.
type follower interface {
	Show(message client.Progress) error
	Close() error
}

// newProgress returns what shows messages, in the way that suits the output.
func (a *app) newProgress(out io.Writer) follower {
	if file, ok := out.(*os.File); ok && tty.Is(file) && a.envValue("TERM") != "dumb" {
		return progress.NewScreen(out, func() (height, width int) { return tty.Size(file) })
	}
	return progress.NewLines(out)
}

// silent is a follower that shows nothing.
type silent struct{}

// Show shows nothing.
func (silent) Show(client.Progress) error { return nil }

// Close does nothing.
func (silent) Close() error { return nil }

// followProgress runs an operation that tells how far it is. A signal cancels it.
func (a *app) followProgress(
	ctx context.Context, shown follower, do func(ctx context.Context, each func(client.Progress) error) error,
) error {
	return runInterruptible(ctx, func(ctx context.Context) error {
		err := do(ctx, shown.Show)
		return cmp.Or(err, shown.Close())
	})
}

// runInterruptible runs what a signal cancels: do gets the time to undo what it has begun, and the command ends with 128 and
// the signal's number. A second signal ends it at once. Signals that this process was started to ignore stay ignored.
func runInterruptible(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	defer signal.Stop(signals)
	go func() {
		select {
		case sig := <-signals:
			signal.Stop(signals)
			cancel(signalError(sig))
		case <-ctx.Done():
		}
	}()
	err := do(ctx)
	if cause, ok := context.Cause(ctx).(*exit); ok && err != nil { //nolint:errorlint // the very value that was put in
		return cause
	}
	return err
}
