package oci

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// outputWait is how long the output of a runtime is waited for that has ended itself: something else holds it.
const outputWait = 2 * time.Second

// newCommand prepares a call of the runtime: a process group of its own, which ends whole when ctx does.
// Dir is where the runtime keeps temporary files; empty: the system's folder.
func (r *Runtime) newCommand(ctx context.Context, dir, log string, args []string) *exec.Cmd {
	global := append([]string{}, r.rt.GlobalArgs...)
	if r.rt.Root != "" {
		global = append(global, "--root", r.rt.Root)
	}
	if log != "" {
		// The format stays text: in JSON crun would write to the container's stderr in JSON as well when execve fails.
		global = append(global, "--log", log)
	}
	cmd := exec.CommandContext(ctx, r.rt.Path, append(global, args...)...)
	cmd.Env = append([]string{}, r.env...)
	if dir != "" {
		// crun 1.8 and runc 1.1 execute a copy of themselves, which they make here, or else in /tmp.
		cmd.Env = append(cmd.Env, "TMPDIR="+dir, "_LIBCONTAINER_STATEDIR="+dir)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killTree(cmd.Process) }
	cmd.WaitDelay = outputWait
	return cmd
}

// runCommand starts a call with start and waits for its end. A runtime that does not end before ctx is killed with all that it
// has started.
func runCommand(ctx context.Context, cmd *exec.Cmd, start func() error) error {
	err := start()
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("it did not end in time and was killed")
	}
	return err
}

// killTree ends a runtime with its process group and with those below it that have left the group. They are stopped first, from
// the top down, so that none makes another one or goes to another parent before it is found; as long as its parent is
// stopped, a number is nobody else's.
func killTree(runtime *os.Process) error {
	if err := runtime.Signal(unix.SIGSTOP); err != nil {
		return err // it has ended
	}
	tree := []int{runtime.Pid}
	for i := 0; i < len(tree); i++ {
		for _, child := range childrenOf(tree[i]) {
			_ = unix.Kill(child, unix.SIGSTOP)
			tree = append(tree, child)
		}
	}
	for _, pid := range tree[1:] {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	_ = unix.Kill(-runtime.Pid, unix.SIGKILL) // those whose parent has ended
	return runtime.Kill()
}

func childrenOf(pid int) []int {
	files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		return nil
	}
	var pids []int
	for _, file := range files {
		data, _ := os.ReadFile(file) // of a thread that has ended there is nothing
		for field := range strings.FieldsSeq(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// DropCopies removes what a runtime that was killed on its way has left in its folder for temporary files: the copy of
// itself, which may be a mount. What is to be removed with all in it gets such a file out of its way first.
func DropCopies(dir string) {
	if dir == "" {
		return // the system's folder: others make theirs there
	}
	for _, pattern := range []string{"crun.??????", "runc.??????"} {
		copies, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is a good one
		for _, name := range copies {
			_ = unix.Unmount(name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // mostly it is none
			_ = os.Remove(name)                                          // goes with the folder otherwise
		}
	}
}
