package storage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMendLinks(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, driverOverlay)
	lower := mustPull(t, s, "lower", nil, entries(t, file("1", "1")))
	upper := mustPull(t, s, "upper", nil, entries(t, file("1", "1")), entries(t, file("2", "2")))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(s.root, driverOverlay)
	link := func(id string) string { return filepath.Join(home, id, "link") }
	name, err := os.ReadFile(link(upper.TopLayer))
	if err != nil {
		t.Fatal(err)
	}
	// The file of one is empty, the link of the other is gone, a link leads nowhere, and a half made layer has an empty file.
	truncate(t, link(lower.TopLayer))
	if err := os.Remove(filepath.Join(home, "l", string(name))); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../"+strings.Repeat("a", 64)+"/diff", filepath.Join(home, "l", "NOWHERE")); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(home, strings.Repeat("b", 64))
	if err := os.MkdirAll(filepath.Join(half, "diff"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "link"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, root, driverOverlay)
	checkWhole(t, s)
	if list, err := s.List(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("images = %v, %v; want both", list, err)
	}
	id := newID(t)
	if err := s.Create(t.Context(), id, upper.ID); err != nil {
		t.Fatal(err)
	}
	dir, err := s.Mount(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1", "2"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if err := s.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The small files of a layer follow from the index: whatever they say, the layers mounted are the right ones.
func TestMendPlaces(t *testing.T) {
	for _, name := range []string{"link", "lower", "lower-layers"} {
		for way := range spoilt("") {
			t.Run(name+" "+way, func(t *testing.T) {
				root := t.TempDir()
				s := open(t, root, driverOverlay)
				img := mustPull(t, s, "img", nil, entries(t, file("1", "1")), entries(t, file("2", "2")))
				mustPull(t, s, "other", nil, entries(t, file("3", "3")), entries(t, file("4", "4")))
				id := newContainer(t, s, img)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				home := filepath.Join(s.root, driverOverlay)
				if err := spoilt(filepath.Join(home, img.TopLayer, name))[way](filepath.Join(home, id, name)); err != nil {
					t.Fatal(err)
				}
				s = open(t, root, driverOverlay)
				dir, err := s.Mount(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				for name, want := range map[string]bool{"1": true, "2": true, "3": false, "4": false} {
					if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
						t.Errorf("file %s: %v, want it there: %v", name, err, want)
					}
				}
				if err := s.Unmount(t.Context(), id); err != nil {
					t.Error(err)
				}
				checkPlace(t, s, []string{id, img.TopLayer, layerBelow(t, s, img.TopLayer)})
				if err := s.Remove(t.Context(), id); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func layerBelow(t *testing.T, s *Store, layerID string) string {
	t.Helper()
	layer, err := s.cs.Layer(layerID)
	if err != nil {
		t.Fatal(err)
	}
	return layer.Parent
}

// TestPlacesComeBack damages the small files that follow from a layer's parent: each says again what it should, and what was
// below a layer is below it.
func TestPlacesComeBack(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, driverOverlay)
	img := mustPull(t, s, "img", nil, entries(t, file("1", "1")), entries(t, file("2", "2")), entries(t, file("3", "3")))
	id := newID(t)
	must(t, s.Create(t.Context(), id, img.ID))
	chain, err := s.layerChain(img.TopLayer)
	must(t, err, s.Close())
	chain = append([]string{id}, chain...)
	home := filepath.Join(s.root, driverOverlay)
	read := func(layerID, name string) string {
		raw, err := os.ReadFile(filepath.Join(home, layerID, name))
		must(t, err)
		return string(raw)
	}
	before := map[string]string{}
	for _, layerID := range chain[:3] {
		before[layerID] = read(layerID, "lower") + " " + read(layerID, "lower-layers")
	}
	for name, damage := range map[string]func(path, content string){
		"empty":     func(path, _ string) { truncate(t, path) },
		"zeros":     func(path, content string) { must(t, os.WriteFile(path, make([]byte, len(content)), 0o600)) },
		"half":      func(path, content string) { must(t, os.WriteFile(path, []byte(content[:len(content)/2]), 0o600)) },
		"gone":      func(path, _ string) { must(t, os.Remove(path)) },
		"another's": func(path, _ string) { must(t, os.WriteFile(path, []byte(chain[3]), 0o600)) },
	} {
		for _, layerID := range chain[:3] {
			for _, small := range []string{"lower", "lower-layers"} {
				damage(filepath.Join(home, layerID, small), read(layerID, small))
			}
		}
		must(t, os.RemoveAll(filepath.Join(home, id, "work")))
		must(t, os.RemoveAll(filepath.Join(home, id, "merged")))
		s = open(t, root, driverOverlay)
		for layerID, want := range before {
			if got := read(layerID, "lower") + " " + read(layerID, "lower-layers"); got != want {
				t.Errorf("%s: the lists of %s are %q, want %q", name, layerID, got, want)
			}
		}
		dir, err := s.Mount(t.Context(), id)
		must(t, err)
		for _, name := range []string{"1", "2", "3"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
		must(t, s.Unmount(t.Context(), id))
		must(t, s.Close())
	}
	// Both the name and the link of it are lost: the layer gets another one, and all above it say so.
	name := read(chain[2], "link")
	truncate(t, filepath.Join(home, chain[2], "link"))
	must(t, os.Remove(filepath.Join(home, "l", name)))
	s = open(t, root, driverOverlay)
	if now := read(chain[2], "link"); now == name || !isShort(now) || !strings.Contains(read(id, "lower"), now) {
		t.Errorf("short name %q after %q, those below the container: %s", now, name, read(id, "lower"))
	}
	must(t, s.Close())
	// A container's folder that did not reach the disk takes its record along: it can be made anew.
	must(t, os.RemoveAll(filepath.Join(home, id)))
	s = open(t, root, driverOverlay)
	if ids, err := s.Containers(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("containers = %v, %v; want none", ids, err)
	}
	must(t, s.Create(t.Context(), id, img.ID))
	must(t, s.Remove(t.Context(), id))
	must(t, s.Close())
}
