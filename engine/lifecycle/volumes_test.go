package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/volume"
)

// volumeNames are the volumes on disk.
func (w *world) volumeNames() []string {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.root, "volumes"))
	w.must(err)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// at returns the mount that a container has at a destination.
func (w *world) at(m *Manager, ref, destination string) container.Mount {
	w.t.Helper()
	r, err := m.inventory.Get(ref)
	w.must(err)
	for _, mount := range r.Mounts {
		if mount.Destination == destination {
			return mount
		}
	}
	w.t.Fatalf("%s has nothing at %s: %+v", ref, destination, r.Mounts)
	return container.Mount{}
}

// volumeEvents returns what happened to volumes, in order, and how often in a row.
func (l *eventLog) volumeEvents() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var runs []string
	last, times := "", 0
	flush := func() {
		if times > 0 {
			runs = append(runs, fmt.Sprintf("%s %d", last, times))
		}
	}
	for _, e := range l.list {
		if e.Type != event.TypeVolume {
			continue
		}
		if e.Action != last {
			flush()
			last, times = e.Action, 0
		}
		times++
	}
	flush()
	return strings.Join(runs, ", ")
}

func withVolumes(cfg *container.Config, host *container.HostConfig) {
	cfg.Volumes = map[string]struct{}{"/anon": {}}
	host.Binds = []string{"data:/named:ro"}
}

func TestVolumesComeAndGo(t *testing.T) {
	for _, tc := range []struct {
		name   string
		remove container.RemoveOptions
		auto   bool
		left   int
		events string
	}{
		{"kept", container.RemoveOptions{}, false, 2, "create 2, mount 2, unmount 2"},
		{"removed with it", container.RemoveOptions{Volumes: true}, false, 1, "create 2, mount 2, unmount 2, destroy 1"},
		{"removes itself", container.RemoveOptions{}, true, 1, "create 2, mount 2, unmount 2, destroy 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			m := w.engine()
			id := w.create(m, "web", withVolumes, func(_ *container.Config, host *container.HostConfig) { host.AutoRemove = tc.auto })
			anon, named := w.at(m, "web", "/anon"), w.at(m, "web", "/named")
			if !anon.Anonymous || !anon.RW || named.Anonymous || named.RW || named.Name != "data" || named.Driver != "local" {
				t.Errorf("mounts %+v and %+v", anon, named)
			}
			if info, err := os.Stat(anon.Source); err != nil || !info.IsDir() {
				t.Errorf("source of the anonymous one: %v, %v", info, err)
			}
			w.must(m.Start(t.Context(), "web"))
			raw, err := os.ReadFile(filepath.Join(w.run, "tasks", id, "config.json"))
			w.must(err)
			for _, mount := range []container.Mount{anon, named} {
				if !strings.Contains(string(raw), mount.Source) {
					t.Errorf("the container starts without %s", mount.Source)
				}
			}
			w.must(m.Kill(t.Context(), "web", ""))
			if !tc.auto {
				w.must(m.Remove(t.Context(), "web", tc.remove))
			}
			m.background.jobs.Wait()
			if got := w.volumeNames(); len(got) != tc.left {
				t.Errorf("volumes left: %q, want %d", got, tc.left)
			}
			if got := w.log.volumeEvents(); got != tc.events {
				t.Errorf("events %q, want %q", got, tc.events)
			}
		})
	}
}

func TestFailedCreateLeavesNoVolume(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	w.create(m, "first", func(_ *container.Config, host *container.HostConfig) { host.Binds = []string{"old:/old"} })
	before := w.volumeNames()
	w.must(os.WriteFile(filepath.Join(w.layers.dir, "file"), nil, 0o600))
	for name, host := range map[string]container.HostConfig{
		"missing container": {VolumesFrom: []string{"nobody"}, Binds: []string{"new:/new"}},
		"itself":            {VolumesFrom: []string{"/web:ro"}, Binds: []string{"new:/new"}},
		"bad name":          {Binds: []string{"new:/new", "old:/x", "_bad:/y"}},
		"place is a file":   {Binds: []string{"new:/new", "old:/x", "other:/file"}},
	} {
		cfg := container.Config{Image: "busybox", Volumes: map[string]struct{}{"/anon": {}}}
		_, _, err := m.Create(t.Context(), "web", cfg, host, nil)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
		if got := w.volumeNames(); !slices.Equal(got, before) {
			t.Errorf("%s: volumes %q, want %q", name, got, before)
		}
	}
	if len(w.layers.mounted) != 0 || len(w.layers.made) != 1 {
		t.Errorf("layers mounted %v, made %v", w.layers.mounted, w.layers.made)
	}
	if err := m.opt.Volumes.Remove(t.Context(), "old"); !fault.Is(err, fault.Conflict) {
		t.Errorf("Remove of a volume in use = %v, want fault.Conflict", err)
	}
}

func TestVolumesAreFilledAtCreate(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	outside := filepath.Join(t.TempDir(), "secret")
	w.must(os.WriteFile(outside, []byte("of the host"), 0o600))
	w.must(os.Mkdir(filepath.Join(w.layers.dir, "named"), 0o700))
	w.must(os.WriteFile(filepath.Join(w.layers.dir, "named", "file"), []byte("of the image"), 0o600))
	w.must(os.Symlink(filepath.Dir(outside), filepath.Join(w.layers.dir, "anon")))
	w.create(m, "web", withVolumes)
	named, anon := w.at(m, "web", "/named"), w.at(m, "web", "/anon")
	if raw, err := os.ReadFile(filepath.Join(named.Source, "file")); err != nil || string(raw) != "of the image" {
		t.Errorf("the volume has %q, %v", raw, err)
	}
	if entries, err := os.ReadDir(anon.Source); err != nil || len(entries) != 0 {
		t.Errorf("a link led out of the image: %v, %v", entries, err)
	}
	if len(w.layers.mounted) != 0 {
		t.Errorf("still mounted: %v", w.layers.mounted)
	}
}

func TestVolumesFromChain(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	w.create(m, "one", withVolumes)
	from := func(refs ...string) func(*container.Config, *container.HostConfig) {
		return func(_ *container.Config, host *container.HostConfig) { host.VolumesFrom = refs }
	}
	w.create(m, "two", from("one:ro"))
	w.create(m, "three", from("/two"))
	w.must(m.Remove(t.Context(), "one", container.RemoveOptions{Volumes: true}))
	w.must(m.Remove(t.Context(), "two", container.RemoveOptions{Volumes: true}))
	anon := w.at(m, "three", "/anon")
	if anon.RW || !anon.Anonymous || len(w.volumeNames()) != 2 {
		t.Errorf("three has %+v, volumes are %q", anon, w.volumeNames())
	}
	m.Close()
	m = w.engine() // the next engine knows the users
	if err := m.opt.Volumes.Remove(t.Context(), anon.Name); !fault.Is(err, fault.Conflict) {
		t.Errorf("Remove = %v, want fault.Conflict", err)
	}
	w.must(m.Start(t.Context(), "three"))
	w.must(m.Kill(t.Context(), "three", ""))
	w.must(m.Remove(t.Context(), "three", container.RemoveOptions{Volumes: true}))
	if got := w.volumeNames(); !slices.Equal(got, []string{"data"}) {
		t.Errorf("volumes left %q, want data alone", got)
	}
}

// What lies on the disk while a container is being removed tells the next engine all about it.
func TestRemovalIsNotedBeforehand(t *testing.T) {
	for volumes, phase := range map[bool]phase{false: phaseRemoving, true: phaseErasing} {
		w := newWorld(t)
		m := w.engine()
		id := w.create(m, "web", withVolumes)
		c, err := m.index.find(id)
		w.must(err)
		w.must(m.remover.removeGiving(t.Context(), c, container.RemoveOptions{Volumes: volumes}, func() error {
			noted, p, err := m.records.readRecord(id)
			if err == nil && (p != phase || noted.State != container.Removing || noted.RemoveVolumes != volumes) {
				t.Errorf("noted: phase %q, state %s, volumes go %v, want %v", p, noted.State, noted.RemoveVolumes, volumes)
			}
			return err
		}))
	}
}

// The anonymous volumes of a container that removes itself go, also when the engine dies meanwhile.
func TestRemovalByItselfAfterACrash(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web", func(cfg *container.Config, host *container.HostConfig) {
		withVolumes(cfg, host)
		host.AutoRemove = true
	})
	c, err := m.index.find(id)
	w.must(err)
	_, err = m.lives.applyEvent(c, life.RemovalBegun{})
	w.must(err)
	m.Close()
	m = w.engine()
	if _, err := m.inventory.Get("web"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the removed container: %v", err)
	}
	if got := w.volumeNames(); !slices.Equal(got, []string{"data"}) {
		t.Errorf("volumes left %q, want data alone", got)
	}
}

func TestVolumesAfterACrash(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web", withVolumes)
	// A create that did not come to its end, and a removal that did not.
	half := strings.Repeat("ab", 32)
	w.must(os.MkdirAll(m.folders.dataDir(half), 0o700))
	_, made, err := m.opt.Volumes.Hold(t.Context(), volume.CreateOptions{Name: "half"}, half)
	if err != nil || !made {
		t.Fatalf("Hold: made %v, %v", made, err)
	}
	c, err := m.index.find(id)
	w.must(err)
	_, err = m.lives.applyEvent(c, life.RemovalBegun{Volumes: true})
	w.must(err)
	w.must(c.saveRecord(true))
	m.Close()
	m = w.engine()
	if _, err := m.inventory.Get("web"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the removed container: %v", err)
	}
	if got := w.volumeNames(); !slices.Equal(got, []string{"data"}) {
		t.Errorf("volumes left %q, want data alone", got)
	}
	// A volume that is gone is made again for a container that names it.
	w.create(m, "lost", withVolumes)
	anon := w.at(m, "lost", "/anon")
	m.Close()
	w.must(os.RemoveAll(filepath.Dir(anon.Source)))
	m = w.engine()
	w.must(m.Start(t.Context(), "lost"))
	if _, err := os.Stat(anon.Source); err != nil {
		t.Errorf("the lost volume: %v", err)
	}
	w.must(m.Kill(t.Context(), "lost", ""))
}

func TestReconfigureReplacesVolumes(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	w.create(m, "web", func(cfg *container.Config, host *container.HostConfig) {
		cfg.Volumes = map[string]struct{}{"/keep": {}, "/replaced": {}}
		host.Binds = []string{"data:/named"}
	})
	keep, replaced := w.at(m, "web", "/keep").Name, w.at(m, "web", "/replaced").Name
	before := w.volumeNames()
	for _, bad := range []container.HostConfig{
		{Binds: []string{"new:/new", "_bad:/x"}}, {VolumesFrom: []string{"web"}},
	} {
		if err := m.Reconfigure(t.Context(), "web", bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("Reconfigure(%+v) = %v, want fault.Invalid", bad, err)
		}
		if got := w.volumeNames(); !slices.Equal(got, before) {
			t.Errorf("volumes after a failure %q, want %q", got, before)
		}
		if err := m.opt.Volumes.Remove(t.Context(), keep); !fault.Is(err, fault.Conflict) {
			t.Errorf("Remove of a volume in use = %v, want fault.Conflict", err)
		}
	}
	w.must(m.Reconfigure(t.Context(), "web", container.HostConfig{Binds: []string{"new:/replaced"}}))
	if got := w.at(m, "web", "/keep").Name; got != keep {
		t.Errorf("at /keep is %s, want %s as before", got, keep)
	}
	if got := w.at(m, "web", "/replaced").Name; got != "new" {
		t.Errorf("at /replaced is %s, want new", got)
	}
	if got := w.volumeNames(); slices.Contains(got, replaced) || !slices.Contains(got, "data") {
		t.Errorf("volumes %q: the empty %s should be gone, data not", got, replaced)
	}
	w.must(m.opt.Volumes.Remove(t.Context(), "data")) // nobody uses it any more
}
