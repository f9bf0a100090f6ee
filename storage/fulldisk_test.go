package storage

import (
	"os"
	"path/filepath"
	"testing"

	"moss/engine/tree"
)

func TestEmptyLeavesTheFolder(t *testing.T) {
	for driver, dir := range map[string]string{driverOverlay: "overlay/ID/diff", driverVFS: "vfs/dir/ID"} {
		s := &Store{disk: &disk{root: t.TempDir(), choice: choice{driver: driver}}}
		bin, err := tree.NewTrash(filepath.Join(s.root, trashFolder), func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		defer bin.Close()
		s.trash = bin
		dir = filepath.Join(s.root, dir)
		if err := os.MkdirAll(filepath.Join(dir, "sub", "folder"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.emptyLayer("ID"); err != nil {
			t.Fatalf("%s: %v", driver, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%s: left %v, %v; want the folder, empty", driver, left, err)
		}
	}
}
