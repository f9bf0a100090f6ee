// Package reaper runs a program as the parent of all that it leaves behind: engines, monitors, podman's pause process.
package reaper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is how long the program has for its own end after SIGTERM.
const grace = 10 * time.Second

// Run starts the program argv[0] with this process's environment and the variables of env, and waits for its end and for
// that of all its descendants; those that outlive it are killed. The open files have the numbers 0, 1, 2 … in it. When ctx
// ends, the program gets SIGTERM, and SIGKILL after ten seconds. code is its exit status, or 128 and the number of the
// signal that ended it. Run reaps every child of this process, so it must not have others; it goes on adopting orphans.
func Run(ctx context.Context, argv, env []string, files []*os.File) (code int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1, fmt.Errorf("adopt orphans: %w", err)
	}
	program, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Env: append(os.Environ(), env...), Files: files})
	if err != nil {
		return 1, err
	}
	ended := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		_ = program.Signal(unix.SIGTERM) // it may have ended
		select {
		case <-ended:
		case <-time.After(grace):
			_ = program.Kill()
		}
	})()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, fmt.Errorf("wait for %s: %w", argv[0], err)
		case pid == program.Pid:
			close(ended)
			endChildren()
			if status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return status.ExitStatus(), nil
		}
	}
}

// endChildren kills and reaps until no child is left: some become children only when their own parent has ended. Nothing
// else reaps meanwhile, so a number in the list is still that child's when it is used.
func endChildren() {
	for {
		killChildren()
		if _, err := syscall.Wait4(-1, nil, 0, nil); errors.Is(err, syscall.ECHILD) {
			return
		}
	}
}

func killChildren() {
	lists, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is well formed
	for _, list := range lists {
		raw, _ := os.ReadFile(list) // a thread that has ended has none
		for field := range strings.FieldsSeq(string(raw)) {
			if pid, err := strconv.Atoi(field); err == nil {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
}
