package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moss/engine/damage"
	"moss/engine/image"
)

// spoilt are the ways in which the tests damage a file.
func spoilt(other string) map[string]func(path string) error {
	write := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	instead := func(put func(path string) error) func(string) error {
		return func(path string) error { return errors.Join(os.Remove(path), put(path)) }
	}
	return map[string]func(path string) error{
		"empty": write(""), "object": write("{}"), "list": write("[]"), "garbage": write("\x00\xff garbage"),
		"half": func(path string) error {
			raw, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, raw[:len(raw)/2], 0o600))
		},
		"another's": func(path string) error {
			raw, err := os.ReadFile(other)
			return errors.Join(err, os.WriteFile(path, raw, 0o600))
		},
		"folder":  instead(func(path string) error { return os.MkdirAll(filepath.Join(path, "inside"), 0o700) }),
		"link":    instead(func(path string) error { return os.Symlink(other, path) }),
		"missing": os.Remove,
	}
}

// An index that is damaged costs nothing: neither images nor layers.
func TestDamagedIndex(t *testing.T) {
	for _, name := range []string{"layers.json", "volatile-layers.json", "images.json"} {
		other := map[string]string{"layers.json": "volatile-layers.json", "volatile-layers.json": "layers.json", "images.json": "layers.json"}[name]
		for way := range spoilt("") {
			t.Run(name+" "+way, func(t *testing.T) {
				root := t.TempDir()
				s := open(t, root, driverOverlay)
				img := mustPull(t, s, "img", []string{"r/img:1"}, entries(t, file("1", "1")), entries(t, file("2", "2")))
				putStep(t, s, img.ID, "step", map[string]string{"c": "3"}) // its layer is in the other index
				container := newID(t)
				if err := s.Create(t.Context(), container, img.ID); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				folder := func(name string) string {
					if name == "images.json" {
						return filepath.Join(s.root, "overlay-images", name)
					}
					return filepath.Join(s.root, "overlay-layers", name)
				}
				if err := spoilt(folder(other))[way](folder(name)); err != nil {
					t.Fatal(err)
				}
				var found []damage.Found
				account := damage.New(root, func(f damage.Found) { found = append(found, f) })
				s = openWith(t, root, account)
				list, err := s.List(t.Context())
				named := slices.DeleteFunc(slices.Clone(list), func(img *image.Image) bool { return !img.Result })
				if err != nil || len(list) != 2 || len(named) != 1 || !slices.Equal(named[0].RepoTags, []string{"r/img:1"}) {
					t.Errorf("images = %v, %v; want the one that was there, and the step", list, err)
				}
				if len(found) != 1 || !strings.HasSuffix(found[0].Path, name) {
					t.Errorf("found %v, want %s alone", found, name)
				}
				for _, id := range []string{container, newContainer(t, s, img)} {
					dir, err := s.Mount(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					if got, err := os.ReadFile(filepath.Join(dir, "2")); err != nil || string(got) != "2" {
						t.Errorf("file of the image: %q, %v", got, err)
					}
					if err := s.Remove(t.Context(), id); err != nil {
						t.Error(err)
					}
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A container whose image was removed keeps its layers when an index comes back from its copy.
func TestDamagedIndexAndOrphans(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, driverOverlay)
	img := mustPull(t, s, "img", []string{"r/img:1"}, entries(t, file("1", "1")))
	mustPull(t, s, "other", []string{"r/other:1"}, entries(t, file("2", "2")))
	id := newContainer(t, s, img)
	if _, err := s.Delete(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	truncate(t, filepath.Join(s.root, "overlay-images", "images.json"))
	s = openWith(t, root, damage.New(root, nil))
	dir, err := s.Mount(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "1")); err != nil || string(got) != "1" {
		t.Errorf("file of the removed image: %q, %v", got, err)
	}
	if err := s.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
	if records, _ := layers(t, s); records != 1 {
		t.Errorf("%d layers are left, want that of the other image", records)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Without the copy an index is lost. What it listed is set aside and not deleted.
func TestLostIndex(t *testing.T) {
	for _, name := range []string{"layers", "images"} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			s := open(t, root, driverOverlay)
			img := mustPull(t, s, "img", []string{"r/img:1"}, entries(t, file("1", "what must stay")))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for _, end := range []string{".json", ".bak"} {
				if err := os.Remove(filepath.Join(s.root, "overlay-"+name, name+end)); err != nil {
					t.Fatal(err)
				}
			}
			s = openWith(t, root, damage.New(root, nil))
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			s = openWith(t, root, damage.New(root, nil)) // the next start deletes nothing either
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if kept := contains(t, root, "what must stay"); kept == "" {
				t.Errorf("the files of %s are gone", img.ID)
			}
		})
	}
}

// TestHalfWrittenCopies are what a crash leaves of a copy: nothing is kept of them, whatever damage made of them.
func TestHalfWrittenCopies(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, driverOverlay)
	mustPull(t, s, "img", []string{"r/img:1"}, entries(t, file("1", "1")))
	must(t, s.Close())
	layers, volatile, images := indexesOf(s.root, driverOverlay)
	left := make([]string, 0, 6)
	for _, x := range []*index{layers, volatile, images} {
		left = append(left, x.path+newSuffix, x.copy+newSuffix)
	}
	for i, path := range left {
		if i%2 == 0 {
			must(t, os.Mkdir(path, 0o700))
			path = filepath.Join(path, "f")
		}
		must(t, os.WriteFile(path, []byte("{"), 0o600))
	}
	s = open(t, root, driverOverlay)
	must(t, s.Close())
	for _, path := range left {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s after the next start: %v, want none", filepath.Base(path), err)
		}
	}
}

func openWith(t *testing.T, root string, account *damage.Account) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Root: root, RunRoot: filepath.Join(root, "run"), SingleID: true, Damage: account})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s
}

func newContainer(t *testing.T, s *Store, img *image.Image) string {
	t.Helper()
	id := newID(t)
	if err := s.Create(t.Context(), id, img.ID); err != nil {
		t.Fatal(err)
	}
	return id
}

// contains returns the path of a file below root that holds just a text; empty if there is none.
func contains(t *testing.T, root, text string) (found string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if raw, err := os.ReadFile(path); err == nil && string(raw) == text {
				found = path
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
