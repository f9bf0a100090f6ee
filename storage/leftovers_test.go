package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Leftovers that are deeper than the process may open files are removed all the same, wherever the library would remove them
// itself: with a descriptor for each level.
func TestLeftoversDeeperThanDescriptors(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, driverOverlay)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(s.root, driverOverlay)
	deep := strings.Repeat("d/", 600)
	places := []string{
		filepath.Join(home, newID(t)), // of a layer without a record
		filepath.Join(home, "staging", "1"),
		filepath.Join(home, "tempdirs", "temp-dir-1"),
		filepath.Join(s.root, "overlay-layers", "tmp", "temp-dir-2"),
	}
	for _, place := range places {
		if err := os.MkdirAll(filepath.Join(place, "diff", deep), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}()
	s = open(t, root, driverOverlay)
	if err := s.trash.Drain(); err != nil {
		t.Error(err)
	}
	for _, place := range places {
		if _, err := os.Lstat(place); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there still: %v", place, err)
		}
	}
	if notes := s.Notes(); len(notes) != 0 {
		t.Errorf("notes %q, want none", notes)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
