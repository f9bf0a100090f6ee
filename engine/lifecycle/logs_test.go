package lifecycle

import (
	"path/filepath"
	"testing"

	"moss/engine/container"
)

// TestJournalEndIsOwn: a container that uses another one's network has that one's files of /etc, but an end of its own in
// the journal. The other one may be removed before it.
func TestJournalEndIsOwn(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	first := w.create(m, "first")
	second := w.create(m, "second", func(_ *container.Config, h *container.HostConfig) { h.LogConfig.Type = "journald" })
	other, err := m.inventory.Get(first)
	w.must(err)
	c, err := m.index.find(second)
	w.must(err)
	m.etc.placeEtc(c, &joined{network: other})
	r := c.record()
	if got, want := filepath.Dir(r.HostnamePath), m.folders.dataDir(first); got != want {
		t.Fatalf("files of /etc: in %s, want %s", got, want)
	}
	spec, err := container.SpecOf(r)
	w.must(err)
	if got, want := m.launcher.taskSpec(r, &spec).Log.Path, filepath.Join(m.folders.dataDir(second), "journal.end"); got != want {
		t.Errorf("end in the journal: %s, want %s", got, want)
	}
}
