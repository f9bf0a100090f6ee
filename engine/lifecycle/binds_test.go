package lifecycle

import (
	"os"
	"path/filepath"
	"testing"

	"moss/engine/container"
	"moss/engine/fault"
)

func TestMakeSources(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		source string
		bad    bool
	}{
		{source: dir},
		{source: file},
		{source: filepath.Join(dir, "a", "b")},
		{source: filepath.Join(file, "below")},
		{source: filepath.Join(dir, "dangling"), bad: true},
		{source: "/etc/moss-test-nowhere", bad: true},
		{source: "/run/moss-test-nowhere/b", bad: true},
	} {
		err := makeSources([]container.Bind{{Source: tc.source}})
		if tc.bad != fault.Is(err, fault.Invalid) || !tc.bad && err != nil {
			t.Errorf("makeSources(%s) = %v, want an invalid fault: %v", tc.source, err, tc.bad)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "a", "b")); err != nil || !info.IsDir() {
		t.Errorf("the missing source: %v, %v, want a folder", info, err)
	}
	if _, err := os.Stat("/etc/moss-test-nowhere"); err == nil {
		t.Error("a folder was made in the engine's own /etc")
	}
}
