package storage

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

func TestReopen(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, "")
	ctx := t.Context()
	img := put(t, s, map[string]string{"a": "1"}, "base")
	id, lost := newID(t), newID(t)
	for _, id := range []string{id, lost} {
		if err := s.Create(ctx, id, img.ID); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := s.Mount(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b"), []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	driver, reason := s.Driver(), s.DriverReason()
	// Kill the engine: nothing is closed, the mount stays. A layer that became no image is left, and a folder without a
	// record.
	s.cs.Free()
	if _, _, err := s.cs.PutLayer("", "", nil, "", false, nil, bytes.NewReader(tarball(t, map[string]string{"z": "1"}))); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "storage", "overlay", newID(t), "diff"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.flusher.close(); err != nil {
		t.Fatal(err)
	}

	again := open(t, root, "")
	if again.Driver() != driver || again.DriverReason() == reason {
		t.Errorf("Driver = %s (%s), before %s (%s)", again.Driver(), again.DriverReason(), driver, reason)
	}
	if got, err := again.Mount(ctx, id); err != nil || got != dir {
		t.Errorf("Mount of a mounted layer = %q, %v, want %q", got, err, dir)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "b")); err != nil || string(got) != "2" {
		t.Errorf("the file reads %q, %v", got, err)
	}
	if err := again.Unmount(ctx, id); err != nil || again.mountedAt(id) != "" {
		t.Errorf("Unmount of an adopted mount: %v, still at %q", err, again.mountedAt(id))
	}
	if records, folders := layers(t, again); records != 3 || folders != 3 {
		t.Errorf("%d layers, %d folders, want 3: image and two containers", records, folders)
	}
	for _, id := range []string{id, lost} {
		if err := again.Remove(ctx, id); err != nil {
			t.Errorf("Remove: %v", err)
		}
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(ctx, Options{Root: root, RunRoot: filepath.Join(root, "run"), Driver: driverVFS, SingleID: true}); !fault.Is(err, fault.Conflict) {
		t.Errorf("Open with another driver = %v, want a conflict", err)
	}
	if _, err := Open(ctx, Options{Root: root, RunRoot: root, Driver: "zfs"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("Open(zfs) = %v, want an invalid fault", err)
	}
}

// TestNoIDMapTrial: the library does not try mounts with other ids, for which it would copy this process.
func TestNoIDMapTrial(t *testing.T) {
	s := openTemp(t, driverOverlay)
	put(t, s, map[string]string{"a": "1"})
	status, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(status, [2]string{"Supports shifting", "false"}) {
		t.Errorf("Status = %q, want a driver that does not shift ids", status)
	}
	trials, err := filepath.Glob(filepath.Join(s.cs.RunRoot(), driverOverlay, "*idmapped*"))
	if err != nil || len(trials) != 0 {
		t.Errorf("there are results of a trial: %q, %v", trials, err)
	}
}

func TestFullDisk(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
	defer func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	s := open(t, root, "")
	ctx := t.Context()
	img := put(t, s, map[string]string{"a": "1"}, "base")
	_, err := s.PutImage(ctx, bytes.NewReader(tarball(t, map[string]string{"big": strings.Repeat("b", 8<<20)})), ImageSpec{}, nil)
	if err == nil || fault.KindOf(err) != fault.KindInternal || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("PutImage on a full disk = %v", err)
	}
	id := newID(t)
	if err := s.Create(ctx, id, img.ID); err != nil {
		t.Fatalf("Create after a full disk: %v", err)
	}
	dir, err := s.Mount(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 8<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	other := newID(t)
	err = s.Create(ctx, other, img.ID)
	if err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("Create on a full disk = %v", err)
	}
	if list, err := s.List(ctx); err != nil || len(list) != 1 {
		t.Errorf("List on a full disk = %v, %v", list, err)
	}
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{id, other} {
		if err := s.Remove(ctx, id); err != nil {
			t.Errorf("Remove after a full disk: %v", err)
		}
	}
	if got, err := s.Containers(ctx); err != nil || len(got) != 0 {
		t.Errorf("Containers = %v, %v, want none", got, err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
