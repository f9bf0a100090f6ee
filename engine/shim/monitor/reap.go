package monitor

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// runtimeLeaves is when a runtime's own second process, whose parent the shim becomes, has surely ended.
	runtimeLeaves = 100 * time.Millisecond
	// orphanPeriod is how often others are looked for. Only a container in the shim's pid namespace keeps leaving some to it.
	orphanPeriod = 2 * time.Second
	// pollPeriod is how often a process is looked at on a kernel without pidfd_open (before 5.3).
	pollPeriod = 20 * time.Millisecond
)

// shieldFromSignals lets the shim survive what a session or service manager sends to all processes. Ignored signals stay
// ignored through exec: crun sets them back for the container, other runtimes may not, so for them they are caught, which
// costs two threads. There is no handler for SIGCHLD: a pidfd tells of the end, without threads.
func shieldFromSignals(runtime string) {
	signals := []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2}
	if filepath.Base(runtime) == "crun" {
		signal.Ignore(signals...)
		return
	}
	signal.Notify(make(chan os.Signal, 1), signals...) // nobody reads it: what does not fit is dropped
}

// watchExit waits for the end of the process, collects it and makes it known.
func (p *process) watchExit(ctx context.Context, pid int) {
	var ws unix.WaitStatus
	done := false
	look := func() bool {
		ws, done = p.collectExit()
		return done
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err == nil {
		f := os.NewFile(uintptr(fd), "pid "+strconv.Itoa(pid))
		defer func() { _ = f.Close() }()
		err = pollPidfd(f, look)
	}
	for err != nil && !done {
		<-time.After(pollPeriod)
		look()
	}
	p.endStarted(ctx, exitCode(ws), time.Now().UTC())
}

// pollPidfd calls look whenever a pidfd tells news until it returns true. A process that has ended may yet be its maker's
// child: that it becomes the shim's is news as well, and in case some kernel tells none, it is not waited for.
func pollPidfd(f *os.File, look func() bool) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	for {
		err = raw.Read(func(fd uintptr) bool {
			done := look()
			if !done && isReadable(int(fd)) {
				_ = f.SetReadDeadline(time.Now().Add(pollPeriod))
			}
			return done
		})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		_ = f.SetReadDeadline(time.Time{})
	}
}

// isReadable reports whether a read would not wait. A pidfd is readable once its process has ended.
func isReadable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor
	n, err := unix.Poll(fds, 0)
	return n > 0 && err == nil
}

// collectExit takes the process from the kernel if it has ended and has become the shim's child. Only
// watchExit does so.
func (p *process) collectExit() (ws unix.WaitStatus, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		pid, err := unix.Wait4(p.pid, &ws, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if pid != p.pid {
			return ws, false
		}
		p.state = ended
		return ws, true
	}
}

// reaper collects the processes that became the shim's children without being started by it.
type reaper struct {
	container *container
	execs     *execTable

	mu     sync.Mutex // guards adopts
	adopts int        // calls of adoptStrangers since its goroutine began; 0: the goroutine does not run
}

// adoptStrangers looks after processes that became the shim's children without being started by it: what a runtime leaves,
// and in the shim's own pid namespace everything whose parent has ended.
func (r *reaper) adoptStrangers(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.adopts++
	if r.adopts > 1 {
		return
	}
	go func() {
		for wait := runtimeLeaves; ; {
			select {
			case <-ctx.Done():
				return
			case <-r.container.ending:
				return
			case <-time.After(wait):
			}
			calls := r.countAdopts()
			left := r.collectStrangers()
			switch {
			case !left && r.container.family.ownPids && r.endAdopting(calls):
				return
			case r.countAdopts() != calls:
				wait = runtimeLeaves
			default:
				wait = orphanPeriod
			}
		}
	}()
}

func (r *reaper) countAdopts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.adopts
}

// endAdopting ends what adoptStrangers began unless it was called again meanwhile.
func (r *reaper) endAdopting(calls int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.adopts != calls {
		return false
	}
	r.adopts = 0
	return true
}

// collectStrangers collects ended children without a watcher. It reports whether there are some that
// have not ended, or may be.
func (r *reaper) collectStrangers() bool {
	if !r.container.children.TryLock() {
		return true
	}
	defer r.container.children.Unlock()
	return r.collectStrangersLocked()
}

func (r *reaper) collectStrangersLocked() bool {
	watched := r.execs.watchedPids()
	left := false
	for _, child := range childPids() {
		if watched[child] {
			continue
		}
		pid, err := unix.Wait4(child, nil, unix.WNOHANG, nil)
		left = left || pid != child && err != unix.ECHILD
	}
	return left
}

func exitCode(ws unix.WaitStatus) int {
	if ws.Signaled() {
		return codeSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}
