package tree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTrash(t *testing.T) {
	root := t.TempDir()
	bin, err := NewTrash(filepath.Join(root, "trash"), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "layer")
	if err := os.MkdirAll(filepath.Join(folder, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(root, "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(folder, "a", "link")); err != nil {
		t.Fatal(err)
	}
	if err := bin.Take(folder); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there still: %v", err)
	}
	if err := bin.Take(folder); err != nil {
		t.Errorf("Take of what is not there: %v", err)
	}
	if err := bin.Drain(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(bin.dir); err != nil || len(left) != 0 {
		t.Errorf("the trash holds %v, %v; want nothing", left, err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("what a link leads to: %v, want it untouched", err)
	}
	bin.Close()
}

// What one engine leaves in the trash, the next one deletes.
func TestTrashOfTheLastEngine(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "trash", "layer1", "files", "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	bin, err := NewTrash(filepath.Join(root, "trash"), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer bin.Close()
	if err := bin.Drain(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(bin.dir); err != nil || len(left) != 0 {
		t.Errorf("the trash holds %v, %v; want nothing", left, err)
	}
}

func TestTrashStandsBack(t *testing.T) {
	root := t.TempDir()
	bin, err := NewTrash(filepath.Join(root, "trash"), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "layer")
	if err := os.MkdirAll(filepath.Join(folder, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	goOn := bin.Stand()
	if err := bin.Take(folder); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(bin.dir); err != nil || len(left) != 1 {
		t.Errorf("the trash holds %v, %v; want what was moved there", left, err)
	}
	if err := bin.Drain(); err != nil { // who needs the room does not wait
		t.Fatal(err)
	}
	if left, err := os.ReadDir(bin.dir); err != nil || len(left) != 0 {
		t.Errorf("the trash holds %v, %v; want nothing", left, err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := bin.Take(folder); err != nil {
		t.Fatal(err)
	}
	bin.Close() // does not wait for who stands in its way
	goOn()
	if left, err := os.ReadDir(bin.dir); err != nil || len(left) != 1 {
		t.Errorf("the trash holds %v, %v; want what the next start deletes", left, err)
	}
}

// A path that fits in a layer's root may be too long for the kernel with the store's folders before it.
func TestTrashOfLongPaths(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "layer")
	if err := os.MkdirAll(filepath.Join(folder, "zz"), 0o755); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Open(folder, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("n", 200)
	for range 25 {
		if err := unix.Mkdirat(at, name, 0o700); err != nil {
			t.Fatal(err)
		}
		below, err := unix.Openat(at, name, unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Close(at); err != nil {
			t.Fatal(err)
		}
		at = below
	}
	if err := unix.Close(at); err != nil {
		t.Fatal(err)
	}
	bin, err := NewTrash(filepath.Join(root, "trash"), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer bin.Close()
	if err := bin.Take(folder); err != nil {
		t.Fatal(err)
	}
	if err := bin.Drain(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(bin.dir); err != nil || len(left) != 0 {
		t.Errorf("the trash holds %v, %v; want nothing", left, err)
	}
}
