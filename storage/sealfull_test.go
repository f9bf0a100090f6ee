package storage

import (
	"bytes"
	"os"
	"testing"

	"moss/engine/image"
)

// TestStepsOnAFullDisk makes steps where there is no room: each comes to nothing and leaves nothing, or is whole. With room they
// go on.
func TestStepsOnAFullDisk(t *testing.T) {
	for _, driver := range []string{driverOverlay, driverVFS} {
		t.Run(driver, func(t *testing.T) {
			s := openSmall(t, driver, "size=40m")
			base := put(t, s, map[string]string{"a": "1"}, "base")
			ready := putStep(t, s, base.ID, "ready", map[string]string{"r": "r"})
			ids := make([]string, 0, 3)
			for range 3 {
				ids = append(ids, ran(t, s, base.ID, func(dir string) { write(t, dir, "f", noise(1, 50_000)) }))
			}
			layersBefore, _ := layers(t, s)
			filler := fill(t, s)
			made := map[string]*image.Image{}
			note := func(what string, img *image.Image, err error) {
				if err == nil {
					made[img.ID] = img
				} else {
					t.Logf("%s: %v", what, err)
				}
			}
			img, err := s.PutImage(t.Context(), nil, stepSpec(base.ID, "config"), nil)
			note("PutImage without a layer", img, err)
			img, err = s.PutImage(t.Context(), bytes.NewReader(tarball(t, map[string]string{"b": noise(2, 90_000)})), stepSpec(base.ID, "layer"), nil)
			note("PutImage", img, err)
			for _, id := range ids[:2] {
				img, err = s.Seal(t.Context(), id, stepSpec(base.ID, "RUN "+id), nil)
				note("Seal", img, err)
			}
			if _, err := s.Finish(t.Context(), ready.ID, []string{"ready"}); err != nil {
				t.Logf("Finish: %v", err)
				if img, err := s.Get(t.Context(), ready.ID); err != nil || img.Result || len(img.RepoTags) > 0 {
					t.Errorf("after a Finish that failed: %+v, %v", img, err)
				}
			}
			must(t, os.Remove(filler))
			if got := len(steps(t, s)); got != len(made)+1 {
				t.Errorf("%d steps, want %d", got, len(made)+1)
			}
			img, err = s.Seal(t.Context(), ids[2], stepSpec(base.ID, "RUN with room"), nil)
			must(t, err)
			made[img.ID] = img
			_, err = s.Finish(t.Context(), ready.ID, []string{"ready"})
			must(t, err)
			own := map[string]bool{}
			for _, img := range made {
				if len(img.Layers) > 1 {
					content(t, s, img)
					own[img.TopLayer] = true
				}
			}
			for _, id := range ids {
				must(t, s.Remove(t.Context(), id))
			}
			if records, folders := layers(t, s); records != layersBefore-len(ids)+len(own) || folders != records {
				t.Errorf("%d layers, %d folders, want %d", records, folders, layersBefore-len(ids)+len(own))
			}
		})
	}
}
