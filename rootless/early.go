package rootless

import (
	"os"
	"os/signal"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// earlyGrace is how long a dead child may stay unreaped before it counts as unnoticed. Whoever waits for a child reaps
// it within microseconds.
const earlyGrace = 300 * time.Millisecond

// watchChild reports a child that has died during the set-up. RootlessKit v3.1.0 keeps its own copy of the pipe on which
// it waits for the child's messages, so it would wait for ever. Once the file ready exists the set-up is over.
func watchChild(ready string) (early <-chan struct{}, stop func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGCHLD)
	found, quit := make(chan struct{}), make(chan struct{})
	go func() {
		for {
			select {
			case <-signals:
			case <-quit:
				return
			}
			pid := deadChild()
			select {
			case <-time.After(earlyGrace):
			case <-quit:
				return
			}
			if _, err := os.Stat(ready); err == nil {
				return
			}
			if pid != 0 && deadChild() == pid {
				close(found)
				return
			}
		}
	}()
	return found, func() { signal.Stop(signals); close(quit) }
}

// deadChild returns the pid of a child that has ended and that nobody has waited for, without waiting for it; 0 if there
// is none.
func deadChild() int {
	var info struct {
		signo, errno, code, _ int32
		pid                   int32
		_                     [108]byte
	}
	_, _, errno := unix.Syscall6(unix.SYS_WAITID, unix.P_ALL, 0, uintptr(unsafe.Pointer(&info)), //nolint:gosec // the call's own way
		unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, 0, 0)
	if errno != 0 || info.signo == 0 {
		return 0
	}
	return int(info.pid)
}
