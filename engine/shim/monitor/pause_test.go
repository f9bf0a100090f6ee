package monitor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/oci"
	"moss/engine/task"
)

// TestUpdateMeetsTheEnd: the container ends while the runtime is at work. The killed runtime is no news for anybody.
func TestUpdateMeetsTheEnd(t *testing.T) {
	dir := t.TempDir()
	runtime, called := filepath.Join(dir, "runtime"), filepath.Join(dir, "called")
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"linux":{"cgroupsPath":"/none"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(runtime, []byte("#!/bin/sh\necho >"+called+"\nexec sleep 1000\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if err := unix.Mkfifo(called, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &container{dir: dir, runtime: oci.New(task.Runtime{Path: runtime, Root: dir}, dir, runtimeEnv()), ending: make(chan struct{})}
	c.first = &process{name: "task", state: running}
	updated := make(chan error, 1)
	go func() { updated <- c.updateLimits(t.Context(), []byte("{}")) }()
	if _, err := os.ReadFile(called); err != nil {
		t.Fatal(err)
	}
	c.first.mu.Lock()
	c.first.state = ended
	c.first.mu.Unlock()
	close(c.ending)
	select {
	case err := <-updated:
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("update = %v, want a conflict: it does not run", err)
		}
	case <-time.After(time.Minute):
		t.Error("update goes on after the end")
	}
}
