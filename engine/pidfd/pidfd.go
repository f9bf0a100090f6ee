// Package pidfd tells processes apart and signals them: by number and time of start, since the kernel gives a number to
// another process later. It knows nothing of containers.
package pidfd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ID names one process of this boot, in the pid namespace of whoever made it. The zero value names none.
type ID struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks after the boot, as in /proc/PID/stat
}

// Find returns the ID of a living process. os.ErrProcessDone if there is none of that number.
func Find(pid int) (ID, error) {
	stat, ok := ReadStat(pid)
	if !ok {
		return ID{}, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	return ID{Pid: pid, Start: stat.Start}, nil
}

// Lives reports whether the process has not ended.
func (id ID) Lives() bool {
	stat, ok := ReadStat(id.Pid)
	return ok && stat.Start == id.Start && !stat.Dead()
}

// Signal sends a signal to the process and to no other one that has its number by now. os.ErrProcessDone if it has gone.
func (id ID) Signal(signal int) error {
	fd, err := id.openFD()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	switch err := unix.PidfdSendSignal(fd, unix.Signal(signal), nil, 0); {
	case errors.Is(err, unix.ESRCH):
		return id.doneError()
	case err != nil:
		return fmt.Errorf("signal process %d: %w", id.Pid, err)
	}
	return nil
}

// Await returns when the process has ended, whether its parent has noticed or not.
func (id ID) Await(ctx context.Context) error {
	fd, err := id.openFD()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("wait for process %d: %w", id.Pid, err)
	}
	f := os.NewFile(uintptr(fd), "process "+strconv.Itoa(id.Pid))
	defer func() { _ = f.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := f.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool { return isReadable(int(fd)) })
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("process %d has not ended: %w", id.Pid, context.Cause(ctx))
	default:
		return fmt.Errorf("wait for process %d: %w", id.Pid, err)
	}
}

// openFD returns a pidfd of the process. The number is compared after the opening: a process that began at the noted time and
// has the number now had it before.
func (id ID) openFD() (fd int, err error) {
	fd, err = unix.PidfdOpen(id.Pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL): // EINVAL: no number of a process
		return -1, id.doneError()
	case err != nil:
		return -1, fmt.Errorf("open process %d: %w", id.Pid, err)
	}
	if stat, ok := ReadStat(id.Pid); !ok || stat.Start != id.Start {
		_ = unix.Close(fd)
		return -1, id.doneError()
	}
	return fd, nil
}

func (id ID) doneError() error { return fmt.Errorf("process %d: %w", id.Pid, os.ErrProcessDone) }

// isReadable reports whether a read would not wait. A pidfd is readable once its process has ended.
func isReadable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor
	n, err := unix.Poll(fds, 0)
	return n > 0 && err == nil
}

// Stat is what /proc/PID/stat says of a process.
type Stat struct {
	State   byte   // of its first thread
	Threads int    // that have not ended, and the first one
	Start   uint64 // in clock ticks after the boot
}

// ReadStat reports false if the process has gone.
func ReadStat(pid int) (Stat, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, false
	}
	return parseStat(data)
}

// parseStat reads "pid (name) state …"; the name is the process's own and may hold anything.
func parseStat(data []byte) (s Stat, ok bool) {
	const threadsField, startField = 17, 19 // counted from the state, which is the third of all
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return s, false
	}
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) <= startField || len(fields[0]) != 1 {
		return s, false
	}
	threads, err := strconv.Atoi(fields[threadsField])
	if err != nil {
		return s, false
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return s, false
	}
	return Stat{State: fields[0][0], Threads: threads, Start: start}, true
}

// Dead reports whether the process has ended and only its parent has not noticed. One whose first thread has ended lives as
// long as another does.
func (s Stat) Dead() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

// Still reports whether the process is stopped.
func (s Stat) Still() bool { return s.State == 'T' || s.State == 't' }

// Runs reports whether the process may execute code of its own: it is on a processor, waits for one, or sleeps
// interruptibly. One that sleeps otherwise is in the kernel and stops on its way out.
func (s Stat) Runs() bool { return s.State == 'R' || s.State == 'S' }
