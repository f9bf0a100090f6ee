package storage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/record"
)

func TestUnsynced(t *testing.T) {
	for _, driver := range []string{driverOverlay, driverVFS} {
		for name, tc := range map[string]struct {
			damage func(t *testing.T, s *Store, layerID string)
			mount  string // of the list; empty: the present one
			list   string // in place of the list
			gone   bool
		}{
			"another mount and all is well": {func(*testing.T, *Store, string) {}, "other", "", false},
			"another mount and a file is empty": {func(t *testing.T, s *Store, id string) {
				truncate(t, filepath.Join(s.layerFolder(id), "f"))
			}, "other", "", true},
			"another mount and a file is gone": {func(t *testing.T, s *Store, id string) {
				if err := os.Remove(filepath.Join(s.layerFolder(id), "f")); err != nil {
					t.Fatal(err)
				}
			}, "other", "", true},
			"another mount and the headers are empty": {func(t *testing.T, s *Store, id string) {
				truncate(t, s.headersFile(id))
			}, "other", "", true},
			"another mount and the place is lost": {func(t *testing.T, s *Store, id string) {
				if s.choice.driver == driverVFS {
					truncate(t, s.headersFile(id))
					return
				}
				for _, name := range []string{"link", "lower", "lower-layers"} {
					truncate(t, filepath.Join(filepath.Dir(s.layerFolder(id)), name))
				}
			}, "other", "", driver == driverVFS}, // what follows from others is written anew
			"the same mount": {func(t *testing.T, s *Store, id string) {
				truncate(t, filepath.Join(s.layerFolder(id), "f"))
			}, "", "", false},
			"the list is lost": {func(t *testing.T, s *Store, id string) {
				truncate(t, filepath.Join(s.layerFolder(id), "f"))
			}, "", "{", true},
		} {
			t.Run(driver+" "+name, func(t *testing.T) {
				root := t.TempDir()
				s := open(t, root, driver)
				s.unsynced.delay = time.Hour // nothing leaves the list before Close
				base := entries(t, file("base", "base"))
				good := mustPull(t, s, "good", []string{"good"}, base)
				bad := mustPull(t, s, "bad", []string{"r/bad:1"}, base, entries(t, file("f", "content")))
				var list unsyncedList
				if err := record.Get(filepath.Join(s.root, unsyncedFile), &list); err != nil || !slices.Contains(list.Layers, bad.TopLayer) {
					t.Errorf("the list holds %v, %v; want %s in it", list.Layers, err, bad.TopLayer)
				}
				container := newID(t)
				if err := s.Create(t.Context(), container, bad.ID); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(filepath.Join(s.root, unsyncedFile)); !os.IsNotExist(err) {
					t.Errorf("the list after Close: %v, want none", err)
				}
				tc.damage(t, s, bad.TopLayer)
				if tc.mount != "" {
					list.Mount = tc.mount
				}
				if err := record.Put(filepath.Join(s.root, unsyncedFile), list); err != nil {
					t.Fatal(err)
				}
				if tc.list != "" {
					if err := os.WriteFile(filepath.Join(s.root, unsyncedFile), []byte(tc.list), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				s = open(t, root, driver)
				if list.Mount == "" && name == "the same mount" {
					tc.gone = true // this kernel does not tell mounts apart: all that is listed is looked at
				}
				images, err := s.List(t.Context())
				want := 2
				if tc.gone {
					want = 1
				}
				if err != nil || len(images) != want || !slices.ContainsFunc(images, func(img *image.Image) bool { return img.ID == good.ID }) {
					t.Errorf("images = %v, %v; want %d", images, err, want)
				}
				notes := strings.Join(s.Notes(), "\n")
				if told := strings.Contains(notes, bad.ID) && strings.Contains(notes, "r/bad:1") && strings.Contains(notes, container); told != tc.gone {
					t.Errorf("notes = %q", notes)
				}
				if ids, err := s.Containers(t.Context()); err != nil || !slices.Equal(ids, []string{container}) {
					t.Errorf("containers = %v, %v; want the one that was there", ids, err)
				}
				if _, err := os.Stat(filepath.Join(s.root, unsyncedFile)); tc.list != "" && !os.IsNotExist(err) {
					t.Errorf("the lost list after Open: %v, want none", err)
				}
				if err := s.Remove(t.Context(), container); err != nil {
					t.Error(err)
				}
				if records, _ := layers(t, s); records != want {
					t.Errorf("%d layers are left, want %d", records, want)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestLayerWithoutARecord takes a layer's record and empties the list of layers that may not be on the disk: the record of the
// image may have reached it first.
func TestLayerWithoutARecord(t *testing.T) {
	for _, driver := range []string{driverOverlay, driverVFS} {
		root := t.TempDir()
		s := open(t, root, driver)
		base := entries(t, file("base", "base"))
		mustPull(t, s, "good", []string{"good"}, base)
		index := filepath.Join(s.root, driver+"-layers", layersIndex)
		before, err := os.ReadFile(index)
		must(t, err)
		cut := mustPull(t, s, "cut", []string{"cut"}, base, entries(t, file("f", "content")))
		must(t, s.Close(), os.WriteFile(index, before, 0o600), os.Remove(filepath.Join(filepath.Dir(index), layersCopy)),
			os.WriteFile(filepath.Join(s.root, unsyncedFile), nil, 0o600))

		s = open(t, root, driver)
		if _, err := s.Get(t.Context(), cut.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: Get of an image whose layer has no record: %v, want none such; notes %q", driver, err, s.Notes())
		}
		if _, err := s.Get(t.Context(), "good"); err != nil {
			t.Errorf("%s: Get of another image: %v", driver, err)
		}
		again := mustPull(t, s, "cut", []string{"cut"}, base, entries(t, file("f", "content")))
		must(t, s.Create(t.Context(), newID(t), again.ID), s.Close())
	}
}

func truncate(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
}

// A damaged layer that is kept for a container is no layer of an image that is pulled again, nor are those above it.
func TestPullBesideADamagedLayer(t *testing.T) {
	for _, driver := range []string{driverOverlay, driverVFS} {
		for damaged, name := range []string{"base", "upper"} {
			t.Run(driver+" "+name, func(t *testing.T) {
				root := t.TempDir()
				s := open(t, root, driver)
				content := [][]byte{entries(t, file("base", "base")), entries(t, file("upper", "upper"))}
				img := mustPull(t, s, "img", []string{"r/img:1"}, content...)
				container := newID(t)
				if err := s.Create(t.Context(), container, img.ID); err != nil {
					t.Fatal(err)
				}
				chain, err := s.layerChain(img.TopLayer)
				if err != nil || len(chain) != 2 {
					t.Fatalf("chain = %v, %v; want two layers", chain, err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				truncate(t, s.headersFile(chain[1-damaged]))
				if err := record.Put(filepath.Join(s.root, unsyncedFile), unsyncedList{Mount: "other", Layers: chain}); err != nil {
					t.Fatal(err)
				}
				s = open(t, root, driver)
				for _, again := range []string{"at once", "after one more start"} {
					p := pulled(t, "img", nil, content...)
					if here := s.Here(p.DiffIDs); here != damaged {
						t.Errorf("%s: %d layers are here, want %d", again, here, damaged)
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s = open(t, root, driver)
				}
				img = mustPull(t, s, "img", []string{"r/img:1"}, content...)
				checkLayer(t, s, img.ID, 0, content[0])
				checkLayer(t, s, img.ID, 1, content[1])
				if ids, err := s.Containers(t.Context()); err != nil || !slices.Equal(ids, []string{container}) {
					t.Errorf("containers = %v, %v; want the one that was there", ids, err)
				}
				if err := s.Remove(t.Context(), container); err != nil {
					t.Error(err)
				}
				if records, _ := layers(t, s); records != 2 {
					t.Errorf("%d layers are left, want those of the image", records)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestLayerMadeAnewWhileOthersSync makes a layer that is being brought to the disk anew: what is new of it may not be there.
func TestLayerMadeAnewWhileOthersSync(t *testing.T) {
	j := newJournal(t.TempDir(), "mount", nil, func(time.Time) {})
	j.delay = time.Hour
	must(t, j.addLayers([]string{"again", "once"}, false))
	j.commitLayers([]string{"again", "once"}, false)
	through := j.committedLayers()
	must(t, j.addLayers([]string{"again"}, false))
	j.commitLayers([]string{"again"}, false)
	j.forgetSynced(through)
	must(t, j.writeList(true))
	var list unsyncedList
	must(t, record.Get(filepath.Join(j.root, unsyncedFile), &list), j.close())
	if !slices.Equal(list.Layers, []string{"again"}) {
		t.Errorf("the list holds %q, want the layer that was made anew alone", list.Layers)
	}
}
