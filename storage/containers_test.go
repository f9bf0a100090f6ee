package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cstorage "go.podman.io/storage"

	"moss/engine/damage"
)

// createInLibrary makes a container's layer as earlier versions did, with a file in it.
func createInLibrary(t *testing.T, s *Store, parent string) string {
	t.Helper()
	id := newID(t)
	_, err := s.cs.CreateLayer(id, parent, nil, "", true, &cstorage.LayerOptions{Volatile: true, Flags: map[string]any{containerFlag: "image"}})
	must(t, err, os.WriteFile(filepath.Join(s.layerFolder(id), "written"), []byte("w"), 0o600))
	return id
}

func checkWritten(t *testing.T, s *Store, id string) {
	t.Helper()
	dir, err := s.Mount(t.Context(), id)
	if err != nil {
		t.Errorf("Mount: %v", err)
		return
	}
	for name, want := range map[string]string{"written": "w", "base": "b"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s of container %s = %q, %v; want %q", name, id, got, err, want)
		}
	}
	if err := s.Unmount(t.Context(), id); err != nil {
		t.Errorf("Unmount: %v", err)
	}
}

// TestTakeContainers opens a store whose containers are in the library's list, as earlier versions left it, also where that
// list or the names did not reach the disk.
func TestTakeContainers(t *testing.T) {
	for _, driver := range []string{driverOverlay, driverVFS} {
		for name, spoil := range map[string]func(list string) error{
			"whole":   func(string) error { return nil },
			"emptied": func(list string) error { return os.Truncate(list, 0) },
			"missing": os.Remove,
		} {
			t.Run(driver+" "+name, func(t *testing.T) {
				root := t.TempDir()
				s := open(t, root, driver)
				img := put(t, s, map[string]string{"base": "b"}, "base")
				step := putStep(t, s, img.ID, "step", map[string]string{"c": "3"})
				ids := []string{createInLibrary(t, s, img.TopLayer), createInLibrary(t, s, img.TopLayer)}
				slices.Sort(ids)
				s.flusher.markRecords()
				must(t, s.Close(), os.RemoveAll(s.containers.dir), spoil(filepath.Join(s.root, driver+"-layers", volatileFile)))

				for round := range 2 {
					s = open(t, root, driver)
					if got, err := s.Containers(t.Context()); err != nil || !slices.Equal(got, ids) {
						t.Errorf("opening %d: containers %q, %v; want %q", round, got, err, ids)
					}
					all, err := s.cs.Layers()
					must(t, err)
					if len(all) != 2 {
						t.Errorf("opening %d: the library has %d layers, want those of two images", round, len(all))
					}
					for _, id := range ids {
						checkWritten(t, s, id)
					}
					if _, err := s.Get(t.Context(), step.ID); err != nil {
						t.Errorf("opening %d: the step: %v", round, err)
					}
					if got := s.Notes(); len(got) != 0 {
						t.Errorf("opening %d: notes %q, want none", round, got)
					}
					must(t, s.Close())
				}
			})
		}
	}
}

// TestDamagedNames damages the names of containers' layers: what they hold is nothing, and where all are gone the layers are
// kept for a person.
func TestDamagedNames(t *testing.T) {
	for way := range spoilt("") {
		t.Run(way, func(t *testing.T) {
			root := t.TempDir()
			s := open(t, root, driverOverlay)
			img := put(t, s, map[string]string{"base": "b"}, "base")
			id := newContainer(t, s, img)
			must(t, os.WriteFile(filepath.Join(s.layerFolder(id), "written"), []byte("w"), 0o600), s.Close())
			if way == "missing" {
				must(t, os.RemoveAll(s.containers.dir))
			} else {
				must(t, spoilt(filepath.Join(s.root, driverFile))[way](s.containers.namePath(id, img.TopLayer)))
			}
			var found []damage.Found
			s = openWith(t, root, damage.New(root, func(f damage.Found) { found = append(found, f) }))
			if way == "missing" {
				if len(found) != 1 || !strings.HasSuffix(found[0].Path, id) {
					t.Errorf("found %v, want the layer of the container alone", found)
				}
			} else {
				checkWritten(t, s, id)
				must(t, s.Remove(t.Context(), id))
				if len(found) != 0 {
					t.Errorf("found %v, want nothing", found)
				}
			}
			if left, err := os.ReadDir(s.containers.dir); err != nil || len(left) != 0 {
				t.Errorf("names %v, %v; want none", left, err)
			}
			must(t, s.Close())
		})
	}
}

// TestHalfMadeContainers opens a store with a folder that has no name yet, and a name whose folder a power cut took.
func TestHalfMadeContainers(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, driverOverlay)
	img := put(t, s, map[string]string{"base": "b"}, "base")
	half, lost, whole := newContainer(t, s, img), newContainer(t, s, img), newContainer(t, s, img)
	must(t, os.WriteFile(filepath.Join(s.layerFolder(whole), "written"), []byte("w"), 0o600), s.Close(),
		os.Remove(s.containers.namePath(half, img.TopLayer)), os.RemoveAll(filepath.Dir(s.layerFolder(lost))))

	s = open(t, root, driverOverlay)
	if got, err := s.Containers(t.Context()); err != nil || !slices.Equal(got, []string{whole}) {
		t.Errorf("containers %q, %v; want %q", got, err, whole)
	}
	checkWritten(t, s, whole)
	if _, err := os.Lstat(filepath.Dir(s.layerFolder(half))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder without a name: %v, want it gone", err)
	}
	if got := s.Notes(); len(got) != 1 || !strings.Contains(got[0], lost) {
		t.Errorf("notes %q, want one of %s", got, lost)
	}
	must(t, s.Create(t.Context(), half, img.ID), s.Create(t.Context(), lost, img.ID), s.Close())
}
