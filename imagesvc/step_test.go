package imagesvc

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// step makes the image of a step of a build; without content it has no layer of its own.
func step(t testing.TB, s *Service, parent, text, content string) *image.Image {
	t.Helper()
	about := image.Step{
		Parent: parent, OS: "linux", Architecture: "amd64", CreatedBy: text, Created: time.Now(), Key: "sha256:" + text,
		Config: image.Config{Labels: map[string]string{"step": text}},
	}
	var err error
	var img *image.Image
	if content == "" {
		img, err = s.PutStep(t.Context(), about, nil)
	} else {
		img, err = s.PutStep(t.Context(), about, bytes.NewReader(rootfs(t, content)))
	}
	if err != nil {
		t.Fatalf("PutStep: %v", err)
	}
	return img
}

func listed(t testing.TB, s *Service, opts image.ListOptions) string {
	t.Helper()
	list, err := s.List(t.Context(), opts)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	names := make([]string, 0, len(list))
	for _, img := range list {
		name := img.Config.Labels["step"]
		if name == "" {
			name = strings.Join(img.RepoTags, "+")
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestStepsInLists follows two builds, one of which has no end, through lists, prunes and removals.
func TestStepsInLists(t *testing.T) {
	s, st, events := newService(t, Limits{})
	base := made(t, st, "", "base", storage.ImageSpec{}, "base")
	env := step(t, s, base.ID, "env", "")
	layer := step(t, s, env.ID, "layer", "layer")
	last := step(t, s, layer.ID, "last", "")
	loose := step(t, s, layer.ID, "loose", "loose")
	dangling := map[string][]string{"dangling": {"true"}}
	check := func(when, want, all, hanging string) {
		t.Helper()
		if got := listed(t, s, image.ListOptions{}); got != want {
			t.Errorf("%s: the list has %q, want %q", when, got, want)
		}
		if got := listed(t, s, image.ListOptions{All: true}); got != all {
			t.Errorf("%s: with all the list has %q, want %q", when, got, all)
		}
		if got := listed(t, s, image.ListOptions{Filters: dangling}); got != hanging {
			t.Errorf("%s: dangling are %q, want %q", when, got, hanging)
		}
	}
	check("before the end", "base:latest", "base:latest env last layer loose", "")
	if err := s.Finish(t.Context(), last.ID, nil); err != nil {
		t.Fatal(err)
	}
	check("without a name", "base:latest last", "base:latest env last layer loose", "last")
	if err := s.Finish(t.Context(), last.ID, []string{"result", "h:5000/result:v1"}); err != nil {
		t.Fatal(err)
	}
	check("with names", "base:latest last", "base:latest env last layer loose", "")
	if img, err := s.Get(t.Context(), "result"); err != nil || !slices.Equal(img.RepoTags, []string{"h:5000/result:v1", "result:latest"}) {
		t.Errorf("Get(result) = %+v, %v", img, err)
	}
	if got := events.take(); got != "create,create,tag,tag" {
		t.Errorf("events %q, want two ends of builds and two tags", got)
	}
	if removed, bytes, err := s.Prune(t.Context(), nil); err != nil || len(removed) != 0 || bytes != 0 {
		t.Errorf("a prune removes %v, %d bytes, %v", removed, bytes, err)
	}
	// With its last child the chain goes, as far as nothing else was built on it.
	for _, name := range []string{"result", "h:5000/result:v1"} {
		if _, err := s.Remove(t.Context(), name, image.RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	check("after the removal", "base:latest", "base:latest env layer loose", "")
	if _, err := s.Remove(t.Context(), loose.ID, image.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	check("after the last child", "base:latest", "base:latest", "")
}

func TestFinishRefuses(t *testing.T) {
	s, st, events := newService(t, Limits{})
	base := made(t, st, "", "base", storage.ImageSpec{}, "base")
	last := step(t, s, base.ID, "last", "")
	for _, tc := range []struct {
		id    string
		names []string
		kind  fault.Constructor
	}{
		{last.ID, []string{"fine", "UPPER"}, fault.Invalid},
		{last.ID, []string{"a@sha256:" + strings.Repeat("0", 64)}, fault.Invalid},
		{"sha256:" + strings.Repeat("0", 64), []string{"a"}, fault.NotFound},
	} {
		if err := s.Finish(t.Context(), tc.id, tc.names); !fault.Is(err, tc.kind) {
			t.Errorf("Finish(%s, %v) = %v", tc.id, tc.names, err)
		}
	}
	if img, err := s.Get(t.Context(), last.ID); err != nil || img.Result || len(img.RepoTags) > 0 {
		t.Errorf("after what failed: %+v, %v", img, err)
	}
	if got := events.take(); got != "" {
		t.Errorf("events %q, want none", got)
	}
}

func TestDropStep(t *testing.T) {
	s, st, _ := newService(t, Limits{})
	base := made(t, st, "", "base", storage.ImageSpec{}, "base")
	parent := step(t, s, base.ID, "parent", "parent")
	child := step(t, s, parent.ID, "child", "child")
	result := step(t, s, base.ID, "result", "")
	if err := s.Finish(t.Context(), result.ID, nil); err != nil {
		t.Fatal(err)
	}
	used := step(t, s, base.ID, "used", "")
	s.SetUsers(keepers{used.ID: {{ContainerID: strings.Repeat("1", 64)}}})
	held := step(t, s, base.ID, "held", "")
	release, err := s.Hold(t.Context(), held.ID, "used by a build")
	if err != nil {
		t.Fatal(err)
	}
	opened := step(t, s, base.ID, "opened", "opened")
	view, err := s.Open(t.Context(), opened.ID)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(filepath.Join(view.Dir, "etc/motd")); err != nil || string(raw) != "opened" {
		t.Errorf("the view shows %q, %v", raw, err)
	}
	for name, id := range map[string]string{
		"no step": base.ID, "a parent": parent.ID, "a result": result.ID, "used": used.ID, "held": held.ID, "open": opened.ID,
	} {
		if n, err := s.DropStep(t.Context(), id); !fault.Is(err, fault.Conflict) || n != 0 {
			t.Errorf("DropStep of %s = %d, %v, want a conflict", name, n, err)
		}
	}
	release()
	release()
	if err := view.Close(); err != nil {
		t.Fatal(err)
	}
	for _, img := range []*image.Image{held, opened, child, parent} {
		n, err := s.DropStep(t.Context(), img.ID)
		if err != nil || (n > 0) != (len(img.Layers) > len(base.Layers)) {
			t.Errorf("DropStep of %s = %d, %v", img.Step, n, err)
		}
	}
	if _, err := s.DropStep(t.Context(), child.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("DropStep again: %v", err)
	}
	if got := listed(t, s, image.ListOptions{All: true}); got != "base:latest result used" {
		t.Errorf("left are %q", got)
	}
}

// TestStepUsage counts what the build cache alone has as nothing of the images'.
func TestStepUsage(t *testing.T) {
	s, st, _ := newService(t, Limits{})
	base := made(t, st, "", "base", storage.ImageSpec{}, "base")
	before, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one := step(t, s, base.ID, "one", "one")
	two := step(t, s, one.ID, "two", "two")
	now, err := s.Usage(t.Context())
	if err != nil || now.LayersSize != before.LayersSize || len(now.Images) != 1 || now.Images[0].SharedSize != 0 {
		t.Errorf("with steps: %+v, %v; before %+v", now, err, before)
	}
	if err := s.Finish(t.Context(), two.ID, []string{"two"}); err != nil {
		t.Fatal(err)
	}
	now, err = s.Usage(t.Context())
	if err != nil || now.LayersSize != two.Size || len(now.Images) != 2 {
		t.Errorf("with a result: %+v, %v; want %d bytes", now, err, two.Size)
	}
	for _, u := range now.Images {
		if u.Image.ID == two.ID && (u.SharedSize != base.Size || u.UniqueSize != two.Size-base.Size) {
			t.Errorf("the result: shared %d, own %d", u.SharedSize, u.UniqueSize)
		}
	}
	built, err := s.Steps(t.Context())
	if err != nil || len(built) != 2 {
		t.Fatalf("steps %+v, %v", built, err)
	}
	for _, b := range built {
		if b.Size <= 0 || b.Result != (b.ID == two.ID) {
			t.Errorf("step %+v", b)
		}
	}
}

// TestSealStep makes a step of what a container wrote, and reads its past.
func TestSealStep(t *testing.T) {
	s, st, _ := newService(t, Limits{})
	base := made(t, st, "", "base", storage.ImageSpec{CreatedBy: "import"}, "base")
	id := strings.Repeat("ab", 32)
	if err := st.Create(t.Context(), id, base.ID); err != nil {
		t.Fatal(err)
	}
	dir, err := st.Mount(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "made"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	img, err := s.SealStep(t.Context(), image.Step{Parent: base.ID, CreatedBy: "/bin/sh -c x", Created: time.Now(), Key: "k", OS: "linux"}, id, nil)
	if err != nil || len(img.Layers) != 2 || img.Parent != base.ID || img.EngineVersion != "test" {
		t.Fatalf("SealStep = %+v, %v", img, err)
	}
	graft, err := s.GraftStep(t.Context(), image.Step{Parent: base.ID, CreatedBy: "graft", Created: time.Now(), Key: "g", OS: "linux"}, img.ID, 2)
	if err != nil || !slices.Equal(graft.Layers, img.Layers) {
		t.Errorf("GraftStep = %+v, %v", graft, err)
	}
	past, err := s.Past(t.Context(), graft.ID)
	if err != nil || len(past) != 2 || past[0].CreatedBy != "import" || past[0].Empty || past[1].CreatedBy != "graft" || past[1].Empty {
		t.Errorf("Past = %+v, %v", past, err)
	}
	if err := s.Room(1, 1); err != nil {
		t.Errorf("Room: %v", err)
	}
	if err := s.Room(1<<60, 1); err == nil {
		t.Error("there is room for an exabyte")
	}
	if err := st.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}
