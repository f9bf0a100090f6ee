package lifecycle

import (
	"os"
	"path/filepath"
	"testing"

	"moss/engine/container"
)

// TestVolumeOutlivesItsContainer: the volume that came with a container waits for the disk when the container goes, which
// the next engine would make it anew from. It is written again then, in the place of the record that waited for nothing.
func TestVolumeOutlivesItsContainer(t *testing.T) {
	w := newWorld(t)
	m := w.engine()
	id := w.create(m, "web", func(_ *container.Config, h *container.HostConfig) { h.Binds = []string{"data:/data"} })
	files, err := filepath.Glob(filepath.Join(w.root, "volumes", "data", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the volume's record: %q, %v", files, err)
	}
	before, err := os.Stat(files[0])
	w.must(err)
	w.must(m.Remove(t.Context(), id, container.RemoveOptions{}))
	after, err := os.Stat(files[0])
	w.must(err)
	if os.SameFile(before, after) {
		t.Error("the record is the file that nobody has brought to the disk")
	}
}
