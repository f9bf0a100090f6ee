package copying

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"strings"
	"testing"
)

// FuzzUnpack gives archives of any kind to ADD: whatever comes out is below the destination, and a layer.
func FuzzUnpack(f *testing.F) {
	for _, in := range [][]entry{
		{dir("d"), reg("d/x"), soft("l", "d"), reg("l/y"), hard("h", "l/x")},
		{soft("a", "/"), soft("a/b", ".."), reg("a/b/c")},
		{reg("x"), dir("x"), reg("x/y"), reg("x")},
		{reg("../x")},
	} {
		f.Add([]byte(packed(f, in...)))
	}
	f.Fuzz(func(t *testing.T, archive []byte) {
		src := files(t, "a.tar="+string(archive))
		entry, err := src.Stat(t.Context(), "a.tar", false)
		if err != nil {
			t.Fatal(err)
		}
		if is, err := isArchive(t.Context(), src, entry); err != nil || !is {
			t.Skip()
		}
		got, err := add(t, string(archive), files(t, "dest/d/x", "dest/l -> ../../etc", "etc/passwd"), nil)
		if err != nil {
			return
		}
		contained(t, got)
	})
}

// contained checks that a layer changes nothing beside the destination.
func contained(t *testing.T, got string) {
	t.Helper()
	for line := range strings.SplitSeq(got, "\n") {
		if strings.HasPrefix(line, "etc") || strings.HasPrefix(line, "/") {
			t.Errorf("the archive wrote %q outside of the destination", line)
		}
	}
}

// FuzzNames gives ADD archives whose entries have any name and link.
func FuzzNames(f *testing.F) {
	f.Add("a", "b", "a/c", "..", "/", byte(0o22))
	f.Add("l", "l/../x", "l/l", "../../etc", "d", byte(0o02))
	f.Add("d", "d", "d/x", "l/passwd", "d/x", byte(0o51))
	f.Fuzz(func(t *testing.T, first, second, third, link, other string, kinds byte) {
		entries := make([]entry, 0, 3)
		for i, name := range []string{first, second, third} {
			to := link
			if i%2 == 1 {
				to = other
			}
			switch kinds >> (3 * i) & 7 {
			case 1:
				entries = append(entries, dir(name))
			case 2, 3:
				entries = append(entries, soft(name, to))
			case 4, 5:
				entries = append(entries, hard(name, to))
			default:
				entry := reg(name)
				entry.content = "x"
				entries = append(entries, entry)
			}
		}
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for _, e := range entries {
			h := e.Header
			h.Size = int64(len(e.content))
			if err := w.WriteHeader(&h); err != nil {
				t.Skip() // no archive has such a name
			}
			if _, err := io.WriteString(w, e.content); err != nil {
				t.Skip()
			}
		}
		if err := w.Close(); err != nil {
			t.Skip()
		}
		got, err := add(t, archive.String(), files(t, "dest/d/x", "dest/l -> ../../etc", "etc/passwd"), nil)
		if err == nil {
			contained(t, got)
		}
	})
}

func FuzzChmod(f *testing.F) {
	for _, s := range []string{"755", "u=rwX,go-w", "+t", "g=u-w", "a=", "u+s"} {
		f.Add(s, uint32(0o755))
	}
	f.Fuzz(func(t *testing.T, s string, mode uint32) {
		c, err := parseChmod(s)
		if err != nil {
			return
		}
		for _, kind := range []fs.FileMode{0, fs.ModeDir} {
			if got := c.applyTo(kind | goMode(int64(mode))); got > 0o7777 {
				t.Errorf("chmod %q of %o = %o", s, mode, got)
			}
		}
	})
}

func FuzzChown(f *testing.F) {
	for _, s := range []string{"1:2", "root", "root:staff", ":5", "4294967295", "-1"} {
		f.Add(s, "root:x:0:0::/:\n", "staff:x:50:\n")
	}
	f.Fuzz(func(t *testing.T, s, passwd, group string) {
		o, err := parseOwner(s)
		if err != nil {
			return
		}
		whose, err := o.resolveIDs(t.Context(), files(t, "etc/passwd="+passwd, "etc/group="+group))
		if err == nil && (whose.uid < 0 || whose.gid < 0 || whose.uid > 1<<32-2 || whose.gid > 1<<32-2) {
			t.Errorf("chown %q with %q, %q = %v", s, passwd, group, whose)
		}
	})
}
