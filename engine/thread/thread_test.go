package thread_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
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

// TestHeavy looks that heavy work gives way, and that nobody else does.
func TestHeavy(t *testing.T) {
	niceOf := func(id int) int {
		attr, err := unix.SchedGetAttr(id, 0)
		if err != nil {
			t.Fatal(err)
		}
		return int(attr.Nice)
	}
	before := niceOf(unix.Getpid())
	want := errors.New("its own")
	got := thread.Heavy(func() error {
		if id := unix.Gettid(); id == unix.Getpid() || niceOf(id) <= before {
			t.Errorf("thread %d of process %d is as nice as %d, want more than %d", id, unix.Getpid(), niceOf(id), before)
		}
		return want
	})
	if !errors.Is(got, want) {
		t.Errorf("Heavy = %v, want %v", got, want)
	}
	if after := niceOf(unix.Getpid()); after != before {
		t.Errorf("the main thread is as nice as %d now, was %d", after, before)
	}
}

func TestPrepare(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	thread.Prepare(7)
	if got, want := runtime.GOMAXPROCS(0), runtime.NumCPU()+7; got != want {
		t.Errorf("the runtime has %d processors, want %d", got, want)
	}
}

func TestInNetworkAtNothing(t *testing.T) {
	err := thread.InNetworkAt(filepath.Join(t.TempDir(), "none"), func() error {
		t.Error("ran without the network namespace")
		return nil
	})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("InNetworkAt of a missing file = %v, want that it does not exist", err)
	}
}
