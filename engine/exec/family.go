package exec

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// killFamily kills a process with all below it, which would otherwise stay behind: a shell that waits for what hangs. Each
// is stopped before its children are looked at, so that none is added meanwhile. Where the kernel has no pidfds (before
// 5.3) it does nothing, and the caller's own signal has to do.
func killFamily(pid int) {
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may have ended
			_ = unix.Close(fd)
		}
	}()
	var stop func(pid, parent int)
	stop = func(pid, parent int) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return
		}
		// The number may have gone to another process before it was opened; one that is still the parent's child did not.
		if parent != 0 && parentOf(pid) != parent || unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) != nil {
			_ = unix.Close(fd)
			return
		}
		fds = append(fds, fd)
		for _, child := range childrenOf(pid) {
			stop(child, pid)
		}
	}
	stop(pid, 0)
}

// childrenOf lists the children of all threads of a process.
func childrenOf(pid int) []int {
	base := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(base)
	if err != nil {
		return nil
	}
	var children []int
	for _, thread := range threads {
		raw, err := os.ReadFile(base + "/" + thread.Name() + "/children")
		if err != nil {
			continue // the thread has ended
		}
		for word := range strings.FieldsSeq(string(raw)) {
			if child, err := strconv.Atoi(word); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// parentOf returns a process's parent; 0 if it has ended.
func parentOf(pid int) int {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// PID (NAME) STATE PARENT: the name may hold anything.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}
