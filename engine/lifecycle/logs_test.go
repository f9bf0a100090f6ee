package lifecycle

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

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

// TestAttachWithLogAtRest: a client that attaches to a container at rest and asks for its log gets what was written before,
// and from the log nothing of the next run, which may write while the log is read: that comes by the streams.
func TestAttachWithLogAtRest(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web")
	r, err := m.inventory.Get(id)
	w.must(err)
	line := func(text string, at time.Time) string {
		return fmt.Sprintf(`{"log":"%s\n","stream":"stdout","time":%q}`+"\n", text, at.UTC().Format(time.RFC3339Nano))
	}
	log := line("before", time.Now().Add(-time.Minute)) + line("next run", time.Now().Add(time.Hour))
	w.must(os.WriteFile(r.LogPath, []byte(log), 0o600))
	client, attached := w.view(m, id, container.AttachOptions{Stream: true, Logs: true, Stdout: true, Stderr: true})
	const want = "\x01\x00\x00\x00\x00\x00\x00\x07before\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(client, got); err != nil || string(got) != want {
		t.Fatalf("client sees %q, %v, want %q", got, err, want)
	}
	w.must(m.Remove(t.Context(), id, container.RemoveOptions{}))
	w.must(<-attached)
	if rest, err := io.ReadAll(client); err != nil || len(rest) != 0 {
		t.Errorf("client sees %q after that, %v, want nothing", rest, err)
	}
}
