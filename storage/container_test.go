package storage

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
)

func TestContainerLife(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		img := put(t, s, map[string]string{"etc/": "", "etc/motd": "hello", "etc/gone": "x"}, "base")
		id := newID(t)
		if err := s.Create(ctx, id, img.ID); err != nil {
			t.Fatalf("Create: %v", err)
		}
		if err := s.Create(ctx, id, img.ID); !fault.Is(err, fault.Conflict) {
			t.Errorf("Create again = %v, want a conflict", err)
		}
		dir, err := s.Mount(ctx, id)
		if err != nil {
			t.Fatalf("Mount: %v", err)
		}
		if again, err := s.Mount(ctx, id); err != nil || again != dir {
			t.Errorf("Mount again = %q, %v, want %q", again, err, dir)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "etc/motd")); err != nil || string(got) != "hello" {
			t.Errorf("the image's file reads %q, %v", got, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "etc/new"), []byte(strings.Repeat("n", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "etc/gone")); err != nil {
			t.Fatal(err)
		}
		checkDiff(t, s, id)
		if err := s.Unmount(ctx, id); err != nil {
			t.Fatalf("Unmount: %v", err)
		}
		if err := s.Unmount(ctx, id); err != nil {
			t.Errorf("Unmount again: %v", err)
		}
		checkDiff(t, s, id)
		if s.mountedAt(id) != "" {
			t.Error("a diff left the layer mounted")
		}
		if dir, err = s.Mount(ctx, id); err != nil {
			t.Fatalf("second Mount: %v", err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "etc/new")); err != nil || len(got) != 1000 {
			t.Errorf("the written file has %d bytes, %v", len(got), err)
		}
		if got, err := s.Containers(ctx); err != nil || !slices.Equal(got, []string{id}) {
			t.Errorf("Containers = %v, %v, want %s", got, err, id)
		}
		for range 2 { // the first removes a mounted layer, the second an absent one
			if err := s.Remove(ctx, id); err != nil {
				t.Fatalf("Remove: %v", err)
			}
		}
		if got, err := s.Containers(ctx); err != nil || len(got) != 0 {
			t.Errorf("Containers after Remove = %v, %v", got, err)
		}
		if _, err := s.Mount(ctx, id); !fault.Is(err, fault.NotFound) {
			t.Errorf("Mount of a removed layer = %v, want not found", err)
		}
	})
}

func checkDiff(t *testing.T, s *Store, id string) {
	t.Helper()
	ctx := t.Context()
	rw, root, err := s.Size(ctx, id)
	if err != nil || rw < 1000 || rw > 100_000 || root <= rw {
		t.Errorf("Size = %d, %d, %v, want some thousand and more", rw, root, err)
	}
	changes, err := s.Changes(ctx, id, nil)
	want := []container.Change{{Path: "/etc", Kind: container.ChangeModified}, {Path: "/etc/gone", Kind: container.ChangeDeleted}, {Path: "/etc/new", Kind: container.ChangeAdded}}
	slices.SortFunc(changes, func(a, b container.Change) int { return strings.Compare(a.Path, b.Path) })
	if err != nil || !slices.Equal(changes, want) {
		t.Errorf("Changes = %v, %v, want %v", changes, err, want)
	}
	diff, err := s.Diff(ctx, id, nil)
	if err != nil {
		t.Fatalf("Diff: %v", err)
	}
	var names []string
	for r := tar.NewReader(diff); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("read diff: %v", err)
		}
		names = append(names, strings.Trim(h.Name, "/."))
	}
	if err := diff.Close(); err != nil {
		t.Errorf("close diff: %v", err)
	}
	slices.Sort(names)
	if want := "etc etc/.wh.gone etc/new"; strings.TrimSpace(strings.Join(names, " ")) != want {
		t.Errorf("Diff holds %q, want %q", names, want)
	}
}

func TestOrphansGoWithTheirContainer(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, "")
	ctx := t.Context()
	img := put(t, s, map[string]string{"a": "1"}, "base")
	one, two, three := newID(t), newID(t), newID(t)
	for _, id := range []string{one, two, three} {
		if err := s.Create(ctx, id, img.ID); err != nil {
			t.Fatal(err)
		}
	}
	if gone, err := s.Delete(ctx, img); err != nil || len(gone) != 0 {
		t.Errorf("Delete = %v, %v, want the layer kept for the containers", gone, err)
	}
	if err := s.Create(ctx, newID(t), img.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Create from a removed image = %v, want not found", err)
	}
	if _, err := s.Mount(ctx, one); err != nil {
		t.Errorf("Mount without the image: %v", err)
	}
	if err := s.Remove(ctx, one); err != nil {
		t.Fatal(err)
	}
	if records, _ := layers(t, s); records != 3 {
		t.Errorf("%d layers after one Remove, want 3", records)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, root, "")
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, id := range []string{two, three} {
		if err := s.Remove(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if records, folders := layers(t, s); records != 0 || folders != 0 {
		t.Errorf("%d layers, %d folders after the last Remove, want none", records, folders)
	}
}

func TestParallel(t *testing.T) {
	s := openTemp(t, "")
	ctx := t.Context()
	img := put(t, s, map[string]string{"a": "1"}, "base")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 15 {
				id := newID(t)
				if err := s.Create(ctx, id, img.ID); err != nil {
					t.Errorf("Create: %v", err)
					return
				}
				dir, err := s.Mount(ctx, id)
				if err != nil {
					t.Errorf("Mount: %v", err)
					return
				}
				if err := os.WriteFile(filepath.Join(dir, "x"), []byte(id), 0o600); err != nil {
					t.Error(err)
				}
				if _, _, err := s.Size(ctx, id); err != nil {
					t.Error(err)
				}
				if err := s.Unmount(ctx, id); err != nil {
					t.Error(err)
				}
				if err := s.Remove(ctx, id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 5 {
			img, err := s.PutImage(ctx, bytes.NewReader(tarball(t, map[string]string{"f": strconv.Itoa(i)})), ImageSpec{}, []string{"moving"})
			if err != nil {
				t.Errorf("PutImage: %v", err)
				continue
			}
			if _, err := s.Delete(ctx, img); err != nil {
				t.Errorf("Delete: %v", err)
			}
		}
	})
	wg.Wait()
	if records, folders := layers(t, s); records != 1 || folders != 1 {
		t.Errorf("%d layers, %d folders left, want the image's", records, folders)
	}
}

func BenchmarkContainer(b *testing.B) {
	s := openTemp(b, "")
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		busybox = make([]byte, 1<<20)
	}
	img := put(b, s, map[string]string{"bin/": "", "bin/busybox": string(busybox)}, "busybox")
	ctx := b.Context()
	times := map[string][]time.Duration{}
	step := func(name string, do func() error) {
		start := time.Now()
		if err := do(); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		times[name] = append(times[name], time.Since(start))
	}
	for b.Loop() {
		id, dir := newID(b), ""
		step("create", func() error { return s.Create(ctx, id, img.ID) })
		step("mount", func() (err error) { dir, err = s.Mount(ctx, id); return err })
		if err := os.WriteFile(filepath.Join(dir, "x"), []byte(id), 0o600); err != nil {
			b.Fatal(err)
		}
		step("unmount", func() error { return s.Unmount(ctx, id) })
		step("remove", func() error { return s.Remove(ctx, id) })
	}
	for name, t := range times {
		slices.Sort(t)
		b.ReportMetric(float64(t[len(t)/2].Microseconds())/1000, name+"-ms")
	}
}
