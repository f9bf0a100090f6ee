package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/shim/proto"
)

// launchShim starts the shim of a task and waits until it serves.
func (r *Runner) launchShim(ctx context.Context, t *Task) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	p, err := r.forkShim(t.dir, theirs)
	_ = theirs.Close()
	if err != nil {
		_ = ours.Close()
		return fmt.Errorf("start moss-shim: %w", err)
	}
	t.hold, t.proc = ours, p
	var reply proto.Reply
	bounded, cancel := context.WithTimeoutCause(ctx, r.limits.ready, silenceError(r.limits.ready))
	defer cancel()
	err = exchangeMessages(bounded, ours, nil, &reply)
	if err != nil && bounded.Err() == nil {
		err = fmt.Errorf("moss-shim ended before it was ready (%w): %s", err, lastWords(t.dir))
	}
	if err == nil {
		err = reply.Err()
	}
	if err != nil {
		p.killAndWait(r.limits.end)
		_ = ours.Close()
	}
	return err
}

// socketPair makes the control connection.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	mine, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	conn, err := net.FileConn(mine)
	_ = mine.Close() // FileConn has its own
	if err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	return conn.(*net.UnixConn), theirs, nil //nolint:forcetypeassert // it was made as one
}

// process is a shim that this engine started and must reap.
type process struct {
	pid    int
	exited chan struct{} // closed when it has been reaped
}

func (r *Runner) forkShim(dir string, control *os.File) (*process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	log, err := os.OpenFile(filepath.Join(dir, proto.LogFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	pidfd := -1
	pid, err := syscall.ForkExec(r.path, []string{"moss-shim", "run", dir}, &syscall.ProcAttr{
		Dir: dir,
		Env: r.env,
		// A session of its own: no terminal's and no process group's signals reach it.
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
		Files: []uintptr{null.Fd(), null.Fd(), log.Fd(), control.Fd()},
	})
	if err != nil {
		return nil, err
	}
	p := &process{pid: pid, exited: make(chan struct{})}
	go p.reap(pidfd) // ends with the shim
	return p, nil
}

// reap waits for the shim without holding a thread for it.
func (p *process) reap(pidfd int) {
	defer close(p.exited)
	collect := func(options int) bool {
		for {
			pid, err := syscall.Wait4(p.pid, nil, options, nil)
			if !errors.Is(err, syscall.EINTR) {
				return pid == p.pid || err != nil
			}
		}
	}
	if pidfd >= 0 && unix.SetNonblock(pidfd, true) == nil {
		f := os.NewFile(uintptr(pidfd), "pidfd")
		defer func() { _ = f.Close() }()
		if raw, err := f.SyscallConn(); err == nil && raw.Read(func(uintptr) bool { return collect(syscall.WNOHANG) }) == nil {
			return
		}
	}
	collect(0) // a kernel without pidfd, or one that cannot poll it
}

// killAndWait kills a shim that failed to get ready and waits until it is gone, or has not gone by the limit: the kernel may
// hold it. It runs no code any more.
func (p *process) killAndWait(limit time.Duration) {
	select {
	case <-p.exited:
		return
	default:
	}
	_ = syscall.Kill(p.pid, syscall.SIGKILL) // not reaped yet, so the number is still its own
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	}
}

// runCleanup lets moss-shim end and record a container whose shim was killed.
func (r *Runner) runCleanup(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, r.path, "cleanup", dir)
	cmd.Env, cmd.Dir = r.env, dir
	cmd.WaitDelay = 100 * time.Millisecond // a runtime that goes on after ctx has the pipe as well
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) { // with that it ended well, whoever else has the pipe
		return fmt.Errorf("moss-shim cleanup: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
