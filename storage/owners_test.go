package storage

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestOwnersGive(t *testing.T) {
	long := strings.Repeat("long/", 60) + "name"
	given := []tar.Header{
		{Name: "root", Mode: 0o6755, Size: 3},
		{Name: "last", Mode: 0o6755, Uid: 9, Gid: 19, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "c", "SCHILY.xattr.user.a": "b"}},
		{Name: "user", Mode: 0o6755, Uid: 10, Gid: 19, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "c", "SCHILY.xattr.user.a": "b"}},
		{Name: "group", Mode: 0o6755, Uid: 9, Gid: 20},
		{Name: "folder/", Typeflag: tar.TypeDir, Mode: 0o2755, Uid: 1 << 30, Gid: 1 << 30},
		{Name: long, Typeflag: tar.TypeSymlink, Linkname: long, Uid: 65534, Gid: 65534},
	}
	want := []struct {
		uid, gid  int
		mode      int64
		privilege bool
	}{{0, 0, 0o6755, false}, {9, 19, 0o6755, true}, {0, 19, 0o2755, false}, {9, 0, 0o4755, false}, {0, 0, 0o2755, false}, {0, 0, 0, false}}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range given {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, strings.Repeat("x", int(h.Size))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	raw := archive.Bytes()
	out, stop := rewriteArchive(bytes.NewReader(raw), owners{uids: 10, gids: 20}.adaptOwner)
	defer stop()
	r := tar.NewReader(out)
	for i, w := range want {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		_, privilege := h.PAXRecords["SCHILY.xattr.security.capability"]
		if h.Name != given[i].Name || h.Linkname != given[i].Linkname || h.Uid != w.uid || h.Gid != w.gid || h.Mode != w.mode || privilege != w.privilege {
			t.Errorf("%s: %d:%d, mode %o, capability %t, want %+v", h.Name, h.Uid, h.Gid, h.Mode, privilege, w)
		}
		if given[i].PAXRecords != nil && h.PAXRecords["SCHILY.xattr.user.a"] != "b" {
			t.Errorf("%s: its attributes are gone: %v", h.Name, h.PAXRecords)
		}
		if content, err := io.ReadAll(r); err != nil || len(content) != int(given[i].Size) {
			t.Errorf("%s: %q, %v", h.Name, content, err)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the last: %v", err)
	}
	// A reader that goes away ends it, and one of a broken archive learns of that.
	_, stop = rewriteArchive(bytes.NewReader(raw), owners{uids: 10, gids: 20}.adaptOwner)
	stop()
	out, stop = rewriteArchive(bytes.NewReader(raw[:514]), owners{uids: 10, gids: 20}.adaptOwner)
	defer stop()
	if _, err := io.Copy(io.Discard, out); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut archive: %v", err)
	}
}
