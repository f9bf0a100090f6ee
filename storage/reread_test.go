package storage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/engine/image"
)

// TestNamesOnAFullDisk: what answers an error has not been done, now and after the next start.
func TestNamesOnAFullDisk(t *testing.T) {
	for _, driver := range []string{driverOverlay, driverVFS} {
		t.Run(driver, func(t *testing.T) {
			s := openSmall(t, driver, "size=40m")
			ctx := t.Context()
			one := mustPull(t, s, "one", []string{"one"}, entries(t, file("1", "1")))
			two := mustPull(t, s, "two", []string{"two"}, entries(t, file("2", "2")))
			step := putStep(t, s, one.ID, "step", nil)
			if err := os.Remove(s.ballast.path); err != nil {
				t.Fatal(err)
			}
			s.ballast.size = 0
			// What becomes free meanwhile does so before the disk is filled.
			for list := filepath.Join(s.root, unsyncedFile); ; {
				if _, err := os.Stat(list); os.IsNotExist(err) {
					break
				}
				select {
				case <-ctx.Done():
					t.Fatal("the layers do not reach the disk")
				case <-time.After(10 * time.Millisecond):
				}
			}
			s.copies.close() // which writes as well
			filler := fill(t, s)
			for name, verb := range map[string]func() error{
				"tag":         func() error { return s.Tag(ctx, one.ID, "other") },
				"tag, taking": func() error { return s.Tag(ctx, one.ID, "two") },
				"tag a step":  func() error { return s.Tag(ctx, step.ID, "other") },
				"finish":      func() error { _, err := s.Finish(ctx, step.ID, []string{"two"}); return err },
				"untag":       func() error { return s.Untag(ctx, one, "one") },
				"delete":      func() error { _, err := s.Delete(ctx, two); return err },
				"manifest": func() error {
					return s.AddManifest(ctx, one.ID, Document{Raw: []byte(`{"a":1}`)}, []string{"two"})
				},
			} {
				fillUp(t, s)
				if err := verb(); err == nil || !strings.Contains(err.Error(), "no space left on device") {
					t.Errorf("%s on a full disk: %v, want no space left", name, err)
				}
				for ref, want := range map[string]*image.Image{"one": one, "two": two, "other": nil} {
					img, err := s.Get(ctx, ref)
					if (err == nil) != (want != nil) || err == nil && img.ID != want.ID {
						t.Errorf("after a %s that failed %s is %v, %v; want %v", name, ref, img, err, want)
					}
				}
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			if err := s.Tag(ctx, one.ID, "two"); err != nil {
				t.Fatalf("Tag with room again: %v", err)
			}
			list, err := s.List(ctx)
			if err != nil || len(list) != 3 || !slices.ContainsFunc(list, func(img *image.Image) bool { return img.ID == two.ID && len(img.RepoTags) == 0 }) {
				t.Errorf("images = %v, %v; want the second without its name, which was taken, and a step", list, err)
			}
		})
	}
}

// TestImageWithoutADocument: a power cut on btrfs may leave the record of an image whose documents have no names yet. It was
// half made; all others stay.
func TestImageWithoutADocument(t *testing.T) {
	for name, lose := range map[string]func(s *Store, bare string) error{
		"the config": func(s *Store, bare string) error { return os.Remove(s.documentFile(bare, "sha256:"+bare)) },
		"all":        func(s *Store, bare string) error { return os.RemoveAll(s.imageFolder(bare)) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			s := open(t, root, driverOverlay)
			base := entries(t, file("1", "1"))
			good := mustPull(t, s, "good", []string{"good"}, base)
			bad := mustPull(t, s, "bad", []string{"bad"}, base, entries(t, file("2", "2")))
			must(t, s.Close())
			must(t, lose(s, bareID(bad.ID)))
			s = open(t, root, driverOverlay)
			if list, err := s.List(t.Context()); err != nil || len(list) != 1 || list[0].ID != good.ID {
				t.Errorf("images = %v, %v; want the one that is whole", list, err)
			}
			checkWhole(t, s)
			must(t, s.Close())
		})
	}
}
