package logs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"moss/engine/logs"
	"moss/engine/stdio"
)

// inNamespace runs the calling test again, in user and mount namespaces of its own, and returns the folder that the
// second run may use; in the first run it returns an empty string once the second has passed.
func inNamespace(t *testing.T) (dir string) {
	t.Helper()
	const inside = "MOSS_TEST_LOGS_INSIDE"
	if dir = os.Getenv(inside); dir != "" {
		return dir
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER}
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("in the namespace: %v\n%s", err, out)
	}
	return ""
}

// TestFollowWithoutInotify takes all inotify instances away, as a user with many of them has it: the follower polls.
func TestFollowWithoutInotify(t *testing.T) {
	dir := inNamespace(t)
	if dir == "" {
		return
	}
	if err := os.WriteFile("/proc/sys/user/max_inotify_instances", []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	if fd, err := syscall.InotifyInit(); err == nil {
		t.Fatalf("inotify still works: %d", fd)
	}
	path := filepath.Join(dir, "log")
	end := make(chan struct{})
	f := follow(t.Context(), path, logs.ReadOptions{Tail: -1, End: end})
	w := open(t, path, logs.Options{MaxSize: 100, MaxFiles: 3})
	for _, line := range []string{"a\n", "b\n", "c\n"} {
		write(t, w, stdio.Stdout, line)
		f.expect(t, line)
	}
	close(end)
	f.expectEnd(t, nil)
}

// TestFullDisk has a small tmpfs.
func TestFullDisk(t *testing.T) {
	dir := inNamespace(t)
	if dir == "" {
		return
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "log")
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 100<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	w := open(t, path, logs.Options{})
	refused := 0
	line := strings.Repeat("x", 90)
	for i := range 300 {
		var chunk strings.Builder
		for j := range 10 {
			fmt.Fprintf(&chunk, "%d %s\n", i*10+j, line)
		}
		if err := w.Write(stdio.Stdout, []byte(chunk.String()), stamp); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("Write = %v, want ENOSPC in its chain", err)
			}
			refused++
		}
		if got := content(t, path); !strings.HasSuffix(got, "\n") {
			t.Fatalf("after chunk %d the file ends with %q", i, got[len(got)-20:])
		}
	}
	if refused == 0 {
		t.Fatal("the disk was never full")
	}
	before := read(t, path, logs.ReadOptions{Tail: -1})
	for i, e := range before {
		if want := fmt.Sprintf("%d %s\n", i, line); e.line != want {
			t.Fatalf("entry %d is %q, want %q", i, e.line, want)
		}
	}
	if len(before) < 500 {
		t.Errorf("only %d entries before the disk was full", len(before))
	}
	if err := w.Write(stdio.Stdout, []byte("rest of a"), stamp); err != nil {
		t.Errorf("a rest needs no disk: %v", err)
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	write(t, w, stdio.Stdout, " line\n")
	after := read(t, path, logs.ReadOptions{Tail: -1})
	if got := after[len(after)-1].line; len(after) != len(before)+1 || got != "rest of a line\n" {
		t.Errorf("with room again: %d entries, the last %q, want %d and the new line", len(after), got, len(before)+1)
	}
}
