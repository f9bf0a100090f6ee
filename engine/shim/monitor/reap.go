package monitor

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// crunLeaves is when crun's own second process, whose parent the shim becomes, has surely ended.
	crunLeaves = 100 * time.Millisecond
	// orphanPeriod is how often orphans are looked for. Only a container in the shim's pid namespace leaves any to it.
	orphanPeriod = 2 * time.Second
	// pollPeriod is how often the first process is looked at on a kernel without pidfd_open (before 5.3).
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

// watchProcess returns when the first process has ended and been collected.
func (m *monitor) watchProcess(ctx context.Context, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err == nil {
		f := os.NewFile(uintptr(fd), "pid "+strconv.Itoa(pid))
		defer func() { _ = f.Close() }()
		var raw syscall.RawConn
		if raw, err = f.SyscallConn(); err == nil {
			err = raw.Read(func(uintptr) bool { return m.reap(ctx) })
		}
	}
	for err != nil && !m.reap(ctx) {
		<-time.After(pollPeriod)
	}
}

// reapOthers collects what else became a child of the shim, as long as the task runs.
func (m *monitor) reapOthers(ctx context.Context, pid int) {
	mine, merr := os.Readlink("/proc/self/ns/pid")
	its, ierr := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/pid")
	alone := merr == nil && ierr == nil && mine != its
	for wait := crunLeaves; ; wait = orphanPeriod {
		select {
		case <-m.over:
			return
		case <-time.After(wait):
		}
		if m.reap(ctx) || alone {
			return
		}
	}
}

// reap collects every child that has ended and reports whether the first process is among them or was before: its end is
// the task's.
func (m *monitor) reap(ctx context.Context) bool {
	m.children.Lock()
	defer m.children.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return m.state != running
		}
		if pid == m.pid && m.state == running {
			m.state = ended
			go m.finish(ctx, exitCode(ws), time.Now().UTC())
		}
	}
}

func exitCode(ws unix.WaitStatus) int {
	if ws.Signaled() {
		return codeSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}
