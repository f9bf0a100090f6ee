package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	startTimeout = 60 * time.Second      // a first start makes the store on a slow disk
	startPoll    = 10 * time.Millisecond // between two looks at the socket
	unitTimeout  = 10 * time.Second      // for systemctl, which may hang with a broken user bus
	quietTime    = 2 * time.Second       // before a person is told that the engine does not answer
	pingTimeout  = time.Second           // for the ping that finds out
)

// startLock is a file in the folder of this boot: whoever starts an engine, or removes its data, has it locked meanwhile.
const startLock = "start.lock"

// Starter opens connections to the engine and starts it when need be.
type Starter struct {
	Place  Place
	Env    Env
	Notice io.Writer // is told when an engine is started; nil: nobody
	Binary string    // of the engine; empty: mossd beside this program or in PATH

	dialled sync.Once
	stay    atomic.Bool
	greeted atomic.Bool
}

// Stay keeps Dial from starting an engine from now on: one that has served this command
// and is gone was stopped by somebody.
func (s *Starter) Stay() { s.stay.Store(true) }

// Dial connects to the engine. With a default place where nothing listens it looks for an engine elsewhere, and then
// starts one first, at most one over all commands that try it at once. One that is ending there is followed by the next. It
// is a client.Dialer.
func (s *Starter) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err == nil && s.Notice != nil && s.Place.TLS == nil {
		s.dialled.Do(func() { time.AfterFunc(quietTime, s.explainWait) })
	}
	if err == nil && s.Place.RunDir != "" && !s.greeted.Load() {
		conn, err = s.pingFirst(ctx, conn)
	}
	if err == nil || s.Place.RunDir == "" || !isNotListening(err) {
		return conn, err
	}
	if conn, ok := s.dialHolder(ctx); ok {
		return conn, nil
	}
	if s.stay.Load() {
		return nil, err
	}
	if err := s.startEngine(ctx); err != nil {
		return nil, err
	}
	return dialer.DialContext(ctx, network, address)
}

// explainWait tells a person why nothing happens: the socket is there from the first moment on and while engines come and go,
// so a command may wait in its queue. What merely takes long looks the same from here, so it asks on its own.
func (s *Starter) explainWait() {
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout) // no call's: it ends with this program
	defer cancel()
	if !s.isAnswering(ctx) {
		_, _ = fmt.Fprintf(s.Notice, "moss: the engine at %s does not answer yet; waiting\n", s.Place.Host)
	}
}

// isNotListening reports whether a dial failed because nothing listens.
func isNotListening(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func (s *Starter) startEngine(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := refuseRoot(os.Geteuid(), s.Env); err != nil {
		return err
	}
	if state := s.queryUnitState(ctx); state != unitNone {
		return s.leaveToUnit(ctx, state)
	}
	if err := prepareRunDir(s.Place.RunDir); err != nil {
		return err
	}
	release, err := takeStartLock(ctx, filepath.Join(s.Place.RunDir, startLock))
	if err != nil {
		return err
	}
	defer release()
	if s.isAnswering(ctx) || s.awaitTransition(ctx) {
		return nil // another command was quicker, or the engine was just starting
	}
	return s.spawnEngine(ctx)
}

// spawnEngine starts the engine, detached from the terminal, and waits until it answers or ends.
func (s *Starter) spawnEngine(ctx context.Context) error {
	binary, err := s.findBinary()
	if err != nil {
		return err
	}
	path := s.LogPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the folder of the engine's log: %w", err)
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the engine's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("seek the engine's log: %w", err)
	}
	if s.Notice != nil {
		_, _ = fmt.Fprintf(s.Notice, "moss: starting the engine (log: %s)\n", path)
	}
	// The engine outlives this command and its context.
	engine := exec.Command(binary, "--run-dir", s.Place.RunDir)
	engine.Stdout, engine.Stderr, engine.Dir = log, log, "/"
	engine.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := engine.Start(); err != nil {
		return fmt.Errorf("start the engine: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Wait() }()
	return s.awaitAnswer(ctx, ended, func() string { return lastLine(path, begin) })
}

func (s *Starter) awaitAnswer(ctx context.Context, ended <-chan error, word func() string) error {
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		if s.isAnswering(ctx) {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the engine ended while starting (%s): %s", exitText(err), word())
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("the engine does not answer after %s: %s", startTimeout, word())
			}
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// findBinary finds mossd beside this program, whatever link led to it, or in PATH.
func (s *Starter) findBinary() (string, error) {
	if s.Binary != "" {
		return s.Binary, nil
	}
	if self, err := os.Executable(); err == nil {
		if target, err := filepath.EvalSymlinks(self); err == nil {
			self = target
		}
		beside := filepath.Join(filepath.Dir(self), "mossd")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return beside, nil
		}
	}
	found, err := exec.LookPath("mossd")
	if err != nil {
		return "", fmt.Errorf("no engine at %s, and mossd is neither beside moss nor in PATH", s.Place.Host)
	}
	return found, nil
}

// LogPath returns where an engine that is started here writes its log: $XDG_STATE_HOME/moss/mossd.log, its place in the home
// folder, or in the folder of this boot.
func (s *Starter) LogPath() string {
	const name = "mossd.log"
	if base := s.Env("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "moss", name)
	}
	if home := s.Env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "moss", name)
	}
	return filepath.Join(s.Place.RunDir, name)
}

// tailSize is how much of the log's end is looked through for its last line, in bytes.
const tailSize = 4 << 10

// lastLine returns the last line of a log that was written at or after begin.
func lastLine(path string, begin int64) string {
	file, err := os.Open(path)
	if err != nil {
		return "no log: " + err.Error()
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size()-begin > tailSize {
		begin = info.Size() - tailSize
	}
	raw, err := io.ReadAll(io.NewSectionReader(file, begin, tailSize))
	if err != nil {
		return "no log: " + err.Error()
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "it said nothing; see " + path
	}
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// takeStartLock takes the start lock. The file stays: removing it would let two starters hold two locks.
func takeStartLock(ctx context.Context, path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the start lock: %w", err)
	}
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("take the start lock: %w", err)
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait for another command to start the engine: %w", ctx.Err())
		case <-tick.C:
		}
	}
}
