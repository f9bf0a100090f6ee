package socket

import (
	"os"
	"path/filepath"
	"testing"

	"moss/engine/fault"
)

// TestRestore takes away a socket's file, its folder, and puts something else in its place.
func TestRestore(t *testing.T) {
	base := t.TempDir()
	path := filepath.Join(base, "moss", "s")
	s := open(t, Options{Hosts: []string{"unix://" + path}})
	restore := func(want int) {
		t.Helper()
		opened, err := s.Restore(t.Context())
		if err != nil || len(opened) != want {
			t.Fatalf("Restore = %d sockets, %v, want %d", len(opened), err, want)
		}
		for _, f := range opened {
			t.Cleanup(func() { _ = f.Close() })
		}
		if !reachable(t, "unix", path) {
			t.Error("nobody gets into the queue")
		}
	}
	restore(0)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	restore(1)
	restore(0)
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	restore(1)
	for name, want := range map[string]os.FileMode{path: os.ModeSocket | 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("mode of %s = %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if opened, err := s.Restore(t.Context()); !fault.Is(err, fault.Invalid) || len(opened) != 0 {
		t.Errorf("Restore over a file = %d sockets, %v, want an Invalid", len(opened), err)
	}
	if err := os.RemoveAll(base); err != nil {
		t.Fatal(err)
	}
	if opened, err := s.Restore(t.Context()); err == nil || len(opened) != 0 {
		t.Errorf("Restore without the folder above = %d sockets, %v, want an error", len(opened), err)
	}
	if _, err := os.Stat(base); err == nil {
		t.Error("the folder above was made")
	}
}
