package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"moss/api/client"
)

// session is this command attached to one container. It is used once.
type session struct {
	console

	engine *client.Client
	log    *logPlace     // where the log has this session's output; nil: nobody knows
	lost   chan struct{} // closed when the end of the engine has cut off the wait for the container's end
	waited chan struct{} // closed when that wait is over
}

// sessionSettings are what a session is to do.
type sessionSettings struct {
	id                    string
	tty                   bool // the container has a terminal
	stdin, stdout, stderr bool // what is attached
	proxy                 bool // signals go to the container
	detachKeys            string
}

// newSession returns a session with a container. The app's engine must be connected.
func (a *app) newSession(set sessionSettings) *session {
	s := &session{engine: a.engine, console: console{
		app: a, id: set.id, tty: set.tty, stdin: set.stdin, stdout: set.stdout, stderr: set.stderr, detachKeys: set.detachKeys,
	}}
	s.lost, s.waited = make(chan struct{}), make(chan struct{})
	s.wait = func(ctx context.Context) (int, error) {
		defer close(s.waited)
		return s.app.awaitEnd(ctx, s.id, func() { close(s.lost) })
	}
	s.again = s.goOnWithLog
	s.resize = func(ctx context.Context, height, width int) error {
		return s.engine.ContainerResize(ctx, s.id, height, width)
	}
	if set.proxy {
		s.send = s.forwardSignal
	}
	return s
}

// runNew starts a created container, attached, and returns its exit code as an *exit. It is removed at last if it is to be.
func (s *session) runNew(ctx context.Context, left leftover) error {
	signals := s.catchSignals()
	defer signal.Stop(signals)
	setup, cancel := context.WithCancel(ctx)
	defer cancel()
	caught := make(chan os.Signal, 1)
	stop := s.cancelOnSignal(signals, cancel, caught)
	defer s.closeStream()
	err := s.app.withNext(setup, func() error {
		s.closeStream() // the view of an engine that is being stopped
		if err := s.attachStreams(setup); err != nil {
			return err
		}
		return s.engine.ContainerStart(setup, s.id, s.detachKeys)
	})
	stop()
	if err != nil {
		s.closeStream()
		return s.notStarted(ctx, err, caught, left)
	}
	select {
	case sig := <-caught:
		signals <- sig // it came while the start succeeded all the same
	default:
	}
	code, err := s.followProcess(ctx, signals)
	s.closeStream()
	if errors.Is(err, client.ErrDetached) {
		return nil
	}
	if isCut(err) && left.remove {
		signal.Stop(signals)
		s.app.removeAtEnd(ctx, s.id, err)
	}
	if err != nil {
		return asEngine(err)
	}
	if left.remove {
		if err := s.engine.ContainerRemove(ctx, s.id, client.RemoveOptions{Volumes: true}); !isGone(err) {
			s.app.printError(fmt.Errorf("remove container: %w", err))
		}
	}
	return exitCode(code)
}

// notStarted explains why a container did not start: a signal, the engine, or the command itself.
func (s *session) notStarted(ctx context.Context, err error, caught <-chan os.Signal, left leftover) error {
	select {
	case sig := <-caught:
		if left.remove {
			_ = s.engine.ContainerRemove(ctx, s.id, client.RemoveOptions{Force: true, Volumes: true})
		}
		return signalError(sig)
	default:
		return s.app.startFailed(ctx, s.id, err, left)
	}
}

// attachRunning attaches to a container that runs already, and returns as runNew.
func (s *session) attachRunning(ctx context.Context) error {
	signals := s.catchSignals()
	defer signal.Stop(signals)
	if err := s.attachStreams(ctx); err != nil {
		return err
	}
	defer s.closeStream()
	if height, width := s.app.windowSize(); s.tty && height > 0 {
		// Another size first: a program draws its screen anew only when the size changes.
		_ = s.engine.ContainerResize(ctx, s.id, height+1, width+1)
	}
	code, err := s.followProcess(ctx, signals)
	s.closeStream()
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

func signalError(sig os.Signal) error {
	code := exitFailed
	if number, ok := sig.(syscall.Signal); ok {
		code = exitSignalled + int(number)
	}
	return &exit{code: code}
}

// catchSignals starts catching signals: those for the container, and in raw mode those that would leave the terminal raw.
func (s *session) catchSignals() chan os.Signal {
	signals := make(chan os.Signal, 16)
	if s.send != nil || s.tty {
		signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	}
	if s.send != nil && !s.tty {
		signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
	}
	return signals
}

// cancelOnSignal ends the setup when a signal comes before the container runs: there is nothing yet to send it to.
func (s *session) cancelOnSignal(signals <-chan os.Signal, cancel func(), caught chan<- os.Signal) (stop func()) {
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

// attachStreams attaches, and takes the terminal into raw mode if the container has one and gets this one's input.
func (s *session) attachStreams(ctx context.Context) error {
	if !s.stdin && !s.stdout && !s.stderr {
		return nil
	}
	stream, err := s.engine.ContainerAttach(ctx, s.id, client.AttachOptions{
		Stream: true, Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr, DetachKeys: s.detachKeys,
	})
	if err != nil {
		return err
	}
	return s.adoptStream(stream)
}

// forwardSignal hands a signal on. One that meets no process any more came too late.
func (s *session) forwardSignal(ctx context.Context, sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	err := s.engine.ContainerKill(ctx, s.id, strconv.Itoa(int(number)))
	if status := client.StatusOf(err); err == nil || status == statusNotFound || status == statusConflict || ctx.Err() != nil {
		return
	}
	s.app.printError(fmt.Errorf("send signal %s: %w", number, err))
}
