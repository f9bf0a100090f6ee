package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/task"
)

// aStep is a step of a build with all that is not recorded.
func (w *world) aStep() container.Step {
	return container.Step{
		ImageID: w.images.img.ID,
		Config:  container.Config{Cmd: []string{"sh", "-c", "x"}, Entrypoint: []string{}, Env: []string{"A=1", "TOKEN=old"}},
		Env:     []string{"TOKEN=of-the-step"},
		Binds:   []container.Bind{{Source: w.root, Destination: "/mnt/link/cache", Propagation: "rprivate", ReadOnly: true}},
		Tmpfs:   []container.Tmpfs{{Destination: "/scratch", Options: []string{"size=1m"}}},
	}
}

// step makes the container of a step and fails the test if that does not work.
func (w *world) step(m *Manager) string {
	w.t.Helper()
	id, _, err := m.steps.CreateStep(w.t.Context(), w.aStep())
	w.must(err)
	return id
}

func TestStepTakesNothingOfItsImage(t *testing.T) {
	w := newWorld(t)
	w.images.img.Config.Entrypoint = []string{"never"}
	w.images.img.Config.Volumes = map[string]struct{}{"/data": {}}
	m := w.engine()
	id := w.step(m)
	r, err := m.inventory.Get(id)
	w.must(err)
	if r.Path != "sh" || !slices.Equal(r.Args, []string{"-c", "x"}) || len(r.Mounts) != 0 || r.ImageID != w.images.img.ID || r.Image != r.ImageID {
		t.Errorf("record %s %q of %s with %v, want only what the step says", r.Path, r.Args, r.Image, r.Mounts)
	}
	list, err := m.inventory.List(t.Context(), container.ListOptions{All: true})
	w.must(err)
	if len(list) != 1 || list[0].ID != id {
		t.Errorf("list %v, want the step's container", list)
	}
	if users := m.inventory.ImageUsers(w.images.img.ID); len(users) != 1 {
		t.Errorf("users of the image %v, want the step's container", users)
	}
}

func TestStepRunsWithWhatIsNotRecorded(t *testing.T) {
	w := newWorld(t)
	w.must(os.MkdirAll(filepath.Join(w.layers.dir, "opt/real"), 0o700))
	w.must(os.MkdirAll(filepath.Join(w.layers.dir, "mnt"), 0o700))
	w.must(os.Symlink("/opt/real", filepath.Join(w.layers.dir, "mnt/link")))
	m := w.engine()
	id := w.step(m)
	w.must(m.Start(t.Context(), id))
	raw, err := os.ReadFile(filepath.Join(m.folders.taskDir(id), "config.json"))
	w.must(err)
	var oci specs.Spec
	w.must(json.Unmarshal(raw, &oci))
	if !slices.Contains(oci.Process.Env, "TOKEN=of-the-step") || slices.Contains(oci.Process.Env, "TOKEN=old") || !slices.Contains(oci.Process.Env, "A=1") {
		t.Errorf("environment %q, want A=1 and TOKEN=of-the-step", oci.Process.Env)
	}
	for _, want := range []string{"/opt/real/cache", "/scratch"} { // where the link leads
		if !slices.ContainsFunc(oci.Mounts, func(m specs.Mount) bool { return m.Destination == want }) {
			t.Errorf("no mount at %s", want)
		}
	}
	r, err := m.inventory.Get(id)
	w.must(err)
	shown, err := json.Marshal(r)
	w.must(err)
	for _, secret := range []string{"of-the-step", "/mnt/link/cache", "/scratch"} {
		if strings.Contains(string(shown), secret) {
			t.Errorf("the record shows %q: %s", secret, shown)
		}
	}
	for _, name := range []string{recordName, stateName} {
		if _, err := os.Stat(filepath.Join(m.folders.dataDir(id), name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s on the disk: %v, want none", name, err)
		}
	}
	w.tasks.Task(id).End(task.Exit{Code: 0})
	if _, err := m.inventory.Wait(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	var skipped []string
	w.must(m.steps.Surrender(t.Context(), id, func(_ context.Context, skip []string) error {
		skipped = skip
		if w.layers.mounted[id] || !w.layers.made[id] {
			t.Error("the layer is mounted or gone when it is taken")
		}
		return nil
	}))
	for _, want := range []string{"/opt/real/cache", "/scratch", "/proc", "/etc/hosts"} {
		if !slices.Contains(skipped, want) {
			t.Errorf("skip %q, want %s in it", skipped, want)
		}
	}
	if _, err := m.inventory.Get(id); !fault.Is(err, fault.NotFound) || w.layers.made[id] {
		t.Errorf("container after it was surrendered: %v", err)
	}
	if got := w.log.actions(); !slices.Equal(got, []string{"create", "start", "die", "destroy"}) {
		t.Errorf("events %q", got)
	}
}

func TestSurrenderRemovesWhateverTheTakerSays(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id, broken := w.step(m), errors.New("no space left")
	err := m.steps.Surrender(t.Context(), id, func(context.Context, []string) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("Surrender = %v, want %v", err, broken)
	}
	if _, err := m.inventory.Get(id); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get after it = %v, want a NotFound fault", err)
	}
}

func TestVerbsOfStepsRefuseOthers(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	usual, running := w.create(m, "usual"), w.step(m)
	w.must(m.Start(t.Context(), running))
	take := func(context.Context, []string) error { t.Error("taken"); return nil }
	for _, tc := range []struct {
		name, id string
		want     fault.Constructor
	}{{"no step", usual, fault.Conflict}, {"running", running, fault.Conflict}, {"nothing", "nothing", fault.NotFound}} {
		t.Run(tc.name, func(t *testing.T) {
			if err := m.steps.Surrender(t.Context(), tc.id, take); !fault.Is(err, tc.want) {
				t.Errorf("Surrender = %v, want a fault of another kind", err)
			}
			if _, err := m.steps.Layer(t.Context(), tc.id); !fault.Is(err, tc.want) {
				t.Errorf("Layer = %v, want a fault of another kind", err)
			}
		})
	}
	if err := m.steps.Keep(t.Context(), running); !fault.Is(err, fault.Conflict) {
		t.Errorf("Keep of one that runs = %v, want a Conflict fault", err)
	}
	w.must(m.steps.Keep(t.Context(), usual))
	removed, _, err := m.Prune(t.Context(), nil)
	w.must(err)
	if !slices.Equal(removed, []string{usual}) {
		t.Errorf("pruned %v, want %s", removed, usual)
	}
	w.must(m.Remove(t.Context(), running, container.RemoveOptions{Force: true}))
}

func TestPruneLeavesStepsAlone(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.step(m)
	if removed, _, err := m.Prune(t.Context(), nil); err != nil || len(removed) != 0 {
		t.Errorf("Prune = %v, %v, want nothing", removed, err)
	}
	w.must(m.steps.Keep(t.Context(), id))
	if removed, _, err := m.Prune(t.Context(), nil); err != nil || !slices.Equal(removed, []string{id}) {
		t.Errorf("Prune of one that was kept = %v, %v, want it", removed, err)
	}
}

func TestKeptStepIsAContainer(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.step(m)
	w.must(m.Start(t.Context(), id))
	w.tasks.Task(id).End(task.Exit{Code: 3})
	if code, err := m.inventory.Wait(t.Context(), id); code != 3 || err != nil {
		t.Fatalf("Wait = %d, %v", code, err)
	}
	layer, err := m.steps.Layer(t.Context(), id)
	w.must(err)
	raw, err := io.ReadAll(layer)
	w.must(errors.Join(err, layer.Close()))
	if string(raw) != "changes of "+id || !w.layers.diffed || len(w.layers.mounted) != 0 {
		t.Errorf("layer %q", raw)
	}
	if !w.layers.volatile[id] {
		t.Error("the layer of a step waits for the disk")
	}
	w.must(m.steps.Keep(t.Context(), id))
	w.must(m.steps.Keep(t.Context(), id))
	if w.layers.volatile[id] || len(w.layers.mounted) != 0 {
		t.Errorf("the layer of one that is kept: volatile %v, mounted %v", w.layers.volatile, w.layers.mounted)
	}
	m.Close()
	m = w.engine()
	r, err := m.inventory.Get(id)
	w.must(err)
	if r.State != container.Exited || r.ExitCode != 3 || r.Build {
		t.Errorf("with the next engine: %s (%d), build %v", r.State, r.ExitCode, r.Build)
	}
	w.must(m.Start(t.Context(), id))
	w.tasks.Task(id).End(task.Exit{Code: 0})
}

func TestNextEngineRemovesSteps(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	created, running := w.step(m), w.step(m)
	w.must(m.Start(t.Context(), running))
	m.Close()
	m = w.engine()
	left := func() string {
		for _, id := range []string{created, running} {
			if _, err := m.inventory.Get(id); !fault.Is(err, fault.NotFound) {
				return fmt.Sprintf("Get with the next engine = %v, want a NotFound fault", err)
			}
			for _, dir := range []string{m.folders.dataDir(id), m.folders.taskDir(id)} {
				if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
					return fmt.Sprintf("%s is still there: %v", dir, err)
				}
			}
		}
		w.layers.mu.Lock()
		defer w.layers.mu.Unlock()
		if len(w.layers.made) != 0 {
			return fmt.Sprintf("layers %v, want none", w.layers.made)
		}
		return ""
	}
	what := left()
	for deadline := time.Now().Add(time.Minute); what != "" && time.Now().Before(deadline); what = left() {
		time.Sleep(time.Millisecond) // what takes longer than adoptWait goes on in the background
	}
	if what != "" {
		t.Error(what)
	}
}

func TestShutdownKillsSteps(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.step(m)
	w.must(m.Start(t.Context(), id))
	m.Shutdown(t.Context())
	if e, ok := w.log.last("kill"); !ok || e.Attributes["signal"] != "9" {
		t.Errorf("kill event %v, want signal 9 and no other before", e.Attributes)
	}
}

func TestOrphanCgroup(t *testing.T) {
	for name, tc := range map[string]struct{ config, want string }{
		"with a parent":    {`{"linux":{"cgroupsPath":"/user/moss/of/mine/abc"}}`, "of/mine"},
		"without a parent": {`{"linux":{"cgroupsPath":"/user/moss/abc"}}`, ""},
		"of somebody else": {`{"linux":{"cgroupsPath":"/user/mossy/of/abc"}}`, ""},
		"climbing":         {`{"linux":{"cgroupsPath":"/user/moss/../other/abc"}}`, ""},
		"none":             {`{}`, ""},
		"half written":     {`{"linux":{"cgr`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := w.engine()
			m.cgroups.base = "/user/moss"
			w.must(os.MkdirAll(m.folders.taskDir("abc"), 0o700))
			w.must(os.WriteFile(filepath.Join(m.folders.taskDir("abc"), "config.json"), []byte(tc.config), 0o600))
			if got := m.leftovers.orphanCgroup("abc"); got != tc.want {
				t.Errorf("orphanCgroup of %s = %q, want %q", tc.config, got, tc.want)
			}
		})
	}
}
