package monitor

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/stdio"
)

func TestInnermostPid(t *testing.T) {
	for in, want := range map[string]int{
		"Name:\tx\nNSpid:\t4711\t12\t1\nNSpgid:\t1\n": 1,
		"NSpid:\t4711\n":  4711,
		"NSpid:\t\n":      0,
		"NSpid:\t4711\t1": 0, // cut off: it may be 17
		"Name:\tx\n":      0,
	} {
		if got := innermostPid(in); got != want {
			t.Errorf("innermostPid(%q) = %d, want %d", in, got, want)
		}
	}
	if isInit(os.Getpid()) != (os.Getpid() == 1) {
		t.Errorf("isInit of this process = %t", isInit(os.Getpid()))
	}
}

func FuzzPids(f *testing.F) {
	f.Add("1 2 3\nNSpid:\t4\t5\n")
	f.Fuzz(func(t *testing.T, in string) {
		for _, pid := range append(parsePids(in), innermostPid(in)) {
			if pid < 0 {
				t.Fatalf("%q has the pid %d", in, pid)
			}
		}
	})
}

func TestParsePids(t *testing.T) {
	if got, want := parsePids("12\n0\nx\n7 8\n-3\n"), []int{12, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("parsePids = %v, want %v", got, want)
	}
}

// TestTree: a process, its children and theirs.
func TestTree(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "(sleep 1000 & sleep 1000; true) & echo; wait")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	}()
	if _, err := fmt.Fscanln(out); err != nil && err.Error() != "unexpected newline" {
		t.Fatal(err)
	}
	var got []int
	for range 1000 {
		if got = appendTree(nil, cmd.Process.Pid); len(got) == 4 {
			break
		}
		_, _ = unix.Poll(nil, 5)
	}
	if len(got) != 4 || got[0] != cmd.Process.Pid {
		t.Errorf("appendTree = %v, want %d and three below it", got, cmd.Process.Pid)
	}
}

// TestSourceStopsWhileSomebodyWrites: what never ends by itself ends a bounded number of bytes after stop.
func TestSourceStopsWhileSomebodyWrites(t *testing.T) {
	src, in := testPipe(t, nil)
	go func() {
		data := make([]byte, 64<<10)
		for {
			if _, err := in.Write(data); err != nil {
				return
			}
		}
	}()
	if _, err := src.next(); err != nil {
		t.Fatal(err)
	}
	src.stop()
	got := 0
	for {
		frame, err := src.next()
		if err != nil {
			break
		}
		if got += len(frame) - stdio.HeaderSize; got > 4*pipeSize {
			t.Fatalf("%d bytes came after stop, want at most about %d", got, pipeSize)
		}
	}
	_ = src.f.Close()
}

// TestReadChildren gives lists in which the kernel has left somebody out.
func TestReadChildren(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lists []string // the last one stays
		want  []int
	}{
		{"nobody", []string{""}, nil},
		{"the same twice", []string{"7 9 ", "7 9 "}, []int{7, 9}},
		{"one left out at first", []string{"7 ", "9 12 ", "9 12 "}, []int{9, 12}},
		{"one left out later", []string{"7 9 12 ", "7 ", "9 12 "}, []int{9, 12}},
		{"all have ended", []string{"7 9 ", ""}, nil},
	} {
		lists := tc.lists
		got := readChildren("", func(string) ([]byte, error) {
			list := lists[0]
			lists = lists[min(1, len(lists)-1):]
			return []byte(list), nil
		})
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: readChildren = %v, want %v", tc.name, got, tc.want)
		}
	}
	reads := 0
	readChildren("", func(string) ([]byte, error) {
		reads++
		return fmt.Appendf(nil, "%d ", reads), nil
	})
	if reads > listTries+1 {
		t.Errorf("lists that never agree: read %d times, want at most %d", reads, listTries+1)
	}
}

// TestFamilyHasFirst hides the first process from the list of the shim's children: those of other threads are not in it.
func TestFamilyHasFirst(t *testing.T) {
	shell := exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 & echo; wait")
	shell.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := startElsewhere(shell); err != nil {
		t.Fatal(err)
	}
	first := shell.Process.Pid
	defer func() {
		_ = unix.Kill(-first, unix.SIGKILL)
		_ = shell.Wait()
	}()
	if _, err := fmt.Fscanln(out); err != nil && err.Error() != "unexpected newline" {
		t.Fatal(err)
	}
	if slices.Contains(childPids(), first) {
		t.Fatalf("%d is among the children of the first thread: nothing is tested", first)
	}
	f := &family{ownPids: true}
	f.first = &process{state: running, pid: first}
	want := appendTree(nil, first)
	slices.Sort(want)
	if got := f.familyPids(); len(want) != 2 || !slices.Equal(got, want) {
		t.Errorf("familyPids = %v, want the shell and its child, %v", got, want)
	}
	f.first.state = ended
	if got := f.familyPids(); slices.Contains(got, first) {
		t.Errorf("familyPids = %v, want it without %d, whose number may be another's", got, first)
	}
}

// startElsewhere starts a command from another thread than the first one, which outlives it.
func startElsewhere(cmd *exec.Cmd) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- startElsewhere(cmd) // this goroutine holds the first thread meanwhile
			return
		}
		done <- cmd.Start()
	}()
	return <-done
}

// TestAlive: a process that has ended and was not collected is not alive.
func TestAlive(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // it was killed
	p := &process{state: running, pid: cmd.Process.Pid}
	if !p.isAlive() {
		t.Error("alive = false of a process that sleeps")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if p.isAlive() {
		t.Error("alive = true of a process that was killed")
	}
}
