package storage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/image"
)

// TestSealTwice makes the same layer of the same content, and has only one in the store.
func TestSealTwice(t *testing.T) {
	s := openTemp(t, driverOverlay)
	base := put(t, s, map[string]string{"d/": ""}, "base")
	made := make([]*image.Image, 0, 2)
	for range 2 {
		id := ran(t, s, base.ID, func(dir string) {
			write(t, dir, "f", "same")
			stamp := time.Unix(1e9, 0)
			must(t, os.Chtimes(filepath.Join(dir, "f"), stamp, stamp))
		})
		img, err := s.Seal(t.Context(), id, stepSpec(base.ID, "RUN same"), nil)
		must(t, err, s.Remove(t.Context(), id))
		made = append(made, img)
	}
	if made[0].ID == made[1].ID || !slices.Equal(made[0].Layers, made[1].Layers) || made[0].TopLayer != made[1].TopLayer {
		t.Errorf("two images of the same layer: %+v, %+v", made[0], made[1])
	}
	if records, folders := layers(t, s); records != 2 || folders != 2 {
		t.Errorf("%d layers, %d folders, want 2", records, folders)
	}
}

// TestSealMany seals many containers at the same time.
func TestSealMany(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		base := put(t, s, map[string]string{"d/": ""}, "base")
		const chains, steps = 6, 4
		var all sync.WaitGroup
		for c := range chains {
			all.Go(func() {
				parent := base
				for i := range steps {
					name := fmt.Sprintf("f%d.%d", c, i)
					id := ran(t, s, parent.ID, func(dir string) { write(t, dir, name, name) })
					img, err := s.Seal(t.Context(), id, stepSpec(parent.ID, "RUN "+name), nil)
					if err == nil {
						err = s.Remove(t.Context(), id)
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					parent = img
				}
				got := treeOf(t, s, parent.ID)
				for i := range steps {
					if got[fmt.Sprintf("f%d.%d", c, i)] == "" {
						t.Errorf("chain %d lacks the file of step %d: %v", c, i, got)
					}
				}
			})
		}
		all.Wait()
		steps2, err := s.Steps(t.Context())
		if err != nil || len(steps2) != chains*steps {
			t.Errorf("%d steps, %v, want %d", len(steps2), err, chains*steps)
		}
		if records, folders := layers(t, s); records != 1+chains*steps || folders != records {
			t.Errorf("%d layers, %d folders", records, folders)
		}
	})
}

// TestSealCapability seals a file with capabilities, as ping has.
func TestSealCapability(t *testing.T) {
	s := openTemp(t, driverOverlay)
	base := put(t, s, map[string]string{"bin/": ""}, "base")
	const name = "security.capability"
	want := []byte{1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // effective; permitted: net_raw
	id := ran(t, s, base.ID, func(dir string) {
		write(t, dir, "bin/ping", "p")
		must(t, unix.Lsetxattr(filepath.Join(dir, "bin/ping"), name, want, 0))
	})
	img, err := s.Seal(t.Context(), id, stepSpec(base.ID, "RUN setcap"), nil)
	must(t, err)
	if h := content(t, s, img)["bin/ping"]; h == nil || h.PAXRecords["SCHILY.xattr."+name] != string(want) {
		t.Errorf("in the archive: %+v", h)
	}
	r, err := s.OpenLayer(t.Context(), img.ID, 1)
	must(t, err)
	copied, err := s.PutImage(t.Context(), r, ImageSpec{OS: "linux"}, nil)
	must(t, err, r.Close())
	for _, img := range []*image.Image{img, copied} {
		view, err := s.View(t.Context(), img.ID)
		must(t, err)
		got := make([]byte, 64)
		n, err := unix.Lgetxattr(filepath.Join(view.Dir, "bin/ping"), name, got)
		if err != nil || !bytes.Equal(got[:n], want) {
			t.Errorf("the file has %v, %v, want %v", got[:max(n, 0)], err, want)
		}
		must(t, view.Close())
	}
}
