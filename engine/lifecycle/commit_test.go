package lifecycle

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/task"
)

func TestCommit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		pause bool
		state container.State // of the container
		want  []string        // what happens to it
	}{
		{"running", true, container.Running, []string{"pause", "unpause", "commit"}},
		{"running, without a pause", false, container.Running, []string{"commit"}},
		{"paused", true, container.Paused, []string{"commit"}},
		{"never ran", true, container.Created, []string{"commit"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			m := w.engine()
			id := w.create(m, "web", func(c *container.Config, _ *container.HostConfig) {
				c.Env, c.Cmd = []string{"A=1"}, []string{"sh", "-c", "x"}
			})
			if tc.state != container.Created {
				w.must(m.Start(t.Context(), id))
			}
			if tc.state == container.Paused {
				w.must(m.Pause(t.Context(), id))
			}
			before := len(w.log.actions())
			made, err := m.commits.Commit(t.Context(), id, container.CommitOptions{
				Repo: "made", Comment: "why", Author: "me", Pause: tc.pause, Changes: []string{"USER 1"},
				Config: &container.Config{Env: []string{"B=2"}},
			})
			w.must(err)
			c := w.images.committed
			if made != "sha256:made" || w.images.layer != "changes of "+id || c.ContainerID != id || c.Author != "me" || c.Comment != "why" ||
				c.CreatedBy != "sh -c x" || c.Parent != w.images.img.ID || !slices.Equal(c.Changes, []string{"USER 1"}) ||
				!slices.Equal(c.Config.Env, []string{"B=2", "A=1"}) || !slices.Equal(c.Config.Cmd, []string{"sh", "-c", "x"}) {
				t.Errorf("committed %+v of %q as %s", c, w.images.layer, made)
			}
			if got := w.log.actions()[before:]; !slices.Equal(got, tc.want) {
				t.Errorf("events %q, want %q", got, tc.want)
			}
			if got := w.state(m, id); got != tc.state {
				t.Errorf("state after it: %s, want %s as before", got, tc.state)
			}
			if e, _ := w.log.last("commit"); e.Attributes["imageID"] != made || e.Attributes["imageRef"] != "made" || e.Attributes["comment"] != "why" {
				t.Errorf("commit event %v", e.Attributes)
			}
			w.must(m.Remove(t.Context(), id, container.RemoveOptions{Force: true}))
		})
	}
}

func TestCommitThatFailsLetsTheContainerGoOn(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"layer": func(w *world) { w.layers.fail = map[string]error{"diff": errors.New("no space left")} },
		"image": func(w *world) { w.images.fail = errors.New("no space left") },
		"pause": func(w *world) {
			w.tasks.GroupErr = func(_ task.Spec, verb string) error {
				if verb == "pause" {
					return errors.New("no space left")
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := w.engine()
			id := w.create(m, "web")
			w.must(m.Start(t.Context(), id))
			spoil(w)
			if _, err := m.commits.Commit(t.Context(), id, container.CommitOptions{Pause: true}); err == nil || !strings.Contains(err.Error(), "no space left") {
				t.Errorf("commit: %v, want the reason", err)
			}
			r, err := m.inventory.Get(id)
			w.must(err)
			if r.State != container.Running || r.Thaw || w.frozen(id) {
				t.Errorf("after it: %s, thaw %t, frozen %t; want it running", r.State, r.Thaw, w.frozen(id))
			}
			if _, told := w.log.last("commit"); told {
				t.Error("a commit that failed was told of")
			}
			w.must(m.Kill(t.Context(), id, ""))
		})
	}
	w := newWorld(t)
	if _, err := w.engine().commits.Commit(t.Context(), "nope", container.CommitOptions{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("commit of none: %v, want not found", err)
	}
}

// TestCommitOfWhatHasJustEnded commits a container whose process has ended, of which its state does not tell yet.
func TestCommitOfWhatHasJustEnded(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web")
	w.must(m.Start(t.Context(), id))
	w.tasks.GroupErr = func(spec task.Spec, verb string) error {
		if verb == "pause" {
			return fault.Conflict("task %s is not running", spec.ID)
		}
		return nil
	}
	if made, err := m.commits.Commit(t.Context(), id, container.CommitOptions{Pause: true}); err != nil || made != "sha256:made" {
		t.Errorf("commit = %q, %v, want an image", made, err)
	}
	w.must(m.Kill(t.Context(), id, ""))
}

// TestCommitReadsAMountedLayer commits containers at rest: their layers are mounted while they are read, and only then.
func TestCommitReadsAMountedLayer(t *testing.T) {
	for name, fail := range map[string]error{"all went well": nil, "failed": errors.New("no space left")} {
		w := newWorld(t)
		m := w.engine()
		id := w.create(m, "web")
		w.images.fail = fail
		if _, err := m.commits.Commit(t.Context(), id, container.CommitOptions{Pause: true}); !errors.Is(err, fail) {
			t.Errorf("%s: commit = %v, want %v", name, err, fail)
		}
		if !w.layers.diffed || w.layers.isMounted(id) {
			t.Errorf("%s: mounted while read %t, afterwards %t; want true, false", name, w.layers.diffed, w.layers.isMounted(id))
		}
	}
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web")
	for _, verb := range []string{"mount", "diff"} {
		w.layers.fail = map[string]error{verb: errors.New("not today")}
		if _, err := m.commits.Commit(t.Context(), id, container.CommitOptions{}); err == nil || w.layers.isMounted(id) {
			t.Errorf("%s fails: commit = %v, mounted afterwards %t", verb, err, w.layers.isMounted(id))
		}
	}
}
