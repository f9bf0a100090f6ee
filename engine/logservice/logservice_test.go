package logservice

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/logsink/relay"
)

// TestMain makes this program moss-log where it is started as such.
func TestMain(m *testing.M) {
	if os.Args[0] != "moss-log" {
		os.Exit(m.Run())
	}
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err == nil {
		r := relay.New(nil, func(string) {})
		if _, err := os.Stat(os.Args[1]); err == nil { // the test's way to ask for a short life
			r.LeaveWithin(time.Millisecond)
		}
		err = r.Serve(l)
	}
	if err != nil {
		os.Exit(1)
	}
}

// starts counts how often the program was looked for, which is once per start.
type starts struct {
	mu sync.Mutex
	n  int
}

func (s *starts) find() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return os.Executable()
}

func (s *starts) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// newService makes a service; what it has started ends with the test.
func newService(t *testing.T, socket string, find *starts) *Service {
	t.Helper()
	s := New(Options{Find: find.find, Socket: socket, Log: zerolog.New(zerolog.NewTestWriter(t))})
	t.Cleanup(func() {
		s.Close()
		for _, pid := range children(t) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return s
}

// children lists the processes that this one has started.
func children(t *testing.T) (pids []int) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tasks {
		list, err := os.ReadFile(path)
		if err != nil {
			continue // a thread that has ended
		}
		for word := range strings.FieldsSeq(string(list)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// await waits for a condition.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func ensure(t *testing.T, s *Service) {
	t.Helper()
	if err := s.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestStartedOnce(t *testing.T) {
	socket, find := filepath.Join(t.TempDir(), "run", "sock"), &starts{}
	s := newService(t, socket, find)
	if find.count() != 0 {
		t.Error("it was started before it was needed")
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { ensure(t, s) })
	}
	all.Wait()
	next := newService(t, socket, find) // of the next engine
	ensure(t, next)
	s.Close()
	ensure(t, next)
	if find.count() != 1 || len(children(t)) != 1 {
		t.Errorf("it was started %d times, %d run", find.count(), len(children(t)))
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info.Mode(), err)
	}
	if err := s.Ensure(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Ensure after Close: got %v, want fault.Unavailable", err)
	}
}

func TestStartedAgain(t *testing.T) {
	socket, find := filepath.Join(t.TempDir(), "sock"), &starts{}
	s := newService(t, socket, find)
	ensure(t, s)
	for n := range 3 {
		for _, pid := range children(t) {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		await(t, "the next start", func() bool { return find.count() == n+2 })
		await(t, "its answer", func() bool {
			conn, err := s.greet(t.Context())
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		})
	}
}

// TestNotStartedAgain: its own end is none to mend.
func TestNotStartedAgain(t *testing.T) {
	socket, find := filepath.Join(t.TempDir(), "sock"), &starts{}
	s := newService(t, socket, find)
	s.opt.Keepalive = t.TempDir() // it leaves at once
	for range 3 {
		if err := s.Ensure(t.Context()); err == nil {
			await(t, "the end of the watch", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.watch == nil
			})
		}
	}
	await(t, "its end", func() bool { return len(children(t)) == 0 })
	if n := find.count(); n > 3 {
		t.Errorf("it was started %d times for three containers", n)
	}
}

func TestNotFound(t *testing.T) {
	gone := errors.New("moss-log is nowhere")
	s := New(Options{
		Find: func() (string, error) { return "", gone }, Socket: filepath.Join(t.TempDir(), "sock"), Log: zerolog.Nop(),
	})
	defer s.Close()
	if err := s.Ensure(t.Context()); !errors.Is(err, gone) {
		t.Errorf("Ensure: got %v, want %v", err, gone)
	}
	s.opt.Find = func() (string, error) { return "/bin/true", nil }
	if err := s.Ensure(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Ensure of a program that ends: got %v, want fault.Unavailable", err)
	}
}
