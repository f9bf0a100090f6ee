package main

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

// reap runs this program again and becomes the parent of what its engines leave: podman waits 20 s for a monitor that
// has ended and that init has not reaped, which not every container's or machine's init does at once. What is left when
// the measuring is over (podman's pause process) is ended.
func reap(ctx context.Context) (int, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1, fmt.Errorf("adopt orphans: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	files := []uintptr{0, 1, 2}
	if fd, err := strconv.Atoi(os.Getenv(envOut)); err == nil {
		files = append(files, uintptr(fd))
	}
	child, err := syscall.ForkExec(self, os.Args, &syscall.ProcAttr{Env: append(os.Environ(), envReaped+"=1"), Files: files})
	if err != nil {
		return 1, fmt.Errorf("start measuring: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = unix.Kill(child, unix.SIGTERM) })()
	code := 1
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD: nothing is left
			return code, nil
		case pid == child:
			code = status.ExitStatus()
			endChildren()
			go keepEnding()
		}
	}
}

// keepEnding ends what becomes a child only because its own parent has been ended. It lasts as long as the process.
func keepEnding() {
	for range time.Tick(20 * time.Millisecond) {
		endChildren()
	}
}

func endChildren() {
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
