package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fdstore"
)

const (
	statusPanic   = 2  // what a Go program ends with after a panic
	statusRestart = 75 // what the engine ends with when it wants to be started again

	firstBackOff = 100 * time.Millisecond // doubles with each child in a row that died young
	lastBackOff  = 5 * time.Second
	// young is the age below which a child's end says that the next one may end the same way. An engine serves in less, so
	// one that was killed or replaced in its work is older.
	young = time.Second

	notExecuted = 127

	supervisorName = "moss-supervisor" // as ps shows it, which is shown 15 bytes at most
)

// superviseCommand runs a command, passes signals on to it, and starts it again when it crashes or asks for it. It ends with
// the command's own status, with its parent, or when the command ends after a forwarded SIGTERM or SIGINT. Sockets that the
// outer process lends are passed on as MOSS_LISTEN_FDS, and whatever the command puts into its descriptor store is there
// when it is started again. argv[0] is only the name that the command gets.
func superviseCommand(command string, argv []string) (int, error) {
	// The parent-death signal belongs to the thread that forked: this one stays for the life of the process.
	runtime.LockOSThread()
	parent := os.Getppid()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return 1, fmt.Errorf("follow the parent: %w", err)
	}
	if os.Getppid() != parent {
		return 1, errors.New("the parent has gone")
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	path, err := exec.LookPath(command)
	if err != nil {
		return notExecuted, err
	}
	// Whoever signals moss-shim by its name means those beside containers.
	_ = os.WriteFile("/proc/self/comm", []byte(supervisorName), 0) // only people read it
	s := &supervisor{path: path, argv: argv, signals: signals}
	s.shelf.Warn = func(err error) { fmt.Fprintf(os.Stderr, "moss-shim: %v\n", err) }
	defer s.shelf.Close()
	if s.env, s.files, err = takeLentSockets(os.Environ(), fdstore.Fetch); err != nil {
		return 1, err
	}
	return s.restartUntilEnd()
}

type supervisor struct {
	path     string
	argv     []string
	env      []string
	files    []uintptr
	signals  <-chan os.Signal
	stopping bool // a signal to end was forwarded
	shelf    fdstore.Shelf
}

func (s *supervisor) restartUntilEnd() (int, error) {
	var wait time.Duration
	for {
		begun := time.Now()
		pid, err := s.startChild()
		if err != nil {
			return notExecuted, fmt.Errorf("run %s: %w", s.path, err)
		}
		ws, err := s.awaitChild(pid)
		if err != nil {
			return 1, err
		}
		s.shelf.Wait()
		if s.stopping || !needsRestart(ws) {
			return statusOf(ws), nil
		}
		wait = backOff(wait, time.Since(begun))
		if ws.ExitStatus() == statusRestart && wait == 0 {
			continue
		}
		fmt.Fprintf(os.Stderr, "moss-shim: %s ended with status %d, starting it again in %s\n", s.argv[0], statusOf(ws), wait)
		if s.sleepBeforeRestart(wait) {
			return statusOf(ws), nil
		}
	}
}

// backOff returns how long the next child has to wait for its start: last is what this one waited, lived how long it ran.
func backOff(last, lived time.Duration) time.Duration {
	if lived >= young {
		return 0
	}
	return min(max(2*last, firstBackOff), lastBackOff)
}

// startChild starts the child with a new way to the descriptor store, after the sockets that were lent.
func (s *supervisor) startChild() (pid int, err error) {
	store, err := s.shelf.Serve()
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(store) }()
	return syscall.ForkExec(s.path, s.argv, &syscall.ProcAttr{
		Env:   append(slices.Clip(s.env), fdstore.Env+"="+strconv.Itoa(len(s.files))),
		Files: append(slices.Clip(s.files), uintptr(store)),
		Sys:   &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
	})
}

// awaitChild forwards signals to the child until it has ended.
func (s *supervisor) awaitChild(pid int) (syscall.WaitStatus, error) {
	type result struct {
		ws  syscall.WaitStatus
		err error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		for {
			if _, r.err = syscall.Wait4(pid, &r.ws, 0, nil); r.err != syscall.EINTR { //nolint:errorlint // a bare errno
				break
			}
		}
		done <- r
	}()
	for {
		select {
		case r := <-done:
			return r.ws, r.err
		case sig := <-s.signals:
			s.forwardSignal(pid, sig)
		}
	}
}

// forwardSignal passes a signal on. The second one to end is not passed on: the first is being obeyed.
func (s *supervisor) forwardSignal(pid int, sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	if ends := number != unix.SIGHUP; ends {
		if s.stopping {
			return
		}
		s.stopping = true
	}
	_ = syscall.Kill(pid, number) // it may have ended just now
}

// sleepBeforeRestart waits before a restart and reports whether a signal to end came instead.
func (s *supervisor) sleepBeforeRestart(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return false
		case sig := <-s.signals:
			if sig != unix.SIGHUP {
				return true
			}
		}
	}
}

func needsRestart(ws syscall.WaitStatus) bool {
	return ws.Signaled() || ws.ExitStatus() == statusPanic || ws.ExitStatus() == statusRestart
}

func statusOf(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// takeLentSockets returns the child's environment and descriptors: the standard ones, then the sockets that fetch gets where the
// environment says that there are some. MOSS_LISTEN_FDS tells the child how many they are.
func takeLentSockets(environ []string, fetch func(path string) ([]int, error)) (env []string, files []uintptr, err error) {
	files = []uintptr{0, 1, 2}
	var lent string
	for _, kv := range environ {
		key, value, _ := strings.Cut(kv, "=")
		switch key {
		case fdstore.LentEnv:
			lent = value
		case "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "MOSS_LISTEN_FDS", fdstore.Env:
		default:
			env = append(env, kv)
		}
	}
	if lent == "" {
		return env, files, nil
	}
	fds, err := fetch(lent)
	if err != nil {
		return nil, nil, fmt.Errorf("take over the listening sockets: %w", err)
	}
	for _, fd := range fds {
		files = append(files, uintptr(fd))
	}
	return append(env, "MOSS_LISTEN_FDS="+strconv.Itoa(len(fds))), files, nil
}
