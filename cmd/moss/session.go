package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"moss/api/client"
	"moss/cmd/moss/tty"
)

// detachPatience is how long the engine gets to note that the client detached.
const detachPatience = 300 * time.Millisecond

// session is this command attached to one container. It is used once.
type session struct {
	app    *app
	engine *client.Client
	id     string

	tty                   bool // the container has a terminal
	stdin, stdout, stderr bool // what is attached
	proxy                 bool // signals go to the container
	detachKeys            string

	stream *client.Stream
	raw    *tty.Raw
	ended  chan result // the container's exit code
	output chan error  // the end of the output
	input  chan error  // the end of the input
}

type result struct {
	code int
	err  error
}

// runNew starts a created container, attached, and returns its exit code as an *exit. With remove it is removed at last.
func (s *session) runNew(ctx context.Context, remove bool) error {
	signals := s.listen()
	defer signal.Stop(signals)
	setup, cancel := context.WithCancel(ctx)
	defer cancel()
	caught := make(chan os.Signal, 1)
	stop := s.watch(signals, cancel, caught)
	err := s.join(setup)
	defer s.leave()
	if err == nil {
		err = s.engine.ContainerStart(setup, s.id, s.detachKeys)
	}
	stop()
	if err != nil {
		s.leave()
		return s.notStarted(ctx, err, caught, remove)
	}
	select {
	case sig := <-caught:
		signals <- sig // it came while the start succeeded all the same
	default:
	}
	code, err := s.follow(ctx, signals)
	s.leave()
	if errors.Is(err, client.ErrDetached) {
		return nil
	}
	if err != nil {
		return asEngine(err)
	}
	if remove {
		if err := s.engine.ContainerRemove(ctx, s.id, client.RemoveOptions{Volumes: true}); !isGone(err) {
			s.app.complain(fmt.Errorf("remove container: %w", err))
		}
	}
	return exitCode(code)
}

// notStarted explains why a container did not start: a signal, the engine, or the command itself.
func (s *session) notStarted(ctx context.Context, err error, caught <-chan os.Signal, remove bool) error {
	select {
	case sig := <-caught:
		if remove {
			_ = s.engine.ContainerRemove(ctx, s.id, client.RemoveOptions{Force: true, Volumes: true})
		}
		return signalled(sig)
	default:
		return s.app.startFailed(ctx, s.id, err, remove)
	}
}

// rejoin attaches to a container that runs already, and returns as runNew.
func (s *session) rejoin(ctx context.Context) error {
	signals := s.listen()
	defer signal.Stop(signals)
	if err := s.join(ctx); err != nil {
		return err
	}
	defer s.leave()
	if height, width := s.app.windowSize(); s.tty && height > 0 {
		// Another size first: a program draws its screen anew only when the size changes.
		_ = s.engine.ContainerResize(ctx, s.id, height+1, width+1)
	}
	code, err := s.follow(ctx, signals)
	s.leave()
	if errors.Is(err, client.ErrDetached) {
		return nil
	}
	if err != nil {
		return asEngine(err)
	}
	return exitCode(code)
}

func exitCode(code int) error {
	if code == 0 {
		return nil
	}
	return &exit{code: code}
}

func signalled(sig os.Signal) error {
	code := exitFailed
	if number, ok := sig.(syscall.Signal); ok {
		code = exitSignalled + int(number)
	}
	return &exit{code: code}
}

// listen starts catching signals: those for the container, and in raw mode those that would leave the terminal raw.
func (s *session) listen() chan os.Signal {
	signals := make(chan os.Signal, 16)
	if s.proxy || s.tty {
		signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	}
	if s.proxy && !s.tty {
		signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
	}
	return signals
}

// watch ends the setup when a signal comes before the container runs: there is nothing yet to send it to.
func (s *session) watch(signals <-chan os.Signal, cancel func(), caught chan<- os.Signal) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case sig := <-signals:
			caught <- sig
			cancel()
		case <-quit:
		}
	}()
	return func() { close(quit); <-done }
}

// join attaches, and takes the terminal into raw mode if the container has one and gets this one's input.
func (s *session) join(ctx context.Context) error {
	if !s.stdin && !s.stdout && !s.stderr {
		return nil
	}
	stream, err := s.engine.ContainerAttach(ctx, s.id, client.AttachOptions{
		Stream: true, Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr, DetachKeys: s.detachKeys,
	})
	if err != nil {
		return err
	}
	s.stream = stream
	if s.tty && s.stdin && tty.Is(s.app.stdin) {
		if s.raw, err = tty.MakeRaw(s.app.stdin); err != nil {
			return err
		}
	}
	return nil
}

// leave gives the terminal back and closes the stream. It may be called again.
func (s *session) leave() {
	if s.raw != nil {
		s.raw.Restore()
	}
	if s.stream != nil {
		_ = s.stream.Close()
	}
}

// safely runs f in a goroutine that gives the terminal back even if it panics.
func (s *session) safely(f func()) {
	go func() {
		if s.raw != nil {
			// Deferred calls of other goroutines do not run when this one panics.
			defer func() {
				if trouble := recover(); trouble != nil {
					s.raw.Restore()
					panic(trouble)
				}
			}()
		}
		f()
	}()
}

// follow moves bytes, signals and window sizes until the container ends, and returns its exit code. It returns
// client.ErrDetached when the user left by the detach keys, and an *exit when a signal ended this command.
func (s *session) follow(ctx context.Context, signals <-chan os.Signal) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	sized := make(chan struct{})
	defer func() { cancel(); <-sized }()
	s.ended, s.output, s.input = make(chan result, 1), make(chan error, 1), make(chan error, 1)
	s.safely(func() {
		code, err := s.engine.ContainerWait(ctx, s.id)
		s.ended <- result{code: code, err: err}
	})
	s.startStreams()
	s.safely(func() {
		defer close(sized)
		if s.tty {
			s.followSize(ctx)
		}
	})
	ended, output, input := s.ended, s.output, s.input
	var last result
	for ended != nil || output != nil {
		select {
		case last = <-ended:
			if last.err != nil {
				return 0, s.unknown(last.err)
			}
			ended = nil
		case err := <-output:
			if err != nil {
				return 0, s.unknown(err)
			}
			output = nil
		case err := <-input:
			if errors.Is(err, client.ErrDetached) {
				s.detach()
				return 0, err
			}
			input = nil
		case sig := <-signals:
			if s.tty || !s.proxy {
				return 0, signalled(sig)
			}
			s.safely(func() { s.send(ctx, sig) })
		}
	}
	return last.code, nil
}

// unknown is the error of a session that broke while the container may go on.
func (s *session) unknown(err error) error {
	return fmt.Errorf("container %.12s: %w", s.id, err)
}

func (s *session) startStreams() {
	if s.stream == nil {
		s.output <- nil
		return
	}
	s.safely(func() {
		if s.tty {
			s.output <- client.Copy(s.app.stdout, s.stream)
			return
		}
		s.output <- client.Demux(s.app.stdout, s.app.stderr, s.stream)
	})
	if s.stdin {
		s.safely(func() { s.input <- s.copyInput() })
	}
}

// copyInput sends stdin on and its end as well. A container that no longer reads is no error: its end tells more.
func (s *session) copyInput() error {
	// The type hides what *os.File could do itself: splicing between a pipe and a socket blocks where reading need not.
	var in io.Reader = struct{ io.Reader }{s.app.stdin}
	if s.tty {
		keys, err := client.ParseDetachKeys(s.detachKeys)
		if err != nil {
			return err
		}
		in = client.DetachReader(in, keys)
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{s.stream}, in, make([]byte, 128<<10))
	if errors.Is(err, client.ErrDetached) {
		return err
	}
	return s.stream.CloseWrite()
}

// detach types the keys to the engine too, which notes it as an event and ends the stream.
func (s *session) detach() {
	keys, err := client.ParseDetachKeys(s.detachKeys)
	if err != nil {
		return
	}
	if _, err := s.stream.Write(keys); err != nil {
		return
	}
	select {
	case <-s.output: //nolint:errcheck // the end of the stream is what is waited for, however it ends
	case <-time.After(detachPatience):
	}
}

// send hands a signal on. One that meets no process any more came too late.
func (s *session) send(ctx context.Context, sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	err := s.engine.ContainerKill(ctx, s.id, strconv.Itoa(int(number)))
	if status := client.StatusOf(err); err == nil || status == statusNotFound || status == statusConflict || ctx.Err() != nil {
		return
	}
	s.app.complain(fmt.Errorf("send signal %s: %w", number, err))
}

// followSize gives the container's terminal the size of this one, now and when it changes.
func (s *session) followSize(ctx context.Context) {
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	defer signal.Stop(changes)
	for {
		if height, width := s.app.windowSize(); height > 0 && width > 0 {
			// The container may have ended meanwhile; the next change tries again.
			_ = s.engine.ContainerResize(ctx, s.id, height, width)
		}
		select {
		case <-changes:
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
