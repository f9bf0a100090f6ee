package thread_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/thread"
)

// TestApart looks that what leaves its namespaces leaves nobody else's.
func TestApart(t *testing.T) {
	for range 20 {
		var id int
		if err := thread.Apart(func() error { id = unix.Gettid(); return unix.Unshare(unix.CLONE_FS) }); err != nil {
			t.Fatal(err)
		}
		if id == unix.Getpid() || id == 0 {
			t.Errorf("it ran in thread %d of process %d", id, unix.Getpid())
		}
	}
	want := errors.New("its own")
	if err := thread.Apart(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("Apart = %v, want %v", err, want)
	}
}
