package storage

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
)

func putStep(t testing.TB, s *Store, parent, text string, files map[string]string) *image.Image {
	t.Helper()
	var img *image.Image
	var err error
	if files == nil {
		img, err = s.PutImage(t.Context(), nil, stepSpec(parent, text), nil)
	} else {
		img, err = s.PutImage(t.Context(), bytes.NewReader(tarball(t, files)), stepSpec(parent, text), nil)
	}
	if err != nil {
		t.Fatalf("PutImage of a step: %v", err)
	}
	return img
}

func steps(t testing.TB, s *Store) map[string]image.Built {
	t.Helper()
	list, err := s.Steps(t.Context())
	must(t, err)
	found := map[string]image.Built{}
	for _, b := range list {
		found[b.CreatedBy] = b
	}
	return found
}

// TestSteps follows a build's images from their making to their end, and through a new engine.
func TestSteps(t *testing.T) {
	for _, driver := range []string{driverOverlay, driverVFS} {
		t.Run(driver, func(t *testing.T) {
			root := t.TempDir()
			s := open(t, root, driver)
			base := put(t, s, map[string]string{"bin/": "", "bin/sh": "sh"}, "base")
			env := putStep(t, s, base.ID, "ENV", nil)
			layer := putStep(t, s, env.ID, "COPY", map[string]string{"f": "content"})
			last := putStep(t, s, layer.ID, "CMD", nil)
			if env.Result || env.Step != "sha256:"+sum([]byte("ENV")) || env.Parent != base.ID || !slices.Equal(env.Layers, base.Layers) {
				t.Errorf("a step's image: %+v", env)
			}
			checkSteps := func() {
				t.Helper()
				got := steps(t, s)
				if len(got) != 3 || got["COPY"].Size <= 0 || got["CMD"].Size != 0 || got["ENV"].Size != 0 || got["COPY"].Parent != env.ID {
					t.Errorf("steps: %+v", got)
				}
				if got["CMD"].Key != last.Step || got["CMD"].ID != last.ID {
					t.Errorf("the last step: %+v", got["CMD"])
				}
			}
			checkSteps()
			for _, what := range []string{last.ID, bareID(last.ID), bareID(last.ID)[:20]} {
				if img, err := s.Get(t.Context(), what); err != nil || img.ID != last.ID {
					t.Errorf("Get(%s) = %+v, %v", what, img, err)
				}
			}
			must(t, s.Close())

			s = open(t, root, driver)
			checkSteps()
			if len(s.Notes()) > 0 {
				t.Errorf("the opening: %q", s.Notes())
			}
			if got := treeOf(t, s, last.ID); got["f"] == "" || got["bin/sh"] == "" {
				t.Errorf("the files of the last step: %v", got)
			}
			done, err := s.Finish(t.Context(), last.ID, []string{"result", "result:2"})
			if err != nil || !done.Result || !slices.Equal(done.RepoTags, []string{"result:2", "result:latest"}) || done.Parent != layer.ID {
				t.Fatalf("Finish = %+v, %v", done, err)
			}
			if got := steps(t, s); len(got) != 3 || !got["CMD"].Result || got["COPY"].Result || got["CMD"].Key != last.Step {
				t.Errorf("steps after the end: %+v", got)
			}
			must(t, s.Close())

			s = open(t, root, driver)
			if img, err := s.Get(t.Context(), "result"); err != nil || img.ID != last.ID || img.Step != last.Step || !img.Result {
				t.Errorf("Get(result) = %+v, %v", img, err)
			}
			config, manifests, err := s.Documents(t.Context(), layer.ID)
			if err != nil || digest.FromBytes(config).String() != layer.ID || len(manifests) != 1 {
				t.Errorf("documents of a step: %d, %v", len(manifests), err)
			}
			for _, img := range []*image.Image{last, layer, env} {
				if _, err := s.Delete(t.Context(), seen(t, s, img)); err != nil {
					t.Errorf("Delete: %v", err)
				}
			}
			if records, folders := layers(t, s); records != 1 || folders != 1 || len(steps(t, s)) != 0 {
				t.Errorf("%d layers, %d folders, %v are left", records, folders, steps(t, s))
			}
			must(t, s.Close())
		})
	}
}

// TestStepOnceMore makes a step whose image is there already, as a step's and as one of its own.
func TestStepOnceMore(t *testing.T) {
	s := openTemp(t, driverOverlay)
	base := put(t, s, map[string]string{"a": "1"}, "base")
	spec := stepSpec(base.ID, "ENV")
	spec.Created = time.Unix(1e9, 0)
	first, err := s.PutImage(t.Context(), nil, spec, nil)
	must(t, err)
	spec.Step = "sha256:" + sum([]byte("another key"))
	again, err := s.PutImage(t.Context(), nil, spec, nil)
	if err != nil || again.ID != first.ID || again.Step != spec.Step || again.Result {
		t.Errorf("the step once more: %+v, %v", again, err)
	}
	if _, err := s.Finish(t.Context(), first.ID, nil); err != nil {
		t.Fatal(err)
	}
	spec.Step = "sha256:" + sum([]byte("a third key"))
	again, err = s.PutImage(t.Context(), nil, spec, nil)
	if err != nil || again.ID != first.ID || again.Step != spec.Step || !again.Result {
		t.Errorf("the step of a result: %+v, %v", again, err)
	}
	if got := steps(t, s); len(got) != 1 || got["ENV"].Key != spec.Step || !got["ENV"].Result {
		t.Errorf("steps: %+v", got)
	}
}

// TestStepsAreImages does with a step's image what clients may do with any.
func TestStepsAreImages(t *testing.T) {
	s := openTemp(t, driverOverlay)
	base := put(t, s, map[string]string{"a": "1"}, "base")
	step := putStep(t, s, base.ID, "COPY", map[string]string{"b": "2"})
	must(t, s.Untag(t.Context(), step, "nothing"))
	id := newID(t)
	must(t, s.Create(t.Context(), id, step.ID))
	if gone, err := s.Delete(t.Context(), step); err != nil || len(gone) != 0 {
		t.Errorf("Delete under a container = %v, %v", gone, err)
	}
	dir, err := s.Mount(t.Context(), id)
	must(t, err)
	if _, err := os.Stat(filepath.Join(dir, "b")); err != nil {
		t.Errorf("the container has lost its files: %v", err)
	}
	must(t, s.Remove(t.Context(), id))
	if records, _ := layers(t, s); records != 1 {
		t.Errorf("%d layers, want the base's", records)
	}

	step = putStep(t, s, base.ID, "COPY", map[string]string{"b": "2"})
	must(t, s.Tag(t.Context(), step.ID, "tagged"))
	if img, err := s.Get(t.Context(), "tagged"); err != nil || img.ID != step.ID || !img.Result {
		t.Errorf("Get(tagged) = %+v, %v", img, err)
	}
	other := putStep(t, s, step.ID, "ENV", nil)
	doc := Document{MediaType: mediaTypeManifest, Raw: []byte(`{"schemaVersion":2}`)}
	must(t, s.AddManifest(t.Context(), other.ID, doc, nil))
	if _, manifests, err := s.Documents(t.Context(), other.ID); err != nil || len(manifests) != 2 {
		t.Errorf("manifests: %d, %v, want 2", len(manifests), err)
	}
	if _, err := s.Get(t.Context(), "sha256:"+newID(t)); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get of nothing: %v", err)
	}
	if _, err := s.Finish(t.Context(), newID(t), nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("Finish of nothing: %v", err)
	}
	if _, err := s.Finish(t.Context(), other.ID, []string{"UPPER"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("Finish with a bad name: %v", err)
	}
}

func TestGraft(t *testing.T) {
	s := openTemp(t, driverOverlay)
	base := put(t, s, map[string]string{"a": "1"}, "base")
	second := putStep(t, s, base.ID, "COPY two", map[string]string{"b": "2"})
	from := putStep(t, s, second.ID, "COPY three", map[string]string{"c": "3"})
	must(t, s.Tag(t.Context(), from.ID, "from"))
	got, err := s.Graft(t.Context(), stepSpec(base.ID, "COPY grafted"), from.ID, 2)
	if err != nil || !slices.Equal(got.Layers, second.Layers) || got.TopLayer != second.TopLayer || got.Parent != base.ID {
		t.Fatalf("Graft = %+v, %v", got, err)
	}
	same(t, "grafted", treeOf(t, s, got.ID), treeOf(t, s, second.ID))
	history, sizes, err := s.History(t.Context(), got.ID)
	if err != nil || len(history) != 2 || history[1].CreatedBy != "COPY grafted" || history[1].EmptyLayer || len(sizes) != 2 {
		t.Errorf("history %+v, %v, %v", history, sizes, err)
	}
	if got, err := s.Graft(t.Context(), stepSpec(got.ID, "ENV"), from.ID, 2); err != nil || len(got.Layers) != 2 {
		t.Errorf("Graft without a layer = %+v, %v", got, err)
	}
	if got, err := s.Graft(t.Context(), stepSpec("", "FROM scratch"), from.ID, 1); err != nil || !slices.Equal(got.Layers, base.Layers) {
		t.Errorf("Graft on nothing = %+v, %v", got, err)
	}
	other := put(t, s, map[string]string{"a": "other"}, "other")
	for name, tc := range map[string]struct {
		parent, from string
		layers       int
		kind         fault.Constructor
	}{
		"other layers":     {other.ID, from.ID, 2, fault.Invalid},
		"two more":         {base.ID, from.ID, 3, fault.Invalid},
		"fewer":            {second.ID, from.ID, 1, fault.Invalid},
		"more than it has": {from.ID, from.ID, 4, fault.Invalid},
		"below none":       {base.ID, from.ID, -1, fault.Invalid},
		"no such image":    {base.ID, "sha256:" + newID(t), 1, fault.NotFound},
		"no such parent":   {"sha256:" + newID(t), from.ID, 1, fault.NotFound},
	} {
		if _, err := s.Graft(t.Context(), stepSpec(tc.parent, name), tc.from, tc.layers); !fault.Is(err, tc.kind) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, img := range []*image.Image{second, seen(t, s, from), got} {
		if _, err := s.Delete(t.Context(), img); err != nil && !fault.Is(err, fault.NotFound) {
			t.Errorf("Delete: %v", err)
		}
	}
}

// TestStepFiles opens a store in which a crash has left files of steps that are not whole, or lack what they stand on.
func TestStepFiles(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, driverOverlay)
	base := put(t, s, map[string]string{"a": "1"}, "base")
	whole := putStep(t, s, base.ID, "whole", nil)
	cut := putStep(t, s, base.ID, "cut", nil)
	empty := putStep(t, s, base.ID, "empty", nil)
	both := putStep(t, s, base.ID, "both", nil)
	loose := putStep(t, s, base.ID, "loose", map[string]string{"b": "2"})
	file := func(img *image.Image) string { return s.stepFile(bareID(img.ID)) }
	raw, err := os.ReadFile(file(both))
	must(t, err)
	_, err = s.Finish(t.Context(), both.ID, nil)
	must(t, err, os.WriteFile(file(both), raw, 0o600))
	must(t, os.Truncate(file(cut), 100), os.Truncate(file(empty), 0))
	raw, err = os.ReadFile(file(loose))
	must(t, err)
	_, err = s.Delete(t.Context(), loose)
	must(t, err, os.WriteFile(file(loose), raw, 0o600), os.WriteFile(file(whole)+".new", raw[:20], 0o600))
	must(t, s.Close())

	s = open(t, root, driverOverlay)
	got := steps(t, s)
	if len(got) != 2 || got["whole"].Result || !got["both"].Result {
		t.Errorf("steps: %+v", got)
	}
	left, err := os.ReadDir(filepath.Join(s.root, stepsFolder))
	if err != nil || len(left) != 1 {
		t.Errorf("files of steps: %v, %v, want that of the whole one", left, err)
	}
	must(t, s.Close())
}

// TestFinishedStepPowerCut empties the records of layers that are not on the disk when an image of steps has got its name,
// beside a pull that has brought the list of layers to the disk and not their records.
func TestFinishedStepPowerCut(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, driverOverlay)
	records := filepath.Join(s.root, "overlay-layers", volatileFile)
	step := putStep(t, s, "", "step", map[string]string{"a": "1"})
	mustPull(t, s, "beside", []string{"beside"}, entries(t, file("b", "2")))
	_, err := s.Finish(t.Context(), step.ID, []string{"built"})
	must(t, err)
	copied, err := os.ReadFile(filepath.Join(filepath.Dir(records), backupFile))
	must(t, err, s.Close())
	must(t, os.WriteFile(filepath.Join(filepath.Dir(records), backupFile), copied, 0o600), os.Truncate(records, 0))

	s = open(t, root, driverOverlay)
	if err := s.Create(t.Context(), newID(t), step.ID); err != nil {
		t.Errorf("a container of the image that was built: %v", err)
	}
	must(t, s.Close())
}

// TestFinishedStepWithoutAFolder takes the folder of a layer and empties its record: file systems that bring single files to
// the disk, as btrfs does, may have the image and the copy of the record without them. The image goes, and can be built again.
func TestFinishedStepWithoutAFolder(t *testing.T) {
	for _, listed := range []bool{true, false} { // the list of layers that may not be on the disk may be empty, too
		t.Run(strconv.FormatBool(listed), func(t *testing.T) {
			root := t.TempDir()
			s := open(t, root, driverOverlay)
			s.unsynced.delay = time.Hour // nothing leaves the list before Close
			base := put(t, s, map[string]string{"a": "1"}, "base")
			low := putStep(t, s, base.ID, "low", map[string]string{"b": "2"})
			top := putStep(t, s, low.ID, "top", map[string]string{"c": "3"})
			_, err := s.Finish(t.Context(), top.ID, []string{"built"})
			must(t, err)
			records := filepath.Join(s.root, "overlay-layers", volatileFile)
			copied, err := os.ReadFile(filepath.Join(filepath.Dir(records), backupFile))
			must(t, err)
			list, err := os.ReadFile(filepath.Join(s.root, unsyncedFile))
			must(t, err, s.Close())
			list = bytes.Replace(list, []byte(s.unsynced.mount), []byte("another"), 1)
			if !listed {
				list = nil
			}
			must(t, os.WriteFile(filepath.Join(filepath.Dir(records), backupFile), copied, 0o600), os.Truncate(records, 0),
				os.WriteFile(filepath.Join(s.root, unsyncedFile), list, 0o600), os.RemoveAll(filepath.Dir(s.layerFolder(low.TopLayer))))

			s = open(t, root, driverOverlay)
			if _, err := s.Get(t.Context(), top.ID); !fault.Is(err, fault.NotFound) {
				t.Errorf("Get of an image whose layer has no folder: %v, want none such; notes %q", err, s.Notes())
			}
			if _, err := s.Get(t.Context(), base.ID); err != nil {
				t.Errorf("Get of the image below: %v", err)
			}
			again := putStep(t, s, putStep(t, s, base.ID, "low", map[string]string{"b": "2"}).ID, "top", map[string]string{"c": "3"})
			_, err = s.Finish(t.Context(), again.ID, []string{"built"})
			must(t, err, s.Create(t.Context(), newID(t), again.ID), s.Close())
		})
	}
}

// TestStepPowerCut damages a layer of a step that may not have reached the disk: the step goes, all others stay.
func TestStepPowerCut(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, driverOverlay)
	s.unsynced.delay = time.Hour // nothing leaves the list before Close
	base := put(t, s, map[string]string{"a": "1"}, "base")
	hurt := putStep(t, s, base.ID, "hurt", map[string]string{"b": "content"})
	child := putStep(t, s, hurt.ID, "child", nil)
	fine := putStep(t, s, base.ID, "fine", map[string]string{"c": "content"})
	raw, err := os.ReadFile(filepath.Join(s.root, unsyncedFile))
	if err != nil || !strings.Contains(string(raw), hurt.TopLayer) || !strings.Contains(string(raw), fine.TopLayer) {
		t.Fatalf("the list of layers that may not be on the disk: %s, %v", raw, err)
	}
	must(t, s.Close())
	must(t, os.WriteFile(filepath.Join(root, "storage", unsyncedFile), bytes.Replace(raw, []byte(s.unsynced.mount), []byte("another"), 1), 0o600))
	must(t, os.Truncate(filepath.Join(s.layerFolder(hurt.TopLayer), "b"), 0))

	s = open(t, root, driverOverlay)
	if got := steps(t, s); len(got) != 1 || got["fine"].ID != fine.ID {
		t.Errorf("steps: %+v", got)
	}
	for _, img := range []*image.Image{hurt, child} {
		if _, err := s.Get(t.Context(), img.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("Get of a damaged image: %v", err)
		}
	}
	if records, folders := layers(t, s); records != 2 || folders != 2 {
		t.Errorf("%d layers, %d folders, want 2", records, folders)
	}
	must(t, s.Close())
}
