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
		must   bool
		bad    bool
	}{
		{source: dir},
		{source: file},
		{source: filepath.Join(dir, "a", "b")},
		{source: filepath.Join(file, "below"), bad: true},
		{source: filepath.Join(dir, "must"), must: true, bad: true},
		{source: file, must: true},
		{source: filepath.Join(dir, "dangling"), bad: true},
		{source: "/etc/moss-test-nowhere", bad: true},
		{source: "/run/moss-test-nowhere/b", bad: true},
	} {
		err := makeSources([]container.Bind{{Source: tc.source, BindTerms: container.BindTerms{MustExist: tc.must}}})
		if tc.bad != fault.Is(err, fault.Invalid) || !tc.bad && err != nil {
			t.Errorf("makeSources(%s) = %v, want an invalid fault: %v", tc.source, err, tc.bad)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "a", "b")); err != nil || !info.IsDir() {
		t.Errorf("the missing source: %v, %v, want a folder", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "must")); err == nil {
		t.Error("a folder was made that had to be there")
	}
	if _, err := os.Stat("/etc/moss-test-nowhere"); err == nil {
		t.Error("a folder was made in the engine's own /etc")
	}
}

func TestMountBelow(t *testing.T) {
	const table = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:5 / /a\040b rw shared:1 - tmpfs t rw
31 30 0:6 / /a\040b/c rw - tmpfs t rw
32 22 0:7 / /data rw - tmpfs t rw
short
`
	for dir, want := range map[string]string{"/a b": "/a b/c", "/a b/c": "", "/data": "", "/dat": "", "/": "/a b", "/elsewhere": ""} {
		if got := mountBelow(table, dir); got != want {
			t.Errorf("mountBelow(%s) = %q, want %q", dir, got, want)
		}
	}
}
