package storage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestView(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		one := put(t, s, map[string]string{"a": "1"}, "one")
		two := putStep(t, s, one.ID, "COPY", map[string]string{"b": "2"})
		none, err := s.PutImage(t.Context(), nil, ImageSpec{OS: "linux"}, nil)
		must(t, err)
		for img, want := range map[*image.Image][]string{one: {"a"}, two: {"a", "b"}, none: nil} {
			first, err := s.View(t.Context(), img.ID)
			must(t, err)
			second, err := s.View(t.Context(), img.ID)
			must(t, err)
			if first.Dir != second.Dir {
				t.Errorf("two views at %s and %s", first.Dir, second.Dir)
			}
			must(t, first.Close(), first.Close())
			entries, err := os.ReadDir(second.Dir)
			names := make([]string, 0, len(entries))
			for _, entry := range entries {
				names = append(names, entry.Name())
			}
			if err != nil || !slices.Equal(names, want) {
				t.Errorf("the view has %v, %v, want %v", names, err, want)
			}
			if s.choice.driver != driverVFS && img != none {
				if err := os.WriteFile(filepath.Join(second.Dir, "new"), nil, 0o600); err == nil {
					t.Error("the view can be written to")
				}
			}
			var st unix.Stat_t
			if err := unix.Fstatat(int(second.Root.Fd()), "a", &st, 0); (err == nil) != (img != none) {
				t.Errorf("by its handle: %v", err)
			}
			// The layers stay with the view, whoever removes the image.
			if _, err := s.Delete(t.Context(), img); err != nil {
				t.Errorf("Delete: %v", err)
			}
			if _, err := os.ReadDir(second.Dir); err != nil {
				t.Errorf("read the view of a removed image: %v", err)
			}
			must(t, second.Close())
		}
		if records, folders := layers(t, s); records != 0 || folders != 0 {
			t.Errorf("%d layers, %d folders are left", records, folders)
		}
		if _, err := s.View(t.Context(), "sha256:"+newID(t)); !fault.Is(err, fault.NotFound) {
			t.Errorf("View of nothing: %v", err)
		}
	})
}

// TestLeftViews opens a store whose engine was killed with views open.
func TestLeftViews(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, driverOverlay)
	img := put(t, s, map[string]string{"a": "1"}, "one")
	id := newID(t)
	must(t, s.Create(t.Context(), id, img.ID))
	mounted, err := s.Mount(t.Context(), id)
	must(t, err)
	view, err := s.View(t.Context(), img.ID)
	must(t, err, s.Close())

	s = open(t, root, driverOverlay)
	if s.mountedAt(img.TopLayer) != "" {
		t.Errorf("%s is still mounted", view.Dir)
	}
	if s.mountedAt(id) != mounted {
		t.Error("the container's mount is gone")
	}
	must(t, s.Remove(t.Context(), id))
	if _, err := s.Delete(t.Context(), img); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if records, folders := layers(t, s); records != 0 || folders != 0 {
		t.Errorf("%d layers, %d folders are left", records, folders)
	}
	must(t, s.Close())
}

func TestSetVolatile(t *testing.T) {
	s := openTemp(t, driverOverlay)
	img := put(t, s, map[string]string{"a": "1"}, "one")
	id := newID(t)
	if err := s.SetVolatile(t.Context(), id, true); !fault.Is(err, fault.NotFound) {
		t.Errorf("SetVolatile without a layer: %v", err)
	}
	must(t, s.Create(t.Context(), id, img.ID))
	for _, volatile := range []bool{true, false} {
		must(t, s.SetVolatile(t.Context(), id, volatile))
		dir, err := s.Mount(t.Context(), id)
		must(t, err)
		raw, err := os.ReadFile("/proc/self/mountinfo")
		must(t, err)
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, " "+dir+" ") && strings.Contains(line, "volatile") != volatile {
				t.Errorf("volatile %t: mounted as %s", volatile, line)
			}
		}
		if err := s.SetVolatile(t.Context(), id, volatile); !fault.Is(err, fault.Conflict) {
			t.Errorf("SetVolatile of a mounted layer: %v", err)
		}
		must(t, s.Unmount(t.Context(), id))
	}
	must(t, s.Remove(t.Context(), id))
}

// TestStepComesFromOutside takes in an image that a step has made here already.
func TestStepComesFromOutside(t *testing.T) {
	s := openTemp(t, driverOverlay)
	base := put(t, s, map[string]string{"a": "1"}, "base")
	made := putStep(t, s, base.ID, "COPY", map[string]string{"b": "2"})
	config, manifests, err := s.Documents(t.Context(), made.ID)
	must(t, err)
	p := Pulled{Config: config, Manifest: manifests[0], Names: []string{"outside"}, Layers: make([]*Staged, len(made.Layers))}
	for _, layer := range made.Layers {
		p.DiffIDs = append(p.DiffIDs, digest.Digest(layer))
	}
	img, err := s.PutPulled(t.Context(), p)
	if err != nil || img.ID != made.ID || !img.Result || img.Step != made.Step || img.Parent != base.ID {
		t.Fatalf("PutPulled = %+v, %v", img, err)
	}
	if got := steps(t, s); len(got) != 1 || !got["COPY"].Result || s.lightStep(bareID(made.ID)) != nil {
		t.Errorf("steps: %+v", got)
	}
	if _, err := os.Stat(s.stepFile(bareID(made.ID))); err == nil {
		t.Error("the step's file is left")
	}
}

// TestFinishUndone has the library fail when a step is to get its place there: the step stays one.
func TestFinishUndone(t *testing.T) {
	s := openTemp(t, driverOverlay)
	base := put(t, s, map[string]string{"a": "1"}, "base")
	made := putStep(t, s, base.ID, "COPY", map[string]string{"b": "2"})
	// A file where the library wants to have a folder.
	blocker := filepath.Join(s.root, "overlay-images", bareID(made.ID))
	must(t, os.WriteFile(blocker, nil, 0o600))
	if img, err := s.Finish(t.Context(), made.ID, []string{"made"}); err == nil {
		t.Fatalf("Finish = %+v, want an error", img)
	}
	if img, err := s.Get(t.Context(), made.ID); err != nil || img.Result || len(img.RepoTags) > 0 {
		t.Errorf("after the error: %+v, %v", img, err)
	}
	must(t, os.RemoveAll(blocker))
	if img, err := s.Finish(t.Context(), made.ID, []string{"made"}); err != nil || !img.Result || len(img.RepoTags) != 1 {
		t.Errorf("Finish again = %+v, %v", img, err)
	}
}
