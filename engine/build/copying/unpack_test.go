package copying

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"moss/engine/fault"
	"moss/engine/tarfile"
)

// entry makes one of an archive from a line as files takes them.
type entry struct {
	tar.Header
	content string
}

func reg(name string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, name}
}

func dir(name string) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, ""}
}

func soft(name, to string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}, ""}
}

func hard(name, to string) entry {
	return entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to, Mode: 0o644}, ""}
}

func (e entry) with(change func(*tar.Header)) entry {
	change(&e.Header)
	return e
}

func packed(t testing.TB, entries ...entry) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := e.Header
		if h.Typeflag == tar.TypeXGlobalHeader {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatalf("write a global header: %v", err)
			}
			continue
		}
		h.Size = int64(len(e.content))
		if h.ModTime.IsZero() {
			h.ModTime = then
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatalf("write %s: %v", h.Name, err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// add unpacks an archive into /dest of a base.
func add(t testing.TB, archive string, base *memory, change func(*Request)) (string, error) {
	t.Helper()
	req := Request{Add: true, Items: from(files(t, "a.tar="+archive), "a.tar"), Dest: "/dest", Created: then}
	if change != nil {
		change(&req)
	}
	return writeLayer(t, req, base)
}

func TestUnpack(t *testing.T) {
	owned := func(h *tar.Header) { h.Uid, h.Gid, h.Mode = 3, 4, 0o4711 }
	cases := []struct {
		name string
		base []string
		in   []entry
		want string
	}{
		{"files", nil, []entry{dir("./"), reg("./a"), dir("d/"), reg("d/b")}, "dest/\ndest/a=./a\ndest/d/\ndest/d/b=d/b"},
		{"owners and modes", nil, []entry{reg("a").with(owned)}, "dest/\ndest/a=a (4711 3:4)"},
		{"folders that are missing", nil, []entry{reg("d/e/a")}, "dest/\ndest/d/\ndest/d/e/\ndest/d/e/a=d/e/a"},
		{"an absolute name", nil, []entry{reg("/a")}, "dest/\ndest/a=/a"},
		{"into a folder that is there", []string{"dest/ (700 1:2)", "dest/d/ (711)"}, []entry{reg("d/a")}, "dest/ (700 1:2)\ndest/d/ (711)\ndest/d/a=d/a"},
		{"a folder that is there too", []string{"dest/d/ (711)"}, []entry{dir("d"), reg("d/a")}, "dest/\ndest/d/\ndest/d/a=d/a"},
		{"links", nil, []entry{soft("l", "../../../etc"), reg("a"), hard("b", "./a"), hard("c", "/b"), hard("m", "l")}, "dest/\ndest/a=a\ndest/b == dest/a\ndest/c == dest/a\ndest/l -> ../../../etc\ndest/m -> ../../../etc"},
		{"through a link of the image", []string{"dest/lib -> usr/lib", "dest/usr/lib/"}, []entry{reg("lib/a")}, "dest/\ndest/usr/\ndest/usr/lib/\ndest/usr/lib/a=lib/a"},
		{"a link's root is the destination", []string{"dest/lib -> /usr/lib", "dest/usr/lib/", "usr/lib/"}, []entry{reg("lib/a")}, "dest/\ndest/usr/\ndest/usr/lib/\ndest/usr/lib/a=lib/a"},
		{"a link out of the archive", []string{"etc/"}, []entry{soft("l", "../../etc"), reg("l/a")}, "dest/\ndest/etc/\ndest/etc/a=l/a\ndest/l -> ../../etc"},
		{"a folder for a link", []string{"dest/lib -> usr", "dest/usr/"}, []entry{dir("lib"), reg("lib/a")}, "dest/\ndest/lib/\ndest/lib/a=lib/a"},
		{"a file for a folder", []string{"dest/d/x"}, []entry{reg("d")}, "dest/\ndest/d=d"},
		{"a folder for a file", []string{"dest/d"}, []entry{reg("d/x")}, "?"},
		{"a file, then a folder, for a folder", []string{"dest/d/x"}, []entry{reg("d"), dir("d")}, "dest/\ndest/d/\ndest/d/.wh..wh..opq= (0)"},
		{"twice", nil, []entry{reg("a"), soft("a", "b")}, "dest/\ndest/a -> b"},
		{"a file twice", nil, []entry{reg("a"), reg("b"), hard("c", "a"), hard("d", "c"), reg("./a"), hard("b", "a")}, "dest/\ndest/c=a\ndest/a=./a\ndest/b == dest/a\ndest/d == dest/c"},
		{"a folder after what is in it", nil, []entry{reg("d/a"), dir("d").with(owned)}, "dest/\ndest/d/ (4711 3:4)\ndest/d/a=d/a"},
		{"a file in a folder that goes", nil, []entry{reg("d/a"), hard("b", "d/a"), reg("d/c"), soft("d", "b")}, "dest/\ndest/b=d/a\ndest/d -> b"},
		{"another name of the image's file", []string{"dest/sh (755 1:1)"}, []entry{hard("ash", "sh")}, "dest/\ndest/ash=dest/sh (755 1:1)\ndest/sh == dest/ash (755 1:1)"},
		{"a name of itself", nil, []entry{reg("a"), hard("a", "a")}, "dest/\ndest/a=a"},
		{"attributes", nil, []entry{reg("a").with(func(h *tar.Header) {
			h.PAXRecords = map[string]string{"SCHILY.xattr.user.x": "1", "SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.trusted.overlay.redirect": "/"}
		})}, "dest/\ndest/a=a (user.x=1)"},
		{"a pipe", nil, []entry{{Header: tar.Header{Typeflag: tar.TypeFifo, Name: "p", Mode: 0o644}}}, "dest/\ndest/p (p)"},
		{"times", nil, []entry{reg("a").with(func(h *tar.Header) { h.ModTime = time.Unix(-5, 0) })}, "dest/\ndest/a=a (at 1970-01-01)"},
		{"a global header", nil, []entry{{Header: tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}}, reg("a")}, "dest/\ndest/a=a"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := add(t, packed(t, tc.in...), files(t, tc.base...), nil)
			if tc.want == "?" {
				if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "mkdir /dest/d: not a directory") {
					t.Errorf("ADD = %v, want an error; it made %s", err, got)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("ADD made\n%s\n(%v), want\n%s", got, err, tc.want)
			}
		})
	}
}

func TestUnpackOptions(t *testing.T) {
	no, yes := false, true
	archive := packed(t, reg("x").with(func(h *tar.Header) { h.Uid, h.Gid, h.Mode = 3, 4, 0o600 }))
	cases := []struct {
		name   string
		change func(*Request)
		want   string
	}{
		{"chown is for all", func(r *Request) { r.Chown = "8:9" }, "dest/ (8:9)\ndest/x (600 8:9)"},
		{"chmod is for none", func(r *Request) { r.Chmod = "777" }, "dest/\ndest/x (600 3:4)"},
		{"COPY", func(r *Request) { r.Add = false }, "dest"},
		{"unpack=false", func(r *Request) { r.Unpack = &no }, "dest"},
		{"a download", func(r *Request) { r.Items[0].Origin = FromDownload }, "dest"},
		{"a download with unpack", func(r *Request) { r.Items[0].Origin, r.Unpack = FromDownload, &yes }, "dest/\ndest/x (600 3:4)"},
		{"a document", func(r *Request) { r.Items[0].Origin, r.Unpack = FromInline, &yes }, "dest"},
		{"with what is no archive", func(r *Request) {
			r.Items, r.Dest = append(from(files(t, "plain", "x=mine"), "plain", "x"), r.Items...), "/dest/"
		}, "dest/\ndest/x (600 3:4)\ndest/plain=plain"},
		{"with another", func(r *Request) {
			other := packed(t, dir("d"), reg("d/x"), reg("y"))
			first := packed(t, reg("d/x").with(func(h *tar.Header) { h.Mode = 0o600 }), dir("d"), hard("y", "d/x"))
			r.Items, r.Dest = from(files(t, "1="+first, "2="+other), "1", "2"), "/dest/"
		}, "dest/\ndest/d/\ndest/d/x=d/x\ndest/y=y"},
		{"before what is none", func(r *Request) {
			r.Items, r.Dest = append(r.Items, from(files(t, "plain", "d/x=mine", "d/y"), "plain", "d")...), "/dest/"
		}, "dest/\ndest/plain=plain\ndest/x=mine\ndest/y=d/y"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := add(t, archive, files(t), tc.change)
			if got == "dest="+archive {
				got = "dest"
			}
			got = strings.ReplaceAll(got, "dest/x=x", "dest/x")
			if err != nil || got != tc.want {
				t.Errorf("ADD made\n%s\n(%v), want\n%s", got, err, tc.want)
			}
		})
	}
}

func TestUnpackCompressed(t *testing.T) {
	archive := packed(t, reg("x"))
	for name, compress := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"xz":   func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
		"zstd": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	} {
		t.Run(name, func(t *testing.T) {
			pack := func(content string) string {
				var out bytes.Buffer
				w, err := compress(&out)
				if err == nil {
					_, err = io.WriteString(w, content)
				}
				if err = errors.Join(err, w.Close()); err != nil {
					t.Fatal(err)
				}
				return out.String()
			}
			if got, err := add(t, pack(archive), files(t), nil); err != nil || got != "dest/\ndest/x=x" {
				t.Errorf("ADD of an archive made %q, %v", got, err)
			}
			text := pack("no archive at all")
			if got, err := add(t, text, files(t), nil); err != nil || got != "dest="+text {
				t.Errorf("ADD of a text made %q, %v, want the file as it is", got, err)
			}
		})
	}
}

// TestUnpackLarge unpacks an archive that is too large to be kept for the second reading.
func TestUnpackLarge(t *testing.T) {
	large := reg("large")
	large.content = strings.Repeat("0123456789abcde\n", maxKept>>4)
	got, err := add(t, packed(t, reg("a"), large, reg("b"), reg("a")), files(t), nil)
	if want := "dest/\ndest/large=" + large.content + "\ndest/b=b\ndest/a=a"; err != nil || got != want {
		t.Errorf("ADD made %.100s… of %d bytes, %v, want %d bytes", got, len(got), err, len(want))
	}
}

func TestUnpackHostile(t *testing.T) {
	deep := strings.Repeat("d/", tarfile.MaxDepth+1) + "x"
	cases := []struct {
		name string
		in   string
		want string
	}{
		{"a name that climbs out", packed(t, reg("../x")), `the name "../x" leads out of the folder`},
		{"a name that climbs out later", packed(t, reg("a/../../x")), "leads out of the folder"},
		{"a link that climbs out", packed(t, hard("x", "../etc/passwd")), `the link target "../etc/passwd" leads out of the folder`},
		{"a link to what is not there", packed(t, hard("x", "/etc/passwd")), `the entry "x" cannot be a link to "/etc/passwd": there is no such file`},
		{"a link to a folder", packed(t, dir("d"), hard("x", "d")), `the entry "x" cannot be a link to "d"`},
		{"a loop", packed(t, soft("l", "l"), reg("l/x")), "too many levels of symbolic links"},
		{"a file as a folder", packed(t, reg("f"), reg("f/x")), "mkdir /dest/f: not a directory"},
		{"a removal", packed(t, reg("d/.wh.x")), "names that begin with .wh."},
		{"a removal by a folder", packed(t, reg(".wh.x/d")), "names that begin with .wh."},
		{"a removal by a device", packed(t, entry{Header: tar.Header{Typeflag: tar.TypeChar, Name: "x"}}), "the device 0:0 means"},
		{"the folder itself", packed(t, reg("x/..")), "would take the place of the folder"},
		{"too deep", packed(t, reg(deep)), "folders deep"},
		{"a name that is too long", packed(t, reg(strings.Repeat("x", tarfile.MaxName+1))), "more than 4096 bytes"},
		{"nobody's", packed(t, reg("x").with(func(h *tar.Header) { h.Uid = 1<<32 - 1 })), "which nobody is"},
		{"cut short", packed(t, reg("x"), reg("y"))[:1500], "the archive is truncated"},
		{"broken", packed(t, reg("x"))[:1024] + strings.Repeat("broken", 200), "entry 2 of the archive"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := add(t, tc.in, files(t, "etc/passwd=secret"), nil)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "ADD failed: unpack a.tar: ") {
				t.Errorf("ADD = %v, want %q; it made %s", err, tc.want, got)
			}
		})
	}
}

// TestUnpackManyFolders unpacks archives that cost more than they weigh.
func TestUnpackManyFolders(t *testing.T) {
	walk := strings.Repeat("d/../", 800)
	chain := slices.Grow([]entry{dir("d"), reg("l30/f")}, 30)
	for i := range 30 {
		chain = append(chain, soft(fmt.Sprint("l", i), walk+fmt.Sprint("l", i+1)))
	}
	folders, entries, targets := make([]entry, 0, 300), slices.Clone(chain), slices.Clone(chain)
	for i := range 300 {
		folders = append(folders, reg(fmt.Sprintf("%d/%sf", i, strings.Repeat("a/", 490))))
		entries = append(entries, reg(fmt.Sprintf("l0/%d/f", i)))
		targets = append(targets, hard(fmt.Sprint("h", i), "l0/f"))
	}
	half := strings.Repeat("d/", tarfile.MaxDepth/2+1)
	for _, tc := range []struct {
		name, want string
		entries    []entry
	}{
		{"implied folders", "folders that it does not list", folders},
		{"links", "too many symbolic links", entries},
		{"targets of links", "too many symbolic links", targets},
		{"deep by a link", "folders deep", []entry{reg(half + "f"), soft("l", half), reg("l/" + half + "f")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := add(t, packed(t, tc.entries...), files(t, "etc/passwd=secret"), nil)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 400 {
				t.Errorf("ADD = %v, want %q", err, tc.want)
			}
		})
	}
}

// TestUnpackReplaced unpacks entries whose folder another entry takes the place of: neither they nor what comes after them
// ends up in a folder that is gone.
func TestUnpackReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		entries []entry
		want    string
	}{
		"a file for the folder": {[]entry{reg("d/a"), reg("d")}, "dest/\ndest/d=d"},
		"a folder again":        {[]entry{reg("d/a"), reg("d"), dir("d"), reg("d/b")}, "dest/\ndest/d/\ndest/d/b=d/b"},
		"a link for the folder": {[]entry{dir("e"), reg("d/a"), soft("d", "e"), reg("d/b")}, "dest/\ndest/d -> e\ndest/e/\ndest/e/b=d/b"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := add(t, packed(t, tc.entries...), files(t), nil)
			lines := strings.Split(got, "\n")
			slices.Sort(lines)
			if got := strings.Join(lines, "\n"); err != nil || got != tc.want {
				t.Errorf("ADD made\n%s\n%v, want\n%s", got, err, tc.want)
			}
		})
	}
}

func TestUnpackBomb(t *testing.T) {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewWriter(w)
	const size = 640 << 20
	if err := r.WriteHeader(&tar.Header{Name: "x", Size: size, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range size >> 20 {
		if _, err := r.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(r.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	plan, err := NewPlan(t.Context(), Request{Add: true, Items: from(files(t, "a.tar="+out.String()), "a.tar"), Dest: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.WriteLayer(t.Context(), nil, io.Discard); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "unpacks to more than") {
		t.Errorf("ADD of a bomb of %d bytes = %v, want an error", out.Len(), err)
	}
}
