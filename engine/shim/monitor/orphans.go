package monitor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/pidfd"
	"moss/engine/shim/proto"
)

// orphanLimit is how long the ends of a killed shim and of its calls of the runtime are waited for: the kernel may hold them.
const orphanLimit = 5 * time.Second

// endRuntimeCalls ends the calls of the runtime that a killed shim has left. One that goes on would make its container after
// the container has been deleted. The signal of its parent's end does not suffice: it comes later than the end of the shim's
// sockets, and crun makes containers in a session of their own, which the signal does not reach.
func endRuntimeCalls(ctx context.Context, dir, id string) {
	ctx, cancel := context.WithTimeout(ctx, orphanLimit)
	defer cancel()
	if alive, err := proto.ReadAlive(dir); err == nil { // a shim of an earlier version has not said which process it is
		_ = alive.Shim.Await(ctx)
	}
	// A call that forks and ends while the processes are listed is not seen, but the process that it has forked is the next time.
	for empty := 0; empty < 2 && ctx.Err() == nil; empty++ {
		for _, call := range runtimeCalls(dir, id) {
			empty = -1
			_ = call.Signal(int(unix.SIGKILL)) // it may have ended
			_ = call.Await(ctx)
		}
	}
}

// runtimeCalls lists the processes other than this one that work in a task's folder and have the container's id among their
// arguments.
func runtimeCalls(dir, id string) []pidfd.ID {
	var want, have unix.Stat_t
	folders, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil || unix.Stat(dir, &want) != nil {
		return nil
	}
	var calls []pidfd.ID
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
		if err != nil || pid == os.Getpid() || unix.Stat(folder, &have) != nil || have.Dev != want.Dev || have.Ino != want.Ino {
			continue // another's, or it has ended
		}
		call, err := pidfd.Find(pid) // before the arguments are read: they are then this process's, or a later one's
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(folder), "cmdline")) // it may have ended
		if slices.ContainsFunc(bytes.Split(line, []byte{0}), func(arg []byte) bool { return string(arg) == id }) {
			calls = append(calls, call)
		}
	}
	return calls
}
