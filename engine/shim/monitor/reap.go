package monitor

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
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

// watch waits for the end of the process, collects it and makes it known.
func (p *process) watch(ctx context.Context, pid int) {
	var ws unix.WaitStatus
	done := false
	look := func() bool {
		ws, done = p.collect()
		return done
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err == nil {
		f := os.NewFile(uintptr(fd), "pid "+strconv.Itoa(pid))
		defer func() { _ = f.Close() }()
		err = poll(f, look)
	}
	for err != nil && !done {
		<-time.After(pollPeriod)
		look()
	}
	p.finish(ctx, exitCode(ws), time.Now().UTC())
}

// poll calls look whenever a pidfd tells news until it returns true. A process that has ended may yet be its maker's
// child: that it becomes the shim's is news as well, and in case some kernel tells none, poll does not wait for it.
func poll(f *os.File, look func() bool) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	for {
		err = raw.Read(func(fd uintptr) bool {
			done := look()
			if !done && readable(int(fd)) {
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

// readable reports whether a read would not wait. A pidfd is readable once its process has ended.
func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor
	n, err := unix.Poll(fds, 0)
	return n > 0 && err == nil
}

// collect takes the process from the kernel if it has ended and has become the shim's child. Only watch does so.
func (p *process) collect() (ws unix.WaitStatus, ok bool) {
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

// adopt looks after processes that became the shim's children without being started by it: what a runtime leaves, and in
// the shim's own pid namespace everything whose parent has ended.
func (m *monitor) adopt(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.adopts++
	if m.adopts > 1 {
		return
	}
	go func() {
		for wait := runtimeLeaves; ; {
			select {
			case <-ctx.Done():
				return
			case <-m.ending:
				return
			case <-time.After(wait):
			}
			calls := m.adoptions()
			left := m.collectStrangers()
			switch {
			case !left && m.ownPids && m.adopted(calls):
				return
			case m.adoptions() != calls:
				wait = runtimeLeaves
			default:
				wait = orphanPeriod
			}
		}
	}()
}

func (m *monitor) adoptions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.adopts
}

// adopted ends what adopt began unless it was called again meanwhile.
func (m *monitor) adopted(calls int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.adopts != calls {
		return false
	}
	m.adopts = 0
	return true
}

// collectStrangers collects children that have ended and that nobody watches. It reports whether there are some that
// have not ended, or may be.
func (m *monitor) collectStrangers() bool {
	if !m.children.TryLock() {
		return true
	}
	defer m.children.Unlock()
	return m.collectStrangersLocked()
}

func (m *monitor) collectStrangersLocked() bool {
	watched := m.watched()
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

// watched returns the processes that watch collects.
func (m *monitor) watched() map[int]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	pids := map[int]bool{}
	note := func(p *process) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.state == running {
			pids[p.pid] = true
		}
	}
	note(m.first)
	for _, p := range m.execs {
		note(p)
	}
	return pids
}

func exitCode(ws unix.WaitStatus) int {
	if ws.Signaled() {
		return codeSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}
