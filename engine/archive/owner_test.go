package archive

import (
	"archive/tar"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/container"
)

// TestOwnersOfTheOnlyUser copies into and out of a container in which nobody but the user exists, under their own number.
func TestOwnersOfTheOnlyUser(t *testing.T) {
	b := newBox(t)
	ids := container.KeepID(1000, 1001, 1, 1)
	b.ids = &ids
	raw := archiveOf(t, entry("roots"), entry("d/"), entry("made/f"), link("l", "f"),
		entry("mine", func(h *tar.Header) { h.Uid, h.Gid = 1000, 1001 }),
		entry("nobodys", func(h *tar.Header) { h.Uid, h.Gid = -1, 1<<40; h.Format = tar.FormatGNU }))
	b.must(b.unpack("/dest", raw))
	_, entries, err := b.pack("/dest")
	b.must(err)
	for _, name := range []string{"roots", "d/", "made/", "made/f", "l", "mine", "nobodys"} {
		var st unix.Stat_t
		b.must(unix.Lstat(b.root+"/dest/"+name, &st))
		if h := entries["dest/"+name]; h == nil || h.Uid != 1000 || h.Gid != 1001 || st.Uid != 0 || st.Gid != 0 {
			t.Errorf("%s: %+v on the way out and %d:%d to the engine, want 1000:1001 and 0:0", name, h, st.Uid, st.Gid)
		}
	}
}
