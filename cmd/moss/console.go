package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"moss/api/client"
	"moss/cmd/moss/tty"
)

// detachPatience is how long the engine gets to note that the client detached.
const detachPatience = 300 * time.Millisecond

// console is this command's side of a stream: it moves input and output and keeps the terminal.
type console struct {
	app *app
	id  string // of the container

	wait   func(ctx context.Context) (code int, err error) // for the end of the process
	resize func(ctx context.Context, height, width int) error
	again  func(ctx context.Context) error          // goes on with the output after the end of the stream; may be nil
	send   func(ctx context.Context, sig os.Signal) // hands a signal on; nil: a signal ends this command

	tty                   bool // the process has a terminal
	stdin, stdout, stderr bool // what is attached
	detachKeys            string

	stream *client.Stream
	raw    *tty.Raw
	output chan error // the end of the output
	input  chan error // the end of the input

	drained chan struct{} // closed after the end of the stream
	shown   *followed     // what has come of the output
	allSent atomic.Bool   // the input has ended and was sent
}

// result is how a process ended.
type result struct {
	code int
	err  error
}

// checkTerminal refuses to send what is no terminal to one: line ends and the end of input would mean nothing there.
func (c *console) checkTerminal() error {
	if c.tty && c.stdin && !tty.Is(c.app.stdin) {
		return errors.New("the container has a terminal, but stdin is not one")
	}
	return nil
}

// adoptStream takes over a stream, and the terminal into raw mode if the process has one and gets this one's input.
func (c *console) adoptStream(stream *client.Stream) error {
	c.stream = stream
	if !c.tty || !c.stdin || !tty.Is(c.app.stdin) {
		return nil
	}
	var err error
	c.raw, err = tty.MakeRaw(c.app.stdin)
	return err
}

// closeStream gives the terminal back and closes the stream. It may be called again.
func (c *console) closeStream() {
	if c.raw != nil {
		c.raw.Restore()
	}
	if c.stream != nil {
		_ = c.stream.Close()
	}
}

// goSafely runs f in a goroutine that gives the terminal back even if it panics.
func (c *console) goSafely(f func()) {
	go func() {
		if c.raw != nil {
			// Deferred calls of other goroutines do not run when this one panics.
			defer func() {
				if trouble := recover(); trouble != nil {
					c.raw.Restore()
					panic(trouble)
				}
			}()
		}
		f()
	}()
}

// followProcess moves bytes, signals and window sizes until the process has ended, and returns its exit code. It returns
// client.ErrDetached when the user left by the detach keys, and an *exit when a signal ended this command.
func (c *console) followProcess(ctx context.Context, signals <-chan os.Signal) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	sized := make(chan struct{})
	defer func() { cancel(); <-sized }()
	ended := make(chan result, 1)
	c.output, c.input, c.drained = make(chan error, 1), make(chan error, 1), make(chan struct{})
	c.goSafely(func() {
		code, err := c.wait(ctx)
		ended <- result{code: code, err: err}
	})
	c.startStreams(ctx)
	c.goSafely(func() {
		defer close(sized)
		if c.tty {
			c.followSize(ctx)
		}
	})
	output, input := c.output, c.input
	var last result
	for ended != nil || output != nil {
		select {
		case last = <-ended:
			if last.err != nil {
				return 0, c.sessionError(last.err)
			}
			ended = nil
		case err := <-output:
			if err != nil {
				return 0, c.sessionError(err)
			}
			output = nil
		case err := <-input:
			if errors.Is(err, client.ErrDetached) {
				c.sendDetachKeys()
				return 0, err
			}
			input = nil
		case sig := <-signals:
			if c.send == nil || c.tty {
				return 0, signalError(sig)
			}
			c.goSafely(func() { c.send(ctx, sig) })
		}
	}
	return last.code, nil
}

// sessionError returns the error of a session that broke while the container may go on.
func (c *console) sessionError(err error) error {
	return fmt.Errorf("container %.12s: %w", c.id, err)
}

func (c *console) startStreams(ctx context.Context) {
	if c.stream == nil {
		c.output <- nil
		close(c.drained)
		return
	}
	c.shown = newFollowed(c.app.stdout, c.app.stderr, c.tty)
	c.goSafely(func() {
		err := c.shown.copyStream(c.stream)
		close(c.drained)
		if c.again != nil && (err == nil || isLost(err)) {
			err = c.again(ctx)
		}
		c.output <- err
	})
	if c.stdin {
		c.goSafely(func() { c.input <- c.copyInput() })
	}
}

// copyInput sends stdin on and its end as well. A container that no longer reads is no error: its end tells more.
func (c *console) copyInput() error {
	// The type hides what *os.File could do itself: splicing between a pipe and a socket blocks where reading need not.
	var in io.Reader = struct{ io.Reader }{c.app.stdin}
	if c.tty {
		keys, err := client.ParseDetachKeys(c.detachKeys)
		if err != nil {
			return err
		}
		in = client.DetachReader(in, keys)
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{c.stream}, in, make([]byte, 128<<10))
	if errors.Is(err, client.ErrDetached) {
		return err
	}
	c.allSent.Store(true)
	return c.stream.CloseWrite()
}

// sendDetachKeys types the keys to the engine too, which notes it as an event and ends the stream.
func (c *console) sendDetachKeys() {
	keys, err := client.ParseDetachKeys(c.detachKeys)
	if err != nil {
		return
	}
	if _, err := c.stream.Write(keys); err != nil {
		return
	}
	select {
	case <-c.drained:
	case <-time.After(detachPatience):
	}
}

// resizePatience is how often, and resizePause how long in between, a size is offered to a process that may be about to
// start: the engine knows no terminal of it before.
const (
	resizePatience = 10
	resizePause    = 10 * time.Millisecond
)

// followSize gives the process's terminal the size of this one, now and when it changes.
func (c *console) followSize(ctx context.Context) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	defer signal.Stop(changes)
	tries := resizePatience
	for {
		var again <-chan time.Time
		if height, width := c.app.windowSize(); height > 0 && width > 0 {
			// The process may have ended meanwhile; the next change tries again.
			if c.resize(ctx, height, width) != nil && tries > 0 {
				tries--
				again = time.After(resizePause)
			}
		}
		select {
		case <-changes:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// windowSize returns the size of the terminal that output goes to, or else input comes from; zeros without one.
func (a *app) windowSize() (height, width int) {
	if out, ok := a.stdout.(*os.File); ok {
		if height, width = tty.Size(out); height > 0 {
			return height, width
		}
	}
	return tty.Size(a.stdin)
}
