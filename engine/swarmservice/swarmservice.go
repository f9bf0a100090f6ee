// Package swarmservice starts moss-swarm for the engine, which is this node's part in a swarm, starts it again when it dies, and
// passes requests on to it. Moss-swarm outlives the engine that started it and is found again by its socket. A node in no swarm
// has neither the program nor a file of it. What the requests mean is moss-swarm's.
package swarmservice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/swarm/status"
)

const (
	answerLimit = 30 * time.Second       // for the first answer of moss-swarm
	firstDelay  = 100 * time.Millisecond // before a start that follows a crash in the first second; doubles
	lastDelay   = 10 * time.Second
	young       = time.Second
)

// Options say what to start and where. Every field but Open is needed.
type Options struct {
	Find   func() (path string, err error) // of the program
	Args   []string                        // of the program
	Socket string                          // where it listens
	Record string                          // the file that is there while the node is in a swarm
	// Open lets the program reach the engine, for as long as the node is in a swarm. Nil: by other ways.
	Open func() (io.Closer, error)
	Log  zerolog.Logger
}

// Service is the engine's side of a swarm. Make one with New and close it.
type Service struct {
	opt    Options
	life   context.Context //nolint:containedctx // the service's own
	cancel context.CancelFunc
	http   *http.Client
	work   sync.WaitGroup

	// entered is true where moss-swarm was asked or the record seen since the record was last missed: every probe asks, and
	// must not wait for a disk.
	entered atomic.Bool

	mu     sync.Mutex // held while moss-swarm is started; guards the fields below
	watch  io.Closer  // to the moss-swarm that is watched; nil: none
	opened io.Closer  // what Open has returned
}

// New returns a service. It starts nothing.
func New(opt Options) *Service {
	s := &Service{opt: opt}
	s.life, s.cancel = context.WithCancel(context.Background())
	s.entered.Store(s.InSwarm())
	s.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", opt.Socket)
		},
		DisableCompression: true, DisableKeepAlives: true, // a connection of a moss-swarm that has ended is of no use
	}}
	return s
}

// Run takes up a node that is in a swarm, in the background. The engine's API answers by then, or soon.
func (s *Service) Run() {
	if s.InSwarm() {
		s.work.Go(func() { s.startUntilItRuns(0) })
	}
}

// Close ends the watch. Moss-swarm goes on.
func (s *Service) Close() {
	s.cancel()
	s.mu.Lock()
	if s.watch != nil {
		_ = s.watch.Close()
	}
	s.closeOpenedLocked()
	s.mu.Unlock()
	s.work.Wait()
}

// InSwarm reports whether this node is in a swarm, or was when its record became unreadable.
func (s *Service) InSwarm() bool {
	_, err := os.Lstat(s.opt.Record)
	return !errors.Is(err, fs.ErrNotExist)
}

// MayBeInSwarm reports whether this node is in a swarm, or is about to be, without a look at the disk. Node tells for sure.
func (s *Service) MayBeInSwarm() bool { return s.entered.Load() }

// Pass sends a request to moss-swarm and returns its answer, whose body the caller closes. With enters the request may bring
// this node into a swarm. The errors are fault.NotAcceptable if the node is in none, and fault.Unavailable when moss-swarm does
// not answer.
func (s *Service) Pass(r *http.Request, enters bool) (*http.Response, error) {
	if !enters && !s.InSwarm() {
		return nil, errNoSwarm()
	}
	if err := s.ensure(r.Context()); err != nil {
		return nil, err
	}
	s.entered.Store(true)
	response, err := s.http.Do(r)
	if err != nil {
		s.settle()
		return nil, fault.Unavailable("the program of this node's swarm does not answer: %w", err)
	}
	response.Body = &settlingBody{ReadCloser: response.Body, settle: s.settle}
	return response, nil
}

func errNoSwarm() error {
	return fault.NotAcceptable(`This node is not part of a swarm. Use "swarm init" or "swarm join" to connect this node to a ` +
		`swarm and try again.`)
}

// settlingBody calls settle once it is closed.
type settlingBody struct {
	io.ReadCloser

	settle func()
}

// Close closes the body.
func (b *settlingBody) Close() error {
	err := b.ReadCloser.Close()
	b.settle()
	return err
}

// settle lets moss-swarm end if the node is in no swarm.
func (s *Service) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.InSwarm()
	s.entered.Store(in)
	if in {
		return
	}
	if s.watch != nil {
		_ = s.watch.Close() // the watcher of it makes it nil
	}
	s.closeOpenedLocked()
}

func (s *Service) closeOpenedLocked() {
	if s.opened != nil {
		_ = s.opened.Close()
		s.opened = nil
	}
}

// End ends moss-swarm before the engine stops its containers, so that it does not take that for failures of tasks. The node
// keeps its place in its swarm.
func (s *Service) End(ctx context.Context) {
	if !s.InSwarm() {
		return
	}
	s.cancel() // it is not to be started again
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://moss-swarm"+status.EndPath, nil)
	if err != nil {
		return
	}
	response, err := s.http.Do(r)
	if err != nil {
		s.opt.Log.Warn().Err(err).Msg("moss-swarm not ended")
		return
	}
	_, _ = io.Copy(io.Discard, response.Body) // it ends with the program
	_ = response.Body.Close()
}

// ensure returns once moss-swarm runs and is watched.
func (s *Service) ensure(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return fault.Unavailable("reach this node's swarm: the engine is about to end")
	}
	if s.watch != nil {
		return nil
	}
	if s.opened == nil && s.opt.Open != nil {
		opened, err := s.opt.Open()
		if err != nil {
			return fault.Unavailable("open the engine's socket for moss-swarm: %w", err)
		}
		s.opened = opened
	}
	begun := time.Now()
	watch, err := s.greet(ctx)
	if isAbsent(err) {
		if err := s.startProgram(); err != nil {
			return fault.Unavailable("start moss-swarm: %w", err)
		}
		watch, err = s.greet(ctx)
	}
	if err != nil {
		return fault.Unavailable("moss-swarm does not answer: %w", err)
	}
	s.watch = watch
	s.work.Go(func() { s.watchProgram(watch, begun) })
	return nil
}

// errEnding is the answer of a moss-swarm that is about to end.
var errEnding = errors.New("it is about to end")

// isAbsent reports whether nobody serves the socket any more. One that is slow, or hung, is not absent: a second one would be in
// its way.
func isAbsent(err error) bool {
	return errors.Is(err, errEnding) || errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// greet begins to watch a moss-swarm that runs.
func (s *Service) greet(ctx context.Context) (io.ReadCloser, error) {
	watching, end := context.WithCancel(s.life)
	limit := time.AfterFunc(answerLimit, end)
	stop := context.AfterFunc(ctx, end)
	place := "http://moss-swarm" + status.WatchPath
	r, err := http.NewRequestWithContext(watching, http.MethodGet, place, nil) //nolint:contextcheck // it outlives the request
	if err != nil {
		end()
		return nil, err
	}
	response, err := s.http.Do(r)
	if !limit.Stop() || !stop() {
		if err == nil {
			_ = response.Body.Close()
		}
		end()
		return nil, errors.Join(errors.New("no answer in time"), ctx.Err())
	}
	if err != nil {
		end()
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		end()
		return nil, errEnding
	}
	return &watchBody{ReadCloser: response.Body, end: end}, nil
}

// watchBody ends the request with the answer's body.
type watchBody struct {
	io.ReadCloser

	end context.CancelFunc
}

// Close ends the watch.
func (b *watchBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

// startProgram starts moss-swarm with a new socket.
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
	cmd := exec.Command(path, s.opt.Args...) //nolint:noctx // it outlives the engine
	cmd.Args[0], cmd.Dir = "moss-swarm", "/"
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal's and no process group's signals reach it
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // watchProgram learns of its end
	return nil
}

// watchProgram waits for the end of moss-swarm, and starts it again if the node is in a swarm.
func (s *Service) watchProgram(watch io.ReadCloser, begun time.Time) {
	_, _ = io.Copy(io.Discard, watch)
	_ = watch.Close()
	s.mu.Lock()
	s.watch = nil
	in := s.InSwarm()
	s.entered.Store(in)
	s.mu.Unlock()
	if s.life.Err() != nil || !in {
		return
	}
	s.opt.Log.Warn().Msg("moss-swarm ended, starting it again")
	var delay time.Duration
	if time.Since(begun) < young {
		delay = firstDelay
	}
	s.startUntilItRuns(delay)
}

// startUntilItRuns starts moss-swarm after a delay, and tries again for as long as the node is in a swarm.
func (s *Service) startUntilItRuns(delay time.Duration) {
	for {
		select {
		case <-time.After(delay):
		case <-s.life.Done():
			return
		}
		if !s.InSwarm() {
			return
		}
		err := s.ensure(s.life)
		if err == nil || s.life.Err() != nil {
			return
		}
		delay = min(max(2*delay, firstDelay), lastDelay)
		s.opt.Log.Error().Err(err).Msg("moss-swarm not started")
	}
}

// nodeLimit bounds the question for the node's state, which every info asks.
const nodeLimit = 3 * time.Second

// Node returns what moss-swarm knows of this node. One that does not answer is an error in the answer.
func (s *Service) Node(ctx context.Context) status.Node {
	if !s.InSwarm() {
		return status.Node{State: status.Inactive}
	}
	ctx, cancel := context.WithTimeout(ctx, nodeLimit)
	defer cancel()
	node, err := s.askNode(ctx)
	if err != nil {
		return status.Node{State: status.Pending, Error: fmt.Sprintf("moss-swarm does not answer: %v", err)}
	}
	return node
}
