package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"moss/engine/fault"
)

// TestMountPartRefuses: what is not there, and whatever a link would lead to outside. Mounting itself needs the engine's
// namespaces: tests/28-mounts.bats.
func TestMountPartRefuses(t *testing.T) {
	s, _ := open(t, t.TempDir())
	v, err := s.Create(t.Context(), CreateOptions{Name: "data"})
	must(t, err)
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(v.Mountpoint, "file"), nil, 0o600))
	must(t, os.Symlink(outside, filepath.Join(v.Mountpoint, "out")))
	must(t, os.Symlink(strings.Repeat("../", 40)+outside, filepath.Join(v.Mountpoint, "up")))
	must(t, os.Symlink("loop", filepath.Join(v.Mountpoint, "loop")))
	for _, subpath := range []string{"missing", "file/below", "out", "out/secret", "up", "up/secret", "loop", "/proc/self"} {
		if src, err := s.Mount(t.Context(), "data", "c", subpath); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), subpath) {
			t.Errorf("Mount of %s = %+v, %v, want fault.Invalid naming it", subpath, src, err)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(v.Mountpoint), partsName)); err == nil {
		t.Error("a place was made for what was refused")
	}
	must(t, s.Unmount(t.Context(), "data", "c"))
	must(t, s.Remove(t.Context(), "data"))
}

// TestLeavePartsAfterACrash: places that were made and never mounted go with the next engine; those of what runs stay.
func TestLeavePartsAfterACrash(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	_, err := s.Create(t.Context(), CreateOptions{Name: "data"})
	must(t, err)
	for _, c := range []string{"dead", "alive"} {
		must(t, makePlace(filepath.Join(dir, "data", partsName, c, "0123"), c == "dead"))
	}
	s, _ = open(t, dir)
	must(t, s.Restore(t.Context(), map[string][]string{"alive": {"data"}, "dead": {"data"}}, func(id string) bool { return id == "alive" }))
	left, err := os.ReadDir(filepath.Join(dir, "data", partsName))
	must(t, err)
	if len(left) != 1 || left[0].Name() != "alive" {
		t.Errorf("left %v, want that of the container that runs", left)
	}
}
