package lifecycle

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/fault"
)

// isMounted tells whether the fake has a container's layer mounted.
func (f *fakeLayers) isMounted(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mounted[id]
}

// TestViewsShareTheMount opens views on a container that starts and stops: the layer is mounted as long as somebody needs
// it, and no longer. A process that runs does not need it.
func TestViewsShareTheMount(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web")
	want := func(when string, mounted bool) {
		t.Helper()
		if got := w.layers.isMounted(id); got != mounted {
			t.Errorf("%s: mounted %v, want %v", when, got, mounted)
		}
	}
	open := func() *container.Files {
		t.Helper()
		files, err := m.Files().OpenLayer(t.Context(), "web")
		w.must(err)
		return files
	}
	first, second := open(), open()
	w.must(first.Close())
	want("one of two views closed", true)
	w.must(second.Close())
	want("both views closed", false)

	before := open()
	w.must(m.Start(t.Context(), "web"))
	want("running with a view open", true)
	w.must(before.Close())
	want("running", false)
	during := open()
	want("running and looked at", true)
	now := new(time.Duration)
	w.must(m.Stop(t.Context(), "web", container.StopOptions{Timeout: now}))
	want("stopped with a view open", true)
	w.must(during.Close())
	want("stopped and closed", false)

	w.must(m.Start(t.Context(), "web"))
	w.must(open().Close())
	want("a view on a running one closed", false)
	m.Close()
	next := w.engine()
	if got := w.layers.reclaimed[id]; got == 0 || got != m.index.newestFirst()[0].record().Pid {
		t.Errorf("the next engine has reclaimed the layer of process %d", got)
	}
	files, err := next.Files().OpenLayer(t.Context(), "web")
	w.must(err)
	w.must(files.Close())
	want("a view of the next engine closed", false)
	w.must(next.Stop(t.Context(), "web", container.StopOptions{Timeout: now}))
	want("stopped by the next engine", false)
}

func TestViewsOfWhatIsGone(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web")
	if _, err := m.Files().OpenFiles(t.Context(), "none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("OpenFiles of no container = %v", err)
	}
	w.layers.fail = map[string]error{"mount": errors.New("no mount today")}
	if _, err := m.Files().OpenFiles(t.Context(), "web"); err == nil || w.layers.isMounted(id) {
		t.Errorf("OpenFiles without a mount = %v", err)
	}
	w.layers.fail = nil
	w.layers.dir = filepath.Join(t.TempDir(), "gone")
	if _, err := m.Files().OpenLayer(t.Context(), "web"); !errors.Is(err, os.ErrNotExist) || w.layers.isMounted(id) {
		t.Errorf("OpenLayer without its folder = %v, mounted %v", err, w.layers.isMounted(id))
	}
	w.layers.dir = t.TempDir()
	files, err := m.Files().OpenLayer(t.Context(), "web")
	w.must(err)
	w.must(m.Remove(t.Context(), "web", container.RemoveOptions{}))
	w.must(files.Close())
	if _, err := m.Files().OpenLayer(t.Context(), "web"); !fault.Is(err, fault.NotFound) {
		t.Errorf("OpenLayer of a removed container = %v", err)
	}
}

// TestViewMeetsRemoval: no view is opened while the layer goes, and the layer does not go while one is opened.
func TestViewMeetsRemoval(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	c, err := m.index.find(w.create(m, "web"))
	w.must(err)
	c.layer.removal.RLock() // as a view that is being opened
	removed := make(chan error)
	go func() { removed <- m.Remove(t.Context(), "web", container.RemoveOptions{}) }()
	made := func() bool {
		w.layers.mu.Lock()
		defer w.layers.mu.Unlock()
		return w.layers.made[c.id]
	}
	// A removal that waits lets no second reader in; one that does not wait takes the layer.
	for deadline := time.Now().Add(time.Minute); made() && c.layer.removal.TryRLock(); time.Sleep(time.Millisecond) {
		c.layer.removal.RUnlock()
		if time.Now().After(deadline) {
			t.Fatal("the removal neither waits for the view nor takes the layer")
		}
	}
	if !made() {
		t.Error("the layer went while a view was being opened")
	}
	c.layer.removal.RUnlock()
	w.must(<-removed)

	w.create(m, "next")
	c, err = m.index.find("next")
	w.must(err)
	_, err = m.lives.applyEvent(c, life.RemovalBegun{}) // as a removal under way
	w.must(err)
	if files, err := m.Files().OpenLayer(t.Context(), "next"); !fault.Is(err, fault.NotFound) {
		t.Errorf("view on a container that is being removed: %v, %v, want not found", files, err)
	}
	if w.layers.isMounted(c.id) {
		t.Error("the layer of a container that is being removed was mounted")
	}
}
