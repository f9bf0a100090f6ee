package lifecycle

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/image"
)

// witness notes what a Watcher is told.
type witness struct {
	m *Manager

	mu   sync.Mutex // guards said
	said []string
}

func (w *witness) Began(r *container.Record) { w.note(fmt.Sprintf("began %s %s", r.Name, r.State)) }

func (w *witness) Ended(containerID string) {
	_, _, err := w.m.inventory.Running(containerID)
	r, getErr := w.m.inventory.Get(containerID)
	w.note(fmt.Sprintf("ended %s at rest=%v running=%v", r.Name, r.State.AtRest(), err == nil && getErr == nil))
}

func (w *witness) note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *witness) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said
	w.said = nil
	return said
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.open()
		one := &witness{m: m}
		m.Run(one)
		w.create(m, "early")
		w.create(m, "late")
		w.must(m.Start(t.Context(), "early"))
		w.must(m.Start(t.Context(), "late"))
		if got, want := one.take(), []string{"began early running", "began late running"}; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		w.must(m.Kill(t.Context(), "late", "KILL"))
		if _, err := m.inventory.Wait(t.Context(), "late"); err != nil {
			t.Fatal(err)
		}
		if got, want := one.take(), []string{"ended late at rest=false running=false"}; !slices.Equal(got, want) {
			t.Errorf("told %q before the waiters woke, want %q", got, want)
		}
		m.Close()

		next := w.open()
		two := &witness{m: next}
		next.Run(two)
		if got, want := two.take(), []string{"began early running"}; !slices.Equal(got, want) {
			t.Errorf("the next engine told %q, want %q", got, want)
		}
		w.must(next.Kill(t.Context(), "early", "KILL"))
		if _, err := next.inventory.Wait(t.Context(), "early"); err != nil {
			t.Fatal(err)
		}
		if got, want := two.take(), []string{"ended early at rest=false running=false"}; !slices.Equal(got, want) {
			t.Errorf("the next engine told %q, want %q", got, want)
		}
		next.Close()
	})
}

func TestHealthOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.engine()
		w.create(m, "web", func(c *container.Config, _ *container.HostConfig) {
			c.Healthcheck = &image.Healthcheck{Test: []string{"CMD", "x"}}
		})
		w.create(m, "plain")
		get := func() *container.Record {
			r, err := m.inventory.Get("web")
			w.must(err)
			return r
		}
		named := func(value string) []string {
			list, err := m.inventory.List(t.Context(), container.ListOptions{All: true, Filters: map[string][]string{"health": {value}}})
			w.must(err)
			names := make([]string, 0, len(list))
			for _, r := range list {
				names = append(names, r.Name)
			}
			return names
		}
		if _, noted, err := m.inventory.SetHealth(get(), container.Health{Status: "healthy"}); noted || err != nil {
			t.Errorf("SetHealth of a container at rest = %v, %v, want nothing noted", noted, err)
		}
		w.must(m.Start(t.Context(), "web"))
		first := get()
		if first.Health == nil || first.Health.Status != "starting" {
			t.Errorf("health after the start = %+v, want starting", first.Health)
		}
		after, noted, err := m.inventory.SetHealth(first, container.Health{Status: "unhealthy", FailingStreak: 3})
		if !noted || err != nil || after.Health.FailingStreak != 3 || get().Health.Status != "unhealthy" {
			t.Errorf("SetHealth = %+v, %v, %v, want it noted", after.Health, noted, err)
		}
		if got := named("unhealthy"); !slices.Equal(got, []string{"web"}) {
			t.Errorf("filter unhealthy = %v, want web", got)
		}
		if got := named("none"); !slices.Equal(got, []string{"plain"}) {
			t.Errorf("filter none = %v, want plain", got)
		}
		if _, err := m.inventory.List(t.Context(), container.ListOptions{Filters: map[string][]string{"health": {"x"}}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("filter x = %v, want invalid", err)
		}
		m.Close()
		m = w.engine()
		if got := get().Health; got == nil || got.FailingStreak != 3 {
			t.Errorf("health in the next engine = %+v, want what the last one knew", got)
		}
		time.Sleep(time.Second) // a start is known by its time
		w.must(m.Restart(t.Context(), "web", container.StopOptions{}))
		if _, noted, err := m.inventory.SetHealth(first, container.Health{Status: "healthy"}); noted || err != nil || get().Health.Status != "starting" {
			t.Errorf("SetHealth of an earlier run = %v, %v, %+v, want nothing noted", noted, err, get().Health)
		}
		w.must(m.Remove(t.Context(), "web", container.RemoveOptions{Force: true}))
		m.Close()
	})
}

func TestUser(t *testing.T) {
	w := newWorld(t)
	w.tasks.Script = nil
	m := w.engine()
	id := w.create(m, "web", func(c *container.Config, _ *container.HostConfig) { c.User = "0" })
	if _, err := m.inventory.User("web", ""); !fault.Is(err, fault.Conflict) {
		t.Errorf("User of a container at rest = %v, want a conflict", err)
	}
	w.must(m.Start(t.Context(), "web"))
	c, err := m.index.find(id)
	w.must(err)
	c.update(func(r *container.Record) { r.Pid = os.Getpid() }) // the fake's is nobody's
	passwd, err := os.ReadFile("/etc/passwd")
	w.must(err)
	home := strings.Split(strings.Split(string(passwd), "\n")[0], ":")[5]
	if ids, err := m.inventory.User("web", ""); err != nil || ids.UID != 0 || ids.Home != home {
		t.Errorf("User = %+v, %v, want root with home %s", ids, err, home)
	}
	if ids, err := m.inventory.User("web", "12345:6"); err != nil || ids.UID != 12345 || ids.GID != 6 {
		t.Errorf("User 12345:6 = %+v, %v", ids, err)
	}
	if _, err := m.inventory.User("web", "no-such-user"); !fault.Is(err, fault.Invalid) {
		t.Errorf("User no-such-user = %v, want invalid", err)
	}
}
