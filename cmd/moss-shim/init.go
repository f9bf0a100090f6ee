package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// isInit reports whether this process is the first one of a container that asked for Init: its command follows.
func isInit(argv []string) bool {
	return len(argv) >= 3 && filepath.Base(argv[0]) == "init" && argv[1] == "--"
}

// The codes of shells for a command that is not there, that cannot be run, and that a signal has ended.
const (
	codeNotFound  = 127
	codeNotRun    = 126
	codeSignalled = 128
)

// runInit runs a command as its child, passes signals on to it and releases all processes whose parents are gone, until the
// child has ended. It returns the child's code. With a terminal the child's group is in the foreground.
func runInit(command []string) (int, error) {
	signals, children := make(chan os.Signal, 128), make(chan os.Signal, 1) // one says that some child has ended
	signal.Notify(signals)
	signal.Notify(children, unix.SIGCHLD)
	path, err := exec.LookPath(command[0])
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return codeNotFound, err
		}
		return codeNotRun, err
	}
	attr := &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	if _, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS); err == nil {
		attr.Sys.Foreground = true // of the terminal at descriptor 0
	}
	child, err := os.StartProcess(path, command, attr)
	if err != nil {
		return codeNotRun, fmt.Errorf("run %s: %w", path, err)
	}
	for {
		select {
		case <-children:
			if code, ended := reap(child.Pid); ended {
				return code, nil
			}
		case s := <-signals:
			// SIGURG is what Go's own scheduler sends to its threads, and no word tells the two apart. SIGPROF and 34 do not come
			// here: the runtime keeps them to itself.
			if s != unix.SIGCHLD && s != unix.SIGURG {
				_ = child.Signal(s) // it may have ended just now
			}
		}
	}
}

// reap releases the processes that have ended. It returns how the child did, once it is among them.
func reap(child int) (code int, ended bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || pid <= 0:
			return code, ended
		case pid != child:
		case status.Signaled():
			code, ended = codeSignalled+int(status.Signal()), true
		default:
			code, ended = status.ExitStatus(), true
		}
	}
}
