package storage

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cstorage "go.podman.io/storage"

	"moss/engine/damage"
	"moss/engine/fault"
)

// An image whose config is damaged is listed, cannot be used, and can be put again or removed. The others do not notice.
func TestDamagedConfig(t *testing.T) {
	for way := range spoilt("") {
		if way == "missing" {
			continue // not damage: see TestImageWithoutADocument
		}
		t.Run(way, func(t *testing.T) {
			root := t.TempDir()
			s := open(t, root, driverOverlay)
			layer := entries(t, file("1", "1"))
			bad := mustPull(t, s, "bad", []string{"r/bad:1"}, layer)
			good := mustPull(t, s, "good", []string{"r/good:1"}, entries(t, file("2", "2")))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path := s.documentFile(bareID(bad.ID), bad.ID)
			if err := spoilt(s.documentFile(bareID(good.ID), good.ID))[way](path); err != nil {
				t.Fatal(err)
			}
			var found []damage.Found
			account := damage.New(root, func(f damage.Found) { found = append(found, f) })
			s = openWith(t, root, account)
			list, err := s.List(t.Context())
			if err != nil || len(list) != 2 {
				t.Fatalf("images = %v, %v; want both", list, err)
			}
			if !slices.ContainsFunc(found, func(f damage.Found) bool { return strings.Contains(f.Path+f.Why, bareID(bad.ID)) }) {
				t.Errorf("found %v, want the image in it", found)
			}
			img, err := s.Get(t.Context(), "r/bad:1")
			if err != nil || img.ID != bad.ID || img.Size != bad.Size {
				t.Errorf("Get = %+v, %v; want id and size of the image", img, err)
			}
			if err := s.Create(t.Context(), newID(t), bad.ID); !fault.Is(err, fault.Conflict) {
				t.Errorf("Create: %v, want a Conflict", err)
			}
			if id := newContainer(t, s, good); s.Remove(t.Context(), id) != nil {
				t.Error("container of the other image not removed")
			}
			if again := mustPull(t, s, "bad", []string{"r/bad:1"}, layer); again.ID != bad.ID || again.Comment != bad.Comment {
				t.Errorf("the image put again: %+v, want %+v", again, bad)
			}
			id := newContainer(t, s, bad)
			if err := s.Remove(t.Context(), id); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := spoilt(s.documentFile(bareID(good.ID), good.ID))[way](path); err != nil {
				t.Fatal(err)
			}
			s = openWith(t, root, account)
			if gone, err := s.Delete(t.Context(), bad); err != nil || len(gone) != 1 {
				t.Errorf("Delete = %v, %v; want a layer", gone, err)
			}
			if list, err := s.List(t.Context()); err != nil || len(list) != 1 {
				t.Errorf("images = %v, %v; want one", list, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A damaged manifest comes back from its other copy, or is made anew: the image can be run and sent.
func TestDamagedManifest(t *testing.T) {
	for _, both := range []bool{false, true} {
		for way := range spoilt("") {
			root := t.TempDir()
			s := open(t, root, driverOverlay)
			img := mustPull(t, s, "img", []string{"r/img:1"}, entries(t, file("1", "1")))
			bare := bareID(img.ID)
			record, err := s.cs.Image(bare)
			if err != nil {
				t.Fatal(err)
			}
			_, before, err := s.Documents(t.Context(), img.ID)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for key := range maps.Keys(record.BigDataDigests) {
				if key == cstorage.ImageDigestBigDataKey || both && key != img.ID {
					if err := spoilt(s.documentFile(bare, img.ID))[way](s.documentFile(bare, key)); err != nil {
						t.Fatal(err)
					}
				}
			}
			s = openWith(t, root, damage.New(root, nil))
			_, after, err := s.Documents(t.Context(), img.ID)
			if err != nil || len(after) == 0 || len(after[0].Raw) == 0 || !both && string(after[0].Raw) != string(before[0].Raw) {
				t.Errorf("%s, both %v: documents %v, %v; want %v", way, both, after, err, before)
			}
			if id := newContainer(t, s, img); s.Remove(t.Context(), id) != nil {
				t.Error("container not removed")
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// An image whose layer has lost its folder is listed, cannot be used, and gets another layer when it is put again. A container
// keeps the damaged one.
func TestLayerWithoutAFolder(t *testing.T) {
	for _, driver := range []string{driverOverlay, driverVFS} {
		t.Run(driver, func(t *testing.T) {
			root := t.TempDir()
			s := open(t, root, driver)
			content := entries(t, file("1", "1"))
			bad := mustPull(t, s, "bad", []string{"r/bad:1", "r/bad:2"}, content)
			good := mustPull(t, s, "good", nil, entries(t, file("2", "2")))
			container := newContainer(t, s, bad)
			folder := filepath.Join(s.root, driverOverlay, bad.TopLayer)
			if driver == driverVFS {
				folder = s.layerFolder(bad.TopLayer)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			account := damage.New(root, nil)
			s = openWith(t, root, account)
			if found, err := account.All(); err != nil || !slices.ContainsFunc(found, func(f damage.Found) bool { return strings.Contains(f.Path, bad.TopLayer) }) {
				t.Errorf("found %v, %v; want the layer's folder in it", found, err)
			}
			for _, img := range []string{bad.ID, good.ID} {
				err := s.Create(t.Context(), newID(t), img)
				if img == bad.ID && !fault.Is(err, fault.Conflict) || img == good.ID && err != nil {
					t.Errorf("Create of %s: %v, want a Conflict for %s alone", img, err, bad.ID)
				}
			}
			if again := mustPull(t, s, "bad", []string{"r/bad:1"}, content); again.Comment != bad.Comment || len(again.RepoTags) != 2 {
				t.Errorf("the image put again: %+v, want %+v", again, bad)
			}
			checkLayer(t, s, bad.ID, 0, content)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openWith(t, root, account)
			checkLayer(t, s, bad.ID, 0, content)
			if id := newContainer(t, s, bad); s.Remove(t.Context(), id) != nil {
				t.Error("container of the image not removed")
			}
			if err := s.Remove(t.Context(), container); err != nil {
				t.Errorf("remove the container on the damaged layer: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
