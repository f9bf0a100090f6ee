package storage

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// openSmall opens a store on a file system of some bytes.
func openSmall(t *testing.T, driver, options string) *Store {
	t.Helper()
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	run := t.TempDir()
	s, err := Open(t.Context(), Options{Root: root, RunRoot: run, Driver: driver, SingleID: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fill takes up all the room that is left.
func fill(t *testing.T, s *Store) string {
	t.Helper()
	name := filepath.Join(s.root, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestStagingOnAFullDisk(t *testing.T) {
	for _, driver := range []string{driverOverlay, driverVFS} {
		t.Run(driver, func(t *testing.T) {
			s := openSmall(t, driver, "size=40m")
			ctx := t.Context()
			small := entries(t, file("small", noise(1, 1000)))
			img := mustPull(t, s, "img", []string{"img"}, small)
			containers := make([]string, 0, 3)
			for range 3 {
				id := newID(t)
				if err := s.Create(ctx, id, img.ID); err != nil {
					t.Fatal(err)
				}
				containers = append(containers, id)
			}
			// A layer that does not fit leaves nothing.
			big := entries(t, file("big", strings.Repeat("b", 60<<20)))
			before, _ := layers(t, s)
			_, err := s.Stage(ctx, bytes.NewReader(big), Blob{Size: -1})
			if fault.KindOf(err) != fault.KindInternal || !strings.Contains(err.Error(), "no space left on device") {
				t.Errorf("Stage of too much = %v, want no space left", err)
			}
			if _, err = s.PutImage(ctx, bytes.NewReader(big), ImageSpec{}, nil); err == nil || !strings.Contains(err.Error(), "no space left on device") {
				t.Errorf("PutImage of too much = %v, want no space left", err)
			}
			if after, _ := layers(t, s); after != before {
				t.Errorf("%d layers after a failure, %d before", after, before)
			}
			// Nor does an image that cannot be recorded.
			p := pulled(t, "full", []string{"full"}, entries(t, file("more", noise(2, 1000))))
			p.Layers[0] = stage(t, s, entries(t, file("more", noise(2, 1000))))
			if err := os.Remove(s.ballast.path); err != nil {
				t.Fatal(err)
			}
			s.ballast.size = 0
			filler := fill(t, s)
			if _, err := s.PutPulled(ctx, p); err == nil || !strings.Contains(err.Error(), "no space left on device") {
				t.Errorf("PutPulled on a full disk = %v, want no space left", err)
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			if after, _ := layers(t, s); after != before {
				t.Errorf("%d layers after a failure, %d before", after, before)
			}
			p.Layers[0] = stage(t, s, entries(t, file("more", noise(2, 1000))))
			again, err := s.PutPulled(ctx, p)
			if err != nil {
				t.Fatalf("PutPulled with room again: %v", err)
			}
			if _, err := s.Delete(ctx, again); err != nil {
				t.Fatal(err)
			}
			s.ballast.restore()
			if s.ballast.size != ballastSize {
				t.Fatal("there is room, but no ballast")
			}
			// Deleting works on a full disk, and the ballast comes back.
			fill(t, s)
			if err := s.Room(1, 1); fault.KindOf(err) != fault.KindInternal || !strings.Contains(err.Error(), "no space left on device: 1 B are needed, 0 B are free") {
				t.Errorf("Room on a full disk = %v", err)
			}
			for _, id := range containers {
				if err := s.Remove(ctx, id); err != nil {
					t.Errorf("Remove on a full disk: %v", err)
				}
			}
			fillUp(t, s) // somebody takes what has become free
			if err := s.Untag(ctx, img, "img"); err != nil {
				t.Errorf("Untag on a full disk: %v", err)
			}
			fillUp(t, s)
			if gone, err := s.Delete(ctx, seen(t, s, img)); err != nil || len(gone) != 1 {
				t.Errorf("Delete on a full disk = %v, %v", gone, err)
			}
			if err := os.Remove(filepath.Join(s.root, "filler")); err != nil {
				t.Fatal(err)
			}
			nothingLeft(t, s)
			s.ballast.restore()
			if info, err := os.Stat(filepath.Join(s.root, ballastFile)); err != nil || info.Size() != ballastSize {
				t.Errorf("ballast = %v, %v; want it back", info, err)
			}
			if err := s.Room(1<<20, 10); err != nil {
				t.Errorf("Room for a little = %v", err)
			}
			mustPull(t, s, "img", []string{"img"}, small)
		})
	}
}

// fillUp takes up what has become free.
func fillUp(t *testing.T, s *Store) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(s.root, "filler"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 18; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNoFilesLeft(t *testing.T) {
	s := openSmall(t, driverOverlay, "size=200m,nr_inodes=600")
	img := mustPull(t, s, "img", []string{"img"}, entries(t, file("small", "1")))
	if err := s.Room(1, 1<<20); err == nil || !strings.Contains(err.Error(), "room for 1048576 files is needed") {
		t.Errorf("Room for many files = %v", err)
	}
	many := map[string]string{}
	for i := range 1000 {
		many[strings.Repeat("d/", i%5)+noise(i, 10)] = "x"
	}
	if _, err := s.Stage(t.Context(), bytes.NewReader(tarball(t, many)), Blob{Size: -1}); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("Stage of too many files = %v", err)
	}
	id := newID(t)
	if err := s.Create(t.Context(), id, img.ID); err != nil {
		t.Fatal(err)
	}
	// Deleting works where no file can be made, and the ballast comes back.
	other := filepath.Join(s.root, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := os.CreateTemp(other, "")
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Remove(t.Context(), id); err != nil {
		t.Errorf("Remove without files: %v", err)
	}
	if _, err := s.Delete(t.Context(), img); err != nil {
		t.Errorf("Delete without files: %v", err)
	}
	nothingLeft(t, s)
	if err := os.RemoveAll(other); err != nil {
		t.Fatal(err)
	}
	s.ballast.restore()
	if left, err := filepath.Glob(s.ballast.path + ".*"); err != nil || len(left) != ballastFiles {
		t.Errorf("%d files of ballast, %v; want %d", len(left), err, ballastFiles)
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1 kB", 1_234_567: "1.235 MB", 999_999: "1000 kB", 5e9: "5 GB", 7e12: "7 TB", 2e15: "2000 TB",
	} {
		if got := formatBytes(n); got != want {
			t.Errorf("formatBytes(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestOpenOnAFullDisk(t *testing.T) {
	root, run := t.TempDir(), t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=40m"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	opts := Options{Root: root, RunRoot: run, SingleID: true}
	s, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	img := mustPull(t, s, "img", []string{"img"}, entries(t, file("small", noise(1, 1000))))
	fill(t, s)
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(run, "storage")); err != nil { // as after another boot
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), opts); err != nil {
		t.Fatalf("Open on a full disk: %v", err)
	}
	if _, err := s.Delete(t.Context(), img); err != nil {
		t.Errorf("Delete: %v", err)
	}
	nothingLeft(t, s)
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
