package storage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.podman.io/storage/pkg/archive"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
)

// mountNew makes a container of an image and mounts it.
func mountNew(t *testing.T, s *Store, imageID string) (id, dir string) {
	t.Helper()
	id = newID(t)
	if err := s.Create(t.Context(), id, imageID); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Unmount(context.WithoutCancel(t.Context()), id); err != nil {
			t.Error(err)
		}
	})
	dir, err := s.Mount(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return id, dir
}

// What the walk by descriptors finds is what the library finds by paths.
func TestOverlayChangesAreTheLibrarys(t *testing.T) {
	s := openTemp(t, driverOverlay)
	img := put(t, s, map[string]string{
		"kept/file": "1", "changed/file": "1", "gone/file": "1", "anew/old": "1", "anew/same": "1", "mode/file": "1",
		"deep/a/b/c": "1", "file": "1", "other": "1", "a.txt": "1", "a/b": "1",
	})
	id, dir := mountNew(t, s, img.ID)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("changed/file"), []byte("2"), 0o600),
		os.RemoveAll(at("gone")),
		os.RemoveAll(at("anew")), os.Mkdir(at("anew"), 0o755), os.WriteFile(at("anew/same"), nil, 0o600), os.WriteFile(at("anew/new"), nil, 0o600),
		os.Chmod(at("mode"), 0o700),
		os.WriteFile(at("deep/a/b/d"), nil, 0o600),
		os.Remove(at("file")), os.Mkdir(at("file"), 0o755),
		os.Remove(at("other")), os.Symlink("kept", at("other")),
		os.MkdirAll(at("fresh/x/y"), 0o755), os.WriteFile(at("fresh/x/y/z"), nil, 0o600),
		os.WriteFile(at("a/c"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	layer, driver, unlock, err := s.layerForDiff(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if s.comparesTrees(driver) {
		t.Skip("needs the kernel's own overlay without metacopy and redirects")
	}
	own, below, err := s.foldersOf(layer, driver)
	if err != nil {
		t.Fatal(err)
	}
	found, err := overlayChanges(t.Context(), own, below)
	if err != nil {
		t.Fatal(err)
	}
	library, err := driver.Changes(id, nil, layer.parent, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	got, want := make([]string, 0, len(found)), make([]string, 0, len(library))
	for _, c := range found {
		got = append(got, "ACD"[map[container.ChangeKind]int{container.ChangeAdded: 0, container.ChangeModified: 1, container.ChangeDeleted: 2}[c.Kind]:][:1]+c.Path)
	}
	for _, c := range library {
		want = append(want, "ACD"[map[archive.ChangeType]int{archive.ChangeAdd: 0, archive.ChangeModify: 1, archive.ChangeDelete: 2}[c.Kind]:][:1]+c.Path)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("changes %q, the library's are %q", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := overlayChanges(ctx, own, below); !errors.Is(err, context.Canceled) {
		t.Errorf("changes for a client that has gone = %v, want context.Canceled", err)
	}
}

// A tree that no path can name is measured and removed; what would have to name it says so, in short.
func TestDeepTreeOfAContainer(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		img := put(t, s, map[string]string{"file": "1"}, "img")
		id, dir := mountNew(t, s, img.ID)
		at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		depth := 2500
		if s.choice.driver == driverFuse {
			depth = 600 // it goes by paths itself
		}
		for range depth {
			if err := unix.Mkdirat(at, "d", 0o755); err != nil {
				t.Fatal(err)
			}
			below, err := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err = errors.Join(err, unix.Close(at)); err != nil {
				t.Fatal(err)
			}
			at = below
		}
		if err := unix.Close(at); err != nil {
			t.Fatal(err)
		}
		bounded := func(what string, err error) {
			t.Helper()
			if !fault.Is(err, fault.Invalid) || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "its path has more than 4096 bytes") {
				t.Errorf("%s = %.300v, want fault.Invalid that says it in short", what, err)
			}
		}
		_, err = s.Changes(t.Context(), id, nil)
		bounded("Changes", err)
		_, err = s.Diff(t.Context(), id, nil)
		bounded("Diff", err)
		rw, _, err := s.Size(t.Context(), id)
		if s.choice.driver == driverVFS {
			bounded("Size", err)
		} else if err != nil || rw != 0 {
			t.Errorf("Size = %d, %v, want 0", rw, err)
		}
		_, err = s.Seal(t.Context(), id, ImageSpec{Base: img.ID}, nil)
		bounded("Seal", err)
		if err := s.Remove(t.Context(), id); err != nil {
			t.Fatalf("Remove: %v", err)
		}
		if err := s.trash.Drain(); err != nil {
			t.Errorf("Drain: %v", err)
		}
	})
}
