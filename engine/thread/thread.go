// Package thread runs work on threads that may be spoilt: they leave the process's namespaces and are not used again. It
// knows nothing of what the work is.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Apart runs f on a thread that ends with it, so that f may leave it in any namespace, and returns what f returns. The
// process's main thread cannot end and must not be spoilt, since /proc/<pid>/ns shows its namespaces: should the goroutine
// land there, it holds that thread until another one has done the work.
func Apart(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked on another thread than the main one: it ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			done <- Apart(f)
			runtime.UnlockOSThread()
			return
		}
		done <- f()
	}()
	return <-done
}
