package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// TestUnpackEscapes is the corpus of archives that lead out of where they are unpacked.
func TestUnpackEscapes(t *testing.T) {
	dots := strings.Repeat("../", 40)
	for _, tc := range []struct {
		name    string
		entries func(b *box) []*tar.Header
		fails   string            // part of the error; empty: it works
		inside  map[string]string // what must be in the root then: path to content
	}{
		{"parent", func(*box) []*tar.Header { return []*tar.Header{entry("../x")} }, "leads out", nil},
		{"hidden parent", func(*box) []*tar.Header { return []*tar.Header{entry("a/../../x")} }, "leads out", nil},
		{"absolute parent", func(*box) []*tar.Header { return []*tar.Header{entry("/../x")} }, "leads out", nil},
		{
			"absolute name", func(*box) []*tar.Header { return []*tar.Header{entry("/etc/x")} }, "",
			map[string]string{"/dest/etc/x": "/etc/x", "/etc/passwd": "inside"},
		},
		{
			"through an absolute link",
			func(*box) []*tar.Header { return []*tar.Header{link("l", "/etc"), entry("l/passwd")} },
			"",
			map[string]string{"/etc/passwd": "l/passwd"},
		},
		{
			"through a link to the canary",
			func(b *box) []*tar.Header { return []*tar.Header{link("l", b.canary), entry("l/file")} },
			"not a directory", nil,
		},
		{
			"through a link with many parents",
			func(b *box) []*tar.Header { return []*tar.Header{link("l", dots+b.canary), entry("l/file")} },
			"not a directory", nil,
		},
		{
			"through a chain of links",
			func(b *box) []*tar.Header {
				return []*tar.Header{link("a", ".."), link("b", "a/.."), link("c", "b/../canary"), entry("c/file")}
			},
			"not a directory", nil,
		},
		{
			"a link in the place of a file is replaced",
			func(b *box) []*tar.Header { return []*tar.Header{link("f", "../../canary/file"), entry("f")} },
			"",
			map[string]string{"/dest/f": "f"},
		},
		{
			"a link in the place of a folder is replaced",
			func(b *box) []*tar.Header { return []*tar.Header{link("d", "/etc"), entry("d/"), entry("d/passwd")} },
			"",
			map[string]string{"/dest/d/passwd": "d/passwd", "/etc/passwd": "inside"},
		},
		{
			"a hard link to a link is not followed",
			func(b *box) []*tar.Header {
				return []*tar.Header{link("s", b.canary+"/file"), hard("h", "s"), entry("h")}
			},
			"",
			map[string]string{"/dest/h": "h"},
		},
		{
			"a hard link through a link",
			func(b *box) []*tar.Header { return []*tar.Header{link("s", b.canary), hard("h", "s/file")} },
			"the target", nil,
		},
		{"a hard link out", func(*box) []*tar.Header { return []*tar.Header{hard("h", "../../canary/file")} }, "leads out", nil},
		{"a hard link to an absolute name", func(b *box) []*tar.Header { return []*tar.Header{hard("h", b.canary+"/file")} }, "the target", nil},
		{"a hard link to nothing", func(*box) []*tar.Header { return []*tar.Header{hard("h", "none")} }, "cannot be a link", nil},
		{
			"a hard link to itself",
			func(*box) []*tar.Header { return []*tar.Header{entry("h"), hard("h", "./h")} },
			"",
			map[string]string{"/dest/h": "h"},
		},
		{"the destination as a link", func(b *box) []*tar.Header { return []*tar.Header{link(".", b.canary)} }, "take the place", nil},
		{"the destination as a file", func(*box) []*tar.Header { return []*tar.Header{entry("./.")} }, "take the place", nil},
		{
			"whiteouts are names", func(*box) []*tar.Header {
				return []*tar.Header{entry("keep"), entry(".wh.keep"), entry(".wh..wh..opq")}
			},
			"",
			map[string]string{"/dest/keep": "keep", "/dest/.wh.keep": ".wh.keep", "/dest/.wh..wh..opq": ".wh..wh..opq"},
		},
		{
			"twice the same, folders and files by turns",
			func(*box) []*tar.Header {
				return []*tar.Header{entry("a/b"), entry("a"), entry("a/"), entry("a/c"), entry("a/c")}
			},
			"",
			map[string]string{"/dest/a/c": "a/c"},
		},
		{
			"devices are left out", func(*box) []*tar.Header {
				node := func(h *tar.Header) { h.Typeflag = tar.TypeChar }
				return []*tar.Header{entry("whiteout", node), entry("after")}
			},
			"",
			map[string]string{"/dest/after": "after"},
		},
		{"unknown type", func(*box) []*tar.Header {
			return []*tar.Header{entry("a", func(h *tar.Header) { h.Typeflag = 'Z' })}
		}, "unknown type", nil},
		{"deep", func(*box) []*tar.Header { return []*tar.Header{entry(strings.Repeat("d/", 600) + "f")} }, "folders deep", nil},
		{"long", func(*box) []*tar.Header { return []*tar.Header{entry(strings.Repeat("n", 300))} }, "too long", nil},
		{"longer", func(*box) []*tar.Header { return []*tar.Header{entry(strings.Repeat("n", 5000))} }, "more than 4096 bytes", nil},
		{"long link", func(*box) []*tar.Header { return []*tar.Header{link("l", strings.Repeat("n", 5000))} }, "the link of entry", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBox(t)
			err := b.unpack("/dest", archiveOf(t, tc.entries(b)...))
			b.untouched()
			if tc.fails != "" {
				holds(t, "Unpack", err, fault.Invalid, tc.fails)
				return
			}
			if err != nil {
				t.Fatalf("Unpack: %v", err)
			}
			for name, want := range tc.inside {
				if got, err := os.ReadFile(b.root + name); err != nil || string(got) != want {
					t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
				}
			}
			if _, err := os.Lstat(b.root + "/dest/whiteout"); err == nil {
				t.Error("a device was made")
			}
		})
	}
}

func TestUnpackThings(t *testing.T) {
	b := newBox(t)
	old := archiveOf(t,
		entry("d/", func(h *tar.Header) { h.Mode = 0o2750 }),
		entry("d/f", func(h *tar.Header) {
			h.Mode = 0o4711
			h.Uid, h.Gid = 4000000, 1 // ids that the container does not have: nobody gets their privileges
			h.PAXRecords = map[string]string{
				"SCHILY.xattr.user.mine": "yes\x00", "SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.trusted.x": "y",
			}
		}),
		hard("d/h", "d/f"), link("d/l", "/nowhere"),
		entry("d/p", func(h *tar.Header) { h.Typeflag, h.Mode = tar.TypeFifo, 0o620 }),
	)
	if err := b.unpack("dest/.", old); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{
		"/dest/d": unix.S_IFDIR | 0o2750, "/dest/d/f": unix.S_IFREG | 0o711, "/dest/d/l": unix.S_IFLNK | 0o777,
		"/dest/d/p": unix.S_IFIFO | 0o620,
	} {
		var st unix.Stat_t
		if err := unix.Lstat(b.root+name, &st); err != nil || st.Mode != want || st.Mtim.Sec != 1e9 || st.Uid != 0 {
			t.Errorf("%s: mode %o of %d, uid %d, %v, want %o, 1e9, 0", name, st.Mode, st.Mtim.Sec, st.Uid, err, want)
		}
	}
	value := make([]byte, 10)
	if n, err := unix.Getxattr(b.root+"/dest/d/h", "user.mine", value); err != nil || string(value[:n]) != "yes\x00" {
		t.Errorf("user.mine = %q, %v", value[:max(n, 0)], err)
	}
	if _, err := unix.Getxattr(b.root+"/dest/d/f", "user.overlay.opaque", value); !errors.Is(err, unix.ENODATA) {
		t.Errorf("user.overlay.opaque: %v, want none", err)
	}
}

func TestUnpackErrors(t *testing.T) {
	good := archiveOf(t, entry("first"), entry("second"))
	b := newBox(t)
	holds(t, "no folder", b.unpack("/etc/passwd", good), fault.Invalid, "extraction point is not a directory")
	holds(t, "nothing there", b.unpack("/no/x", good), fault.NotFound, "Could not find the file /no/x in container web")
	holds(t, "text", b.unpack("/dest", bytes.Repeat([]byte("text "), 500)), fault.Invalid, "not a tar archive")
	holds(t, "cut", b.unpack("/dest", good[:1024+100]), fault.Invalid, "truncated")
	if got, err := os.ReadFile(b.root + "/dest/first"); err != nil || string(got) != "first" {
		t.Errorf("what came before the error holds %q, %v", got, err)
	}
	if err := b.unpack("/dest", nil); err != nil {
		t.Errorf("Unpack of nothing = %v", err)
	}
	small := b.root + "/small"
	b.must(os.Mkdir(small, 0o755))
	b.must(unix.Mount("tmpfs", small, "tmpfs", 0, "size=64k"))
	defer unix.Unmount(small, unix.MNT_DETACH) //nolint:errcheck // the namespace goes anyway
	names := make([]*tar.Header, 0, 100)
	for i := range cap(names) {
		names = append(names, entry(strings.Repeat("x", 100)+string(rune('a'+i))))
	}
	if err := b.unpack("/small", archiveOf(t, names...)); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("Unpack on a full disk = %v", err)
	}
	b.must(unix.Mount("", small, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	holds(t, "read-only", b.unpack("/small", good), fault.Forbidden, "mounted volume is marked read-only")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := b.service().Unpack(ctx, "web", "/dest", bytes.NewReader(good), UnpackOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Unpack after the end of its context = %v", err)
	}
}

// TestUnpackIntoARemoved: a removal that comes in the middle is no fault of the archive.
func TestUnpackIntoARemoved(t *testing.T) {
	b := newBox(t)
	raw := archiveOf(t, &tar.Header{Name: "file", Mode: 0o644, Typeflag: tar.TypeReg})
	removal := readerFunc(func([]byte) (int, error) {
		b.must(os.RemoveAll(b.root))
		b.removed = true
		return 0, io.EOF
	})
	err := b.service().Unpack(t.Context(), "web", "/dest", io.MultiReader(removal, bytes.NewReader(raw)), UnpackOptions{})
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want fault.NotFound", err)
	}
	b = newBox(t)
	gone := readerFunc(func([]byte) (int, error) { b.must(os.RemoveAll(b.root + "/dest")); return 0, io.EOF })
	err = b.service().Unpack(t.Context(), "web", "/dest", io.MultiReader(gone, bytes.NewReader(raw)), UnpackOptions{})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "replaces it meanwhile") {
		t.Errorf("a folder that goes while the container stays: got %v, want fault.Invalid", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestUnpackKeepsDirNonDir(t *testing.T) {
	for _, tc := range []struct {
		name  string
		there func(b *box) error
		tar   *tar.Header
		want  string
	}{
		{"folder by file", func(b *box) error { return os.MkdirAll(b.root+"/dest/x/y", 0o755) }, entry("x"), "cannot overwrite directory"},
		{"file by folder", func(b *box) error { return os.WriteFile(b.root+"/dest/x", nil, 0o600) }, entry("x/"), "cannot overwrite non-directory"},
		{"link by folder", func(b *box) error { return os.Symlink("/etc", b.root+"/dest/x") }, entry("x/"), "cannot overwrite non-directory"},
		{"file by file", func(b *box) error { return os.WriteFile(b.root+"/dest/x", nil, 0o600) }, entry("x"), ""},
		{"folder by folder", func(b *box) error { return os.MkdirAll(b.root+"/dest/x", 0o755) }, entry("x/"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBox(t)
			b.must(tc.there(b))
			raw := archiveOf(t, tc.tar)
			err := b.service().Unpack(t.Context(), "web", "/dest", bytes.NewReader(raw), UnpackOptions{NoOverwriteDirNonDir: true})
			if tc.want == "" {
				b.must(err)
				return
			}
			holds(t, "Unpack", err, fault.Invalid, tc.want)
			b.must(b.unpack("/dest", raw))
			b.untouched()
		})
	}
}

func FuzzUnpack(f *testing.F) {
	for _, entries := range [][]*tar.Header{
		{entry("a/b"), link("l", "/etc"), entry("l/passwd"), hard("h", "a/b")},
		{link("l", "../../canary"), entry("l/file"), entry("../x")},
		{entry("p", func(h *tar.Header) { h.Typeflag = tar.TypeFifo }), entry("d/"), entry("d")},
	} {
		f.Add(archiveOf(f, entries...))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b := newBox(t)
		_ = b.unpack("/dest", raw) // whatever comes of it
		b.untouched()
	})
}
