package rootless

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSweepRunDir: what belonged to the last engine's namespaces goes, also what only older engines made. Tasks stay.
func TestSweepRunDir(t *testing.T) {
	dir := t.TempDir()
	gone := []string{"storage/overlay", "netns/a", "idmap/a", "ipam/a", "execs/a", "registry/a", lentName + "/a", "runtime"}
	kept := []string{"tasks/a", "lock"}
	for _, name := range append(kept, gone...) {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweepRunDir(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range gone {
		name, _, _ = strings.Cut(name, "/")
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there still: %v", name, err)
		}
	}
	for _, name := range kept {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
