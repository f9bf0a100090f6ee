package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/image"
)

func TestFindAndRename(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	a, b := w.create(m, "a.b"), w.create(m, "")
	if r, err := m.inventory.Get(a[:5]); err != nil || r.ID != a {
		t.Errorf("Get by prefix = %v, %v", r, err)
	}
	w.must(m.Rename(t.Context(), b, "/other"))
	if err := m.Rename(t.Context(), b, "a.b"); !fault.Is(err, fault.Conflict) {
		t.Errorf("Rename to a taken name = %v", err)
	}
	again := w.engine()
	if r, err := again.inventory.Get("other"); err != nil || r.ID != b {
		t.Errorf("renamed container after a restart = %v, %v", r, err)
	}
}

func TestListFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		label := func(c *container.Config, _ *container.HostConfig) { c.Labels = map[string]string{"tier": "web"} }
		w.create(m, "one", label)
		time.Sleep(time.Second)
		w.create(m, "two", func(c *container.Config, _ *container.HostConfig) {
			c.Labels = map[string]string{container.TaskLabel: "x"}
			c.ExposedPorts = map[string]struct{}{"80/tcp": {}, "53/udp": {}}
		})
		time.Sleep(time.Second)
		w.create(m, "three", label)
		w.must(m.Start(t.Context(), "three"))
		for _, tc := range []struct {
			name string
			opt  container.ListOptions
			want []string
		}{
			{"running only", container.ListOptions{}, []string{"three"}},
			{"all, newest first", container.ListOptions{All: true}, []string{"three", "two", "one"}},
			{"limit counts stopped ones", container.ListOptions{Limit: 2}, []string{"three", "two"}},
			{"since", container.ListOptions{Since: "one"}, []string{"three", "two"}},
			{"before", container.ListOptions{Before: "two"}, []string{"one"}},
			{"status", container.ListOptions{Filters: map[string][]string{"status": {"created"}}}, []string{"two", "one"}},
			{"label", container.ListOptions{All: true, Filters: map[string][]string{"label": {"tier=web"}}}, []string{"three", "one"}},
			{"name", container.ListOptions{All: true, Filters: map[string][]string{"name": {"^t"}}}, []string{"three", "two"}},
			{"ancestor", container.ListOptions{All: true, Filters: map[string][]string{"ancestor": {"nope"}}}, nil},
			{"network", container.ListOptions{All: true, Filters: map[string][]string{"network": {"bridge"}}}, []string{"three", "two", "one"}},
			{"network of none", container.ListOptions{All: true, Filters: map[string][]string{"network": {"none"}}}, nil},
			{"name is a pattern", container.ListOptions{All: true, Filters: map[string][]string{"name": {"^/(one|two)$"}}}, []string{"two", "one"}},
			{"name is a part", container.ListOptions{All: true, Filters: map[string][]string{"name": {"hre"}}}, []string{"three"}},
			{"isolation", container.ListOptions{All: true, Filters: map[string][]string{"isolation": {"default"}}}, []string{"three", "two", "one"}},
			{"isolation of Windows", container.ListOptions{All: true, Filters: map[string][]string{"isolation": {"process", "hyperv"}}}, nil},
			{"ancestor by name", container.ListOptions{All: true, Filters: map[string][]string{"ancestor": {"busybox"}}}, []string{"three", "two", "one"}},
			{"ancestor's parent", container.ListOptions{All: true, Filters: map[string][]string{"ancestor": {"base"}}}, []string{"three", "two", "one"}},
			{"since and before", container.ListOptions{Filters: map[string][]string{"since": {"one"}, "before": {"three"}}, All: true}, []string{"two"}},
			{"tasks", container.ListOptions{All: true, Filters: map[string][]string{"is-task": {"true"}}}, []string{"two"}},
			{"no tasks", container.ListOptions{All: true, Filters: map[string][]string{"is-task": {"0"}}}, []string{"three", "one"}},
			{"expose", container.ListOptions{All: true, Filters: map[string][]string{"expose": {"1-100"}}}, []string{"two"}},
			{"expose of udp", container.ListOptions{All: true, Filters: map[string][]string{"expose": {"80/udp", "53/udp"}}}, []string{"two"}},
			{"expose of another kind", container.ListOptions{All: true, Filters: map[string][]string{"expose": {"80/udp", "54"}}}, nil},
			{"publish what is only exposed", container.ListOptions{All: true, Filters: map[string][]string{"publish": {"80"}}}, nil},
			{"exited with another code", container.ListOptions{Filters: map[string][]string{"exited": {"3"}}}, nil},
		} {
			list, err := m.inventory.List(t.Context(), tc.opt)
			w.must(err)
			got := make([]string, 0, len(list))
			for _, r := range list {
				got = append(got, r.Name)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
			}
		}
		for key, value := range map[string]string{
			"bogus": "x", "status": "gone", "exited": "soon", "isolation": "total", "name": "(", "before": "nobody", "since": "nobody",
		} {
			_, err := m.inventory.List(t.Context(), container.ListOptions{Filters: map[string][]string{key: {value}}})
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), key) {
				t.Errorf("filter %s=%s: %v, want invalid, naming it", key, value, err)
			}
		}
		w.images.img = &image.Image{ID: "sha256:newer", Parent: "sha256:base"} // the name has gone on to another image
		list, err := m.inventory.List(t.Context(), container.ListOptions{})
		w.must(err)
		if r, err := m.inventory.Get("three"); err != nil || list[0].Image != r.ImageID || r.Image != "busybox" {
			t.Errorf("image of a container whose image lost its name: %s, in its record %s; want the id there only", list[0].Image, r.Image)
		}
		w.must(m.Kill(t.Context(), "three", ""))
	})
}
