package worker

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/damage"
	"moss/engine/fault"
)

// cacheFolder runs a command that sees a cache at /c and returns the folder that it got.
func (w *world) cacheFolder(k *Worker, m Mount) string {
	w.t.Helper()
	m.Type, m.Target = MountCache, "/c"
	_, err := k.Run(w.t.Context(), Step{Command: []string{"x"}, Mounts: []Mount{m}})
	must(w.t, err)
	return bindAt(w.t, w.ctrs.last(), "/c").Source
}

func TestCachesStay(t *testing.T) {
	w := newWorld(t)
	k := w.worker()
	mode := uint32(0o700)
	dir := w.cacheFolder(k, Mount{ID: "go", Sharing: Shared})
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("data"), 0o600))
	must(t, os.Link(filepath.Join(dir, "f"), filepath.Join(dir, "g")))
	for name, m := range map[string]Mount{"the same": {ID: "go", Sharing: Shared}, "locked": {ID: "go", Sharing: Locked}, "private": {ID: "go", Sharing: Private}} {
		if got := w.cacheFolder(k, m); got != dir {
			t.Errorf("%s: folder %s, want %s", name, got, dir)
		}
	}
	for name, m := range map[string]Mount{"another id": {ID: "npm", Sharing: Shared}, "its target": {Sharing: Shared}, "another mode": {ID: "go", Sharing: Shared, Mode: &mode}} {
		if got := w.cacheFolder(k, m); got == dir {
			t.Errorf("%s: the same folder", name)
		}
	}
	var st unix.Stat_t
	must(t, unix.Stat(w.cacheFolder(k, Mount{ID: "go", Sharing: Shared, Mode: &mode}), &st))
	if st.Mode&0o7777 != 0o700 {
		t.Errorf("mode %o, want 0700", st.Mode&0o7777)
	}
	k.Close()
	k = w.worker()
	if got := w.cacheFolder(k, Mount{ID: "go", Sharing: Shared}); got != dir || content(t, filepath.Join(got, "f")) != "data" {
		t.Errorf("with the next engine: folder %s, want %s", got, dir)
	}
	k.background.Wait()
	list, err := k.Caches(t.Context())
	must(t, err)
	if len(list) != 4 || list[0].Name != "go" || list[0].Bytes != 4 || list[0].Uses != 5 || list[0].InUse || list[0].LastUsed.Before(list[0].Created) {
		t.Errorf("caches %+v, want four, the last used one with 4 bytes and 5 uses", list)
	}
	removed, err := k.PruneCaches(t.Context(), func(c Cache) bool { return c.Name == "go" })
	must(t, err)
	if len(removed) != 2 || removed[1].Bytes != 4 {
		t.Errorf("pruned %+v, want the two of that name", removed)
	}
	if got := w.cacheFolder(k, Mount{ID: "go", Sharing: Shared}); got != dir {
		t.Errorf("after the prune: folder %s, want %s", got, dir)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("a new cache holds %v, %v", entries, err)
	}
}

func TestCacheBeginsWithFilesOfAnImage(t *testing.T) {
	w := newWorld(t)
	must(t, os.MkdirAll(filepath.Join(w.imgs.dir, "seed"), 0o755))
	must(t, os.WriteFile(filepath.Join(w.imgs.dir, "seed/f"), []byte("data"), 0o600))
	k := w.worker()
	dir := w.cacheFolder(k, Mount{ID: "c", Image: "i", Path: "/seed", Sharing: Shared})
	if got := content(t, filepath.Join(dir, "f")); got != "data" {
		t.Errorf("content %q", got)
	}
	must(t, os.Remove(filepath.Join(dir, "f")))
	if got := w.cacheFolder(k, Mount{ID: "c", Image: "i", Path: "/seed", Sharing: Shared}); got != dir {
		t.Errorf("folder %s, want %s", got, dir)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the second time: %v, %v, want what the first has left", entries, err)
	}
	_, err := k.Run(t.Context(), Step{Command: []string{"x"}, Mounts: []Mount{{Type: MountCache, Target: "/c", Image: "i", Path: "/none", Sharing: Locked}}})
	if !fault.Is(err, fault.NotFound) || w.imgs.open != 0 {
		t.Errorf("a cache of what is not there: %v, want a NotFound fault", err)
	}
	if list, _ := k.Caches(t.Context()); len(list) != 1 {
		t.Errorf("caches %+v, want one", list)
	}
}

func TestCachesAreBounded(t *testing.T) {
	w := newWorld(t)
	k := w.worker(func(o *Options) { o.CacheSize = 100 })
	w.ctrs.script = func(step container.Step, _, _ io.Writer, _ <-chan struct{}) int {
		must(t, os.WriteFile(filepath.Join(bindAt(t, step, "/c").Source, "f"), make([]byte, 60), 0o600))
		return 0
	}
	for i := range 3 {
		w.cacheFolder(k, Mount{ID: strconv.Itoa(i), Sharing: Shared})
		k.background.Wait()
	}
	list, err := k.Caches(t.Context())
	must(t, err)
	if len(list) != 1 || list[0].Name != "2" {
		t.Errorf("caches %+v, want the last one alone", list)
	}
}

// TestSharing plays two builds that want a cache at the same time.
func TestSharing(t *testing.T) {
	for _, tc := range []struct {
		first, second Sharing
		waits, same   bool
	}{
		{Shared, Shared, false, true},
		{Shared, Locked, true, true},
		{Locked, Shared, true, true},
		{Locked, Locked, true, true},
		{Private, Private, false, false},
		{Shared, Private, false, false},
		{Private, Shared, true, true},
	} {
		t.Run(string(tc.first)+" "+string(tc.second), func(t *testing.T) {
			w := newWorld(t)
			synctest.Test(t, func(t *testing.T) {
				k, err := New(t.Context(), Options{Root: w.root, RunDir: w.run, Steps: w.ctrs, Containers: w.ctrs, Inventory: w.ctrs, Viewers: w.ctrs, Images: w.imgs, Log: zerolog.Nop(), Damage: damage.New(w.root, nil)})
				must(t, err)
				defer k.Close()
				want := func(s Sharing) []*cacheMount {
					return []*cacheMount{{Mount: &Mount{Type: MountCache, ID: "c", Sharing: s}, target: "/c"}}
				}
				hold := func(s Sharing) (string, *mounts) {
					m, wanted := &mounts{failed: func(err error) { t.Error(err) }}, want(s)
					must(t, k.takeCaches(t.Context(), m, wanted))
					return wanted[0].id, m
				}
				first, m := hold(tc.first)
				var second string
				var got bool
				var done sync.WaitGroup
				done.Go(func() {
					var m *mounts
					second, m = hold(tc.second)
					got = true
					m.releaseAll()
				})
				synctest.Wait()
				if got == tc.waits {
					t.Errorf("the second one has it: %v, want %v", got, !tc.waits)
				}
				m.releaseAll()
				done.Wait()
				if (first == second) != tc.same {
					t.Errorf("folders %s and %s, want the same: %v", first, second, tc.same)
				}
			})
		})
	}
}

func TestWaitForACacheEndsWithTheBuild(t *testing.T) {
	w := newWorld(t)
	k := w.worker()
	m := &mounts{failed: func(err error) { t.Error(err) }}
	wanted := []*cacheMount{{Mount: &Mount{Type: MountCache, ID: "c", Sharing: Locked}, target: "/c"}}
	must(t, k.takeCaches(t.Context(), m, wanted))
	defer m.releaseAll()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := k.Run(ctx, Step{Command: []string{"x"}, Mounts: []Mount{{Type: MountCache, ID: "c", Target: "/c", Sharing: Locked}}})
	if err == nil || len(w.ctrs.steps) != 0 {
		t.Errorf("Run = %v with %d containers, want it given up", err, len(w.ctrs.steps))
	}
	if removed, err := k.PruneCaches(t.Context(), func(Cache) bool { return true }); err != nil || len(removed) != 0 {
		t.Errorf("PruneCaches = %v, %v, want nothing: it is in use", removed, err)
	}
}
