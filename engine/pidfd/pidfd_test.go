package pidfd

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	rest := " S" + strings.Repeat(" 7", 18) + " 4711 9 9\n"
	for _, tc := range []struct {
		name, in string
		want     Stat
		ok       bool
	}{
		{"plain", "12 (sleep)" + rest, Stat{'S', 7, 4711}, true},
		{"a name like the end", "12 (a) R 1)" + rest, Stat{'S', 7, 4711}, true},
		{"a name with a line", "12 (a\nb)" + rest, Stat{'S', 7, 4711}, true},
		{"nothing", "", Stat{}, false},
		{"cut off", "12 (sleep) S 1 2", Stat{}, false},
		{"no number", "12 (sleep) S" + strings.Repeat(" x", 20), Stat{}, false},
		{"no number of threads", "12 (sleep) S" + strings.Repeat(" 7", 16) + " x 0 4711\n", Stat{}, false},
		{"no state", "12 (sleep)" + strings.Repeat(" 17", 20), Stat{}, false},
	} {
		if got, ok := parseStat([]byte(tc.in)); got != tc.want || ok != tc.ok {
			t.Errorf("%s: parseStat(%q) = %+v, %t, want %+v, %t", tc.name, tc.in, got, ok, tc.want, tc.ok)
		}
	}
	if st, ok := ReadStat(os.Getpid()); !ok || !st.Runs() || st.Start == 0 {
		t.Errorf("ReadStat of this process = %+v, %t, want one that runs", st, ok)
	}
	if st, ok := ReadStat(1 << 30); ok {
		t.Errorf("ReadStat of none = %+v, want nothing", st)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (sleep) S" + strings.Repeat(" 7", 18) + " 4711\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if st, ok := parseStat(in); ok && (st.State == 0 || !bytes.Contains(in, []byte{st.State})) {
			t.Fatalf("parseStat(%q) = %+v", in, st)
		}
	})
}

// leaderGone is a variable of the environment: where it is set, the first thread of this program ends and the others go on.
const leaderGone = "MOSS_TEST_LEADER_GONE"

func init() { //nolint:gochecknoinits // it alone is sure to run on the first thread
	if os.Getenv(leaderGone) != "" {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
}

// TestLeaderGone: a process whose first thread has ended is not dead, though its state reads so.
func TestLeaderGone(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), leaderGone+"=yes")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Find(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for st, ok := ReadStat(id.Pid); st.State != 'Z'; st, ok = ReadStat(id.Pid) {
		if !ok || !id.Lives() {
			t.Fatal("the process has ended")
		}
	}
	if !id.Lives() {
		t.Error("it counts as dead with threads that live")
	}
	if err := id.Signal(int(syscall.SIGKILL)); err != nil {
		t.Errorf("Signal = %v", err)
	}
	if err := id.Await(t.Context()); err != nil {
		t.Errorf("Await = %v", err)
	}
	if id.Lives() {
		t.Error("it lives after its end")
	}
	_ = cmd.Wait() // says that it was killed
}

func TestSignalAndAwait(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	id, err := Find(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := id.Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Await of a living process = %v, want the end of the context", err)
	}
	another := ID{Pid: id.Pid, Start: id.Start + 1} // of the same number, at another time
	if err := another.Signal(int(syscall.SIGKILL)); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal to an earlier process of that number = %v, want that it has gone", err)
	}
	if err := another.Await(t.Context()); err != nil {
		t.Errorf("Await of an earlier process of that number = %v, want that it has gone", err)
	}
	if st, ok := ReadStat(id.Pid); !ok || st.Dead() {
		t.Fatal("the signal reached another process than it was meant for")
	}
	if err := id.Signal(int(syscall.SIGKILL)); err != nil {
		t.Errorf("Signal = %v", err)
	}
	if err := id.Await(t.Context()); err != nil { // nobody has collected it yet
		t.Errorf("Await of a killed process = %v", err)
	}
	_ = cmd.Wait()
	if err := id.Signal(0); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal to what has gone = %v", err)
	}
	for _, pid := range []int{0, -1, 1 << 30} {
		if _, err := Find(pid); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("Find(%d) = %v, want that there is none", pid, err)
		}
		if err := (ID{Pid: pid}).Signal(0); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("Signal to process %d = %v, want that there is none", pid, err)
		}
	}
}
