package thread

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// heavyNice is what a thread of Heavy yields to the others of this process.
	heavyNice = 5
	nicest    = 19
	// heavySlice is how long its turns are. A thread that wakes goes before one with longer turns than its own (Linux 6.12
	// and later; earlier ones take no notice); the usual ones are of two or three milliseconds.
	heavySlice = 20 * time.Millisecond
)

// Heavy runs f on a thread of its own that gives way to the rest of the process: an answer must not wait for work that
// keeps a processor busy for seconds. It returns what f returns.
func Heavy(f func() error) error {
	return Apart(func() error {
		// Without it f is as good, only in the way.
		if attr, err := unix.SchedGetAttr(0, 0); err == nil && attr.Policy == unix.SCHED_NORMAL {
			attr.Nice = min(attr.Nice+heavyNice, nicest)
			attr.Runtime = uint64(heavySlice)
			_ = unix.SchedSetAttr(0, attr, 0)
		}
		return f()
	})
}

// Prepare makes the process ready for so many goroutines that keep processors busy: those of the runtime are not all
// theirs then, and what waits for the network is seen at once.
func Prepare(heavy int) { runtime.GOMAXPROCS(runtime.NumCPU() + heavy) }
