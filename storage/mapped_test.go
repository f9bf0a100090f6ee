package storage

import (
	"os"
	"path/filepath"
	"testing"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/image"
)

// oneID is a map that the single id of the tests can have; it is a map all the same, and the library makes a copy for it.
func oneID() container.IDMap {
	only := []container.IDRange{{Count: 1}}
	return container.IDMap{UIDs: only, GIDs: only}
}

// TestMappedLayers follows the copy of an image for other ids from the first container to the end of the image.
func TestMappedLayers(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, "")
	ctx := t.Context()
	img := put(t, s, map[string]string{"etc/": "", "etc/motd": "hello"}, "base")
	one, two := newID(t), newID(t)
	for _, id := range []string{one, two} {
		if err := s.CreateMapped(ctx, id, img.ID, oneID()); err != nil {
			t.Fatal(err)
		}
	}
	if records, _ := layers(t, s); records != 4 {
		t.Errorf("%d layers, want 4: the image's, its copy and one for each container", records)
	}
	if err := s.CreateMapped(ctx, one, img.ID, oneID()); !fault.Is(err, fault.Conflict) {
		t.Errorf("CreateMapped again = %v, want a conflict", err)
	}
	if err := s.CreateMapped(ctx, newID(t), "sha256:"+newID(t), oneID()); !fault.Is(err, fault.NotFound) {
		t.Errorf("CreateMapped without an image = %v, want not found", err)
	}
	dir, err := s.Mount(ctx, one)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "etc/motd")); err != nil || string(got) != "hello" {
		t.Errorf("the image's file reads %q, %v", got, err)
	}
	if changes, err := s.Changes(ctx, one, nil); err != nil || len(changes) != 0 {
		t.Errorf("Changes = %v, %v, want none", changes, err)
	}
	if ids, err := s.Containers(ctx); err != nil || len(ids) != 2 {
		t.Errorf("Containers = %v, %v, want two", ids, err)
	}
	for _, id := range []string{one, two} {
		if err := s.Remove(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	reopen := func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, root, "")
	}
	reopen()
	if records, _ := layers(t, s); records != 2 {
		t.Errorf("%d layers without containers, want 2: the copy lives as long as the image", records)
	}
	if err := s.CreateMapped(ctx, one, img.ID, oneID()); err != nil {
		t.Fatal(err)
	}
	if gone, err := s.Delete(ctx, img); err != nil || len(gone) != 0 {
		t.Errorf("Delete = %v, %v, want the layers kept for the container", gone, err)
	}
	reopen()
	if _, err := s.Mount(ctx, one); err != nil {
		t.Errorf("Mount without the image: %v", err)
	}
	if err := s.Remove(ctx, one); err != nil {
		t.Fatal(err)
	}
	if records, folders := layers(t, s); records != 0 || folders != 0 {
		t.Errorf("%d layers, %d folders after the last Remove, want none", records, folders)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestMappedGoesWithImage deletes an image whose copy nobody uses, and one that shares its layer with another.
func TestMappedGoesWithImage(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		img := put(t, s, map[string]string{"a": "1"}, "base")
		twin := put(t, s, map[string]string{"a": "1"}, "twin")
		id := newID(t)
		if err := s.CreateMapped(ctx, id, img.ID, oneID()); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(ctx, id); err != nil {
			t.Fatal(err)
		}
		for _, i := range []*image.Image{img, twin} {
			if _, err := s.Delete(ctx, i); err != nil {
				t.Fatal(err)
			}
		}
		if records, folders := layers(t, s); records != 0 || folders != 0 {
			t.Errorf("%d layers, %d folders without images, want none", records, folders)
		}
	})
}
