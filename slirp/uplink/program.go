package uplink

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// startWait is how long a program may take until it carries packets.
	startWait = 30 * time.Second
	// pipeWait is how long an ended program's output may stay open: whatever else holds it is not waited for.
	pipeWait = time.Second
	// closeWait is how long a program may take to end once it can no longer say that it is ready: its reason is worth more
	// than ours. It is longer than pipeWait, within which the end of a program that has died is known.
	closeWait = 5 * time.Second
	// tailSize in bytes is how much of a program's last words is kept.
	tailSize = 2 << 10
)

// place is where a program attaches: the namespaces of RootlessKit's child, which lives as long as the outer process.
type place struct {
	childPID int
	netns    string // path of the detached network namespace as the outer process sees it
}

// program is a driver that runs as a process of its own, in the foreground, on a tap device that is there already and
// outlives it.
type program struct {
	name string
	args func(at place) []string
	// notify prepares cmd to say on the returned file that packets are carried. The caller closes both ends.
	notify  func(cmd *exec.Cmd) (ready *os.File, err error)
	explain func(said error) error
	binary  string
	send    int // Status.Send
}

// process is a program that runs.
type process struct {
	pid   int
	kill  func() error
	ended chan error // gets the reason, once; the process is then reaped
}

// killAndWait kills the process, waits for it and returns how it ended.
func (p *process) killAndWait() error {
	_ = p.kill() // one that has ended is no error
	return <-p.ended
}

// start returns when the program carries packets. It ends with the calling thread, which therefore must not end before:
// the kernel sends the parent's death signal for the thread that forked. log gets what the program says.
func (p program) start(at place, log io.Writer) (*process, error) {
	cmd := exec.Command(p.binary, p.args(at)...) //nolint:noctx // it lives as long as the uplink
	words := &tail{to: log}
	cmd.Stdout, cmd.Stderr = words, words
	cmd.WaitDelay = pipeWait
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ready, err := p.notify(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	defer func() { _ = ready.Close() }()
	err = cmd.Start()
	for _, f := range cmd.ExtraFiles {
		_ = f.Close() // the program has its own
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	run := &process{pid: cmd.Process.Pid, kill: cmd.Process.Kill, ended: make(chan error, 1)}
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = errors.New("it ended by itself")
		}
		run.ended <- p.explain(words.addLastWords(err))
	}()
	if err := run.awaitReady(ready); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return run, nil
}

// awaitReady ends the process unless it says in time that it is ready.
func (p *process) awaitReady(ready *os.File) error {
	if err := ready.SetReadDeadline(time.Now().Add(startWait)); err != nil {
		return errors.Join(err, p.killAndWait())
	}
	said := make(chan error, 1)
	go func() {
		_, err := ready.Read(make([]byte, 1))
		said <- err
	}()
	select {
	case why := <-p.ended:
		if !wasReady(ready, said) {
			return why
		}
		p.ended <- why // it has run, and its end is for those who watch it
		return nil
	case err := <-said:
		switch {
		case err == nil:
			return nil
		case errors.Is(err, io.EOF): // it has closed its end, or is about to: by its own death
			select {
			case why := <-p.ended:
				return why
			case <-time.After(closeWait):
			}
		}
		return errors.Join(fmt.Errorf("wait until it is ready: %w", err), p.killAndWait())
	}
}

// wasReady tells whether a process that has ended said before that it was ready. said is what a reader of ready has found,
// who may still be at it.
func wasReady(ready *os.File, said <-chan error) bool {
	if ready.SetReadDeadline(time.Now()) != nil {
		return false
	}
	if err := <-said; !errors.Is(err, os.ErrDeadlineExceeded) {
		return err == nil
	}
	raw, err := ready.SyscallConn()
	if err != nil || ready.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	n := 0
	err = raw.Read(func(fd uintptr) bool {
		n, _ = unix.Read(int(fd), make([]byte, 1))
		return true
	})
	return err == nil && n == 1
}

// tail passes a program's output on and keeps the end of it.
type tail struct {
	to io.Writer

	mu   sync.Mutex // guards last
	last []byte
}

// Write never fails: a program must not end because its words are lost.
func (t *tail) Write(b []byte) (int, error) {
	_, _ = t.to.Write(b)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if over := len(t.last) - tailSize; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(b), nil
}

// addLastWords adds the last words to the reason of the end.
func (t *tail) addLastWords(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := bytes.TrimSpace(t.last); len(last) > 0 {
		return fmt.Errorf("%w:\n%s", err, last)
	}
	return err
}
