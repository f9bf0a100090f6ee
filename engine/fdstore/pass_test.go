package fdstore

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func pair(t *testing.T) (ours int, theirs *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "theirs")
	t.Cleanup(func() { _ = theirs.Close() })
	return fds[0], theirs
}

func TestPass(t *testing.T) {
	ours, theirs := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // it ends with the test
	if err := errors.Join(Pass(ours, []*os.File{w}), Pass(ours, nil), w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		err := Passed(theirs, func(files []*os.File) {
			if len(files) != want {
				t.Errorf("got %d descriptors, want %d", len(files), want)
			}
			for _, f := range files {
				if _, err := f.WriteString("by the other"); err != nil {
					t.Error(err)
				}
				_ = f.Close()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "by the other" { // and nobody holds the other end
		t.Errorf("read %q, %v", got, err)
	}
	if err := theirs.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := Passed(theirs, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Passed after the deadline = %v, want %v", err, os.ErrDeadlineExceeded)
	}
	if err := errors.Join(theirs.SetReadDeadline(time.Time{}), unix.Close(ours)); err != nil {
		t.Fatal(err)
	}
	if err := Passed(theirs, nil); !errors.Is(err, io.EOF) {
		t.Errorf("Passed after the end = %v, want %v", err, io.EOF)
	}
}

// TestPassedAtTheDeadline: a deadline that comes after keep closes none of what keep has, nor what has its numbers since.
func TestPassedAtTheDeadline(t *testing.T) {
	ours, theirs := pair(t)
	defer unix.Close(ours) //nolint:errcheck // it ends with the test
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // it ends with the test
	if err := errors.Join(Pass(ours, []*os.File{w}), w.Close()); err != nil {
		t.Fatal(err)
	}
	next := -1
	err = Passed(theirs, func(files []*os.File) {
		number := int(files[0].Fd())
		_ = files[0].Close()
		n, err := unix.FcntlInt(r.Fd(), unix.F_DUPFD_CLOEXEC, number)
		if next = n; err != nil || n != number {
			t.Errorf("the next descriptor is %d, %v, want %d", n, err, number)
		}
		if err := theirs.SetReadDeadline(time.Now()); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Passed = %v, want %v", err, os.ErrDeadlineExceeded)
	}
	if err := unix.Close(next); err != nil {
		t.Errorf("what has the number since is closed: %v", err)
	}
}

// TestPassKept: who dies before it has kept a descriptor leaves it to the next.
func TestPassKept(t *testing.T) {
	ours, theirs := pair(t)
	defer unix.Close(ours) //nolint:errcheck // it ends with the test
	if err := Pass(ours, []*os.File{theirs}); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = Passed(theirs, func([]*os.File) { panic("killed") })
	}()
	got := 0
	if err := Passed(theirs, func(files []*os.File) { got = len(files) }); err != nil || got != 1 {
		t.Errorf("the next got %d descriptors, %v, want 1", got, err)
	}
}

func TestAnchor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	shelf := &Shelf{}
	defer shelf.Close()
	for i := range 2 { // the second is the next engine's
		theirs, err := shelf.Serve()
		if err != nil {
			t.Fatal(err)
		}
		s, err := openStore(theirs)
		if err != nil {
			t.Fatal(err)
		}
		at, err := s.Anchor("a", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(path)
		if got, err := os.ReadFile(at); err != nil || string(got) != "text" {
			t.Errorf("engine %d reads %q, %v", i, got, err)
		}
		if _, err := s.Anchor("b", path); err == nil {
			t.Error("Anchor of what is not there gave no error")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		shelf.Wait()
	}
	if at, err := (*Store)(nil).Anchor("a", path); err != nil || at != path {
		t.Errorf("without a store: %q, %v, want the path itself", at, err)
	}
}
