package archive

import (
	"archive/tar"
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	trees "moss/engine/tree"
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

// TestPrivilegesGoWithTheirOwner unpacks programs whose bits mean somebody's privileges: for an owner that the container does
// not have, whose files become its root's, they are gone.
func TestPrivilegesGoWithTheirOwner(t *testing.T) {
	const caps = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" // cap_net_raw=ep
	program := func(name string, uid, gid int) *tar.Header {
		return entry(name, func(h *tar.Header) {
			h.Mode, h.Uid, h.Gid, h.Format = 0o6755, uid, gid, tar.FormatPAX
			h.PAXRecords = map[string]string{trees.XattrRecord + trees.Capabilities: caps, trees.XattrRecord + "user.note": "x"}
		})
	}
	mine := container.KeepID(1000, 1001, 1, 1)
	for _, tc := range []struct {
		name     string
		ids      *container.IDMap
		uid, gid int
		want     uint32
	}{
		{"root", nil, 0, 0, 0o6755},
		{"another user", nil, 1000, 0, 0o755},
		{"another group", nil, 0, 1000, 0o755},
		{"no user", nil, -1, 0, 0o755},
		{"the only user", &mine, 1000, 1001, 0o6755},
		{"root where only the user is", &mine, 0, 0, 0o755},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBox(t)
			b.ids = tc.ids
			header := program("dest", tc.uid, tc.gid)
			if tc.uid < 0 {
				header.Uid, header.Format = -1, tar.FormatGNU
				header.PAXRecords = nil
			}
			header.Name = "program"
			b.must(b.unpack("/dest", archiveOf(t, header)))
			var st unix.Stat_t
			b.must(unix.Stat(b.root+"/dest/program", &st))
			if st.Mode&0o7777 != tc.want {
				t.Errorf("the mode is %o, want %o", st.Mode&0o7777, tc.want)
			}
			if header.PAXRecords == nil {
				return
			}
			value := make([]byte, 64)
			_, err := unix.Getxattr(b.root+"/dest/program", trees.Capabilities, value)
			if kept := err == nil; kept != (tc.want == 0o6755) {
				t.Errorf("capabilities are there: %v (%v)", kept, err)
			}
			if _, err := unix.Getxattr(b.root+"/dest/program", "user.note", value); err != nil {
				t.Errorf("user.note: %v", err)
			}
		})
	}
}

// TestUnpackToUser gives all to the user of the container, as the engine counts, and takes setuid from what was another's.
func TestUnpackToUser(t *testing.T) {
	mine := container.KeepID(1000, 1001, 1, 1)
	for owner, setuid := range map[int]bool{1000: true, 7: false} {
		b := newBox(t)
		b.ids, b.user = &mine, "1000:1001"
		raw := archiveOf(t, entry("program", func(h *tar.Header) { h.Mode, h.Uid, h.Gid = 0o4755, owner, owner+1 }))
		b.must(b.service().Unpack(t.Context(), "web", "/dest", bytes.NewReader(raw), UnpackOptions{ToUser: true}))
		var st unix.Stat_t
		b.must(unix.Stat(b.root+"/dest/program", &st))
		if st.Uid != 0 || st.Gid != 0 || (st.Mode&unix.S_ISUID != 0) != setuid {
			t.Errorf("of %d: %d:%d with the mode %o, want the user's, who is 0:0 to the engine, and setuid %v", owner, st.Uid, st.Gid, st.Mode, setuid)
		}
	}
}
