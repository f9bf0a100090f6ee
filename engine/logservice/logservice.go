// Package logservice starts moss-log for the engine, which brings the output of containers to receivers, and starts it again when
// it crashes. Moss-log outlives the engine that started it and is found again by its socket. An engine whose containers need
// no receivers starts none.
package logservice

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/fault"
	"moss/engine/logforward"
	"moss/engine/shim/proto"
)

const (
	answerLimit = 5 * time.Second        // for the answer of moss-log
	firstDelay  = 100 * time.Millisecond // before a start that follows a crash in the first second; doubles
	lastDelay   = 5 * time.Second
	young       = time.Second
)

// Options say what to start and where. Every field is needed.
type Options struct {
	Find      func() (path string, err error) // of the program
	Socket    string                          // where it listens
	Keepalive string                          // as task.Spec; may be empty
	Log       zerolog.Logger
}

// Service keeps moss-log running for as long as a container needs it. Make one with New and close it.
type Service struct {
	opt    Options
	life   context.Context //nolint:containedctx // the service's own
	cancel context.CancelFunc

	mu    sync.Mutex // held while moss-log is started; guards the field below
	watch net.Conn   // to the moss-log that is watched; nil: none
}

// New returns a service. It starts nothing.
func New(opt Options) *Service {
	s := &Service{opt: opt}
	s.life, s.cancel = context.WithCancel(context.Background())
	return s
}

// Socket returns the path at which monitors reach moss-log.
func (s *Service) Socket() string { return s.opt.Socket }

// Close ends the watch. Moss-log goes on, for the containers that do.
func (s *Service) Close() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch != nil {
		_ = s.watch.Close()
	}
}

// Ensure returns once moss-log runs and will for a minute, or longer with a container. The errors are fault.Unavailable, and
// those of Options.Find.
func (s *Service) Ensure(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return fault.Unavailable("start moss-log: the engine is about to end")
	}
	begun := time.Now()
	conn, err := s.greet(ctx)
	if err != nil {
		if err := s.startProgram(); err != nil {
			return fmt.Errorf("start moss-log: %w", err)
		}
		if conn, err = s.greet(ctx); err != nil {
			return fault.Unavailable("start moss-log: %w", err)
		}
	}
	if s.watch != nil {
		_ = conn.Close()
		return nil
	}
	s.watch = conn
	go s.watchProgram(conn, begun)
	return nil
}

// greet says hello to a moss-log that runs, and returns the connection.
func (s *Service) greet(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", s.opt.Socket)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	var reply proto.Reply
	if err = conn.SetDeadline(deadline); err == nil {
		err = proto.Write(conn, logforward.Hello{})
	}
	if err == nil {
		err = proto.Read(conn, &reply)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("moss-log does not answer: %w", err)
	}
	return conn, nil
}

// startProgram starts moss-log with a new socket. Containers whose moss-log does not answer are left to that one.
func (s *Service) startProgram() error {
	path, err := s.opt.Find()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.opt.Socket), 0o700); err != nil {
		return err
	}
	_ = os.Remove(s.opt.Socket) // of one that crashed
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.opt.Socket, Net: "unix"})
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(s.opt.Socket, 0o600); err != nil {
		return err
	}
	theirs, err := l.File()
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }()
	cmd := exec.Command(path, s.opt.Keepalive) //nolint:noctx // it outlives the engine
	cmd.Args[0], cmd.Dir = "moss-log", "/"
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal's and no process group's signals reach it
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // watchProgram learns of its end
	return nil
}

// watchProgram waits for the end of moss-log, and starts it again unless it was its own.
func (s *Service) watchProgram(conn net.Conn, begun time.Time) {
	var last [1]byte
	n, _ := conn.Read(last[:])
	_ = conn.Close()
	s.mu.Lock()
	s.watch = nil
	s.mu.Unlock()
	if s.life.Err() != nil || n == 1 && last[0] == logforward.Bye {
		return
	}
	s.opt.Log.Warn().Msg("moss-log ended, starting it again")
	var delay time.Duration
	if time.Since(begun) < young {
		delay = firstDelay
	}
	for {
		select {
		case <-time.After(delay):
		case <-s.life.Done():
			return
		}
		err := s.Ensure(s.life)
		if err == nil {
			return
		}
		delay = min(max(2*delay, firstDelay), lastDelay)
		if s.life.Err() == nil {
			s.opt.Log.Error().Err(err).Msg("moss-log not started again")
		}
	}
}
