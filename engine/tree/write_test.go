package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tarfile"
)

// scene is a root with a folder to write into, and something beside it that must not be touched.
type scene struct {
	t      testing.TB
	base   string
	root   *os.File
	dest   *os.File
	budget *Budget
	writer *Writer
}

func newScene(t testing.TB, limits Limits) *scene {
	t.Helper()
	s := &scene{t: t, base: t.TempDir(), budget: NewBudget(limits)}
	for _, dir := range []string{"root/dest", "root/etc", "canary"} {
		if err := os.MkdirAll(filepath.Join(s.base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"root/etc/passwd", "canary/file"} {
		if err := os.WriteFile(filepath.Join(s.base, file), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.root, s.dest = s.open("root"), s.open("root/dest")
	s.writer = NewWriter(WriterOptions{
		Root: s.root, Dest: s.dest, At: "/dest", Budget: s.budget,
		Owner: func(uid, _ int) (int, int, bool) { return os.Getuid(), os.Getgid(), uid == 0 },
	})
	t.Cleanup(s.writer.Close)
	return s
}

func (s *scene) open(name string) *os.File {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.base, name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { f.Close() }) //nolint:errcheck // only a handle
	return f
}

// write writes an entry that holds its own name.
func (s *scene) write(h tar.Header) error {
	if h.Mode == 0 {
		h.Mode = 0o755
	}
	if h.Typeflag == 0 {
		h.Typeflag = tar.TypeReg
	}
	h.ModTime = time.Unix(1e9, 0)
	return s.writer.Write(s.t.Context(), &h, strings.NewReader(h.Name))
}

// untouched checks what is beside the root.
func (s *scene) untouched() {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.base, "canary/file"))
	names, failed := os.ReadDir(filepath.Join(s.base, "canary"))
	if err != nil || failed != nil || string(raw) != "old" || len(names) != 1 {
		s.t.Errorf("the canary is %q beside %v, %v, %v", raw, names, err, failed)
	}
	if names, err = os.ReadDir(s.base); err != nil || len(names) != 2 {
		s.t.Errorf("beside the root there are %v, %v", names, err)
	}
}

func file(name string) tar.Header   { return tar.Header{Name: name} }
func folder(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir} }
func soft(name, link string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: link}
}

func hard(name, link string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: link}
}

// TestWriterLinks writes through links, each name below the root.
func TestWriterLinks(t *testing.T) {
	for name, tc := range map[string]struct {
		entries []tar.Header
		at      string // below the root, what the last entry becomes; empty: it is refused
	}{
		"relative":          {[]tar.Header{folder("d"), soft("l", "d"), file("l/f")}, "dest/d/f"},
		"absolute":          {[]tar.Header{soft("l", "/etc"), file("l/passwd")}, "etc/passwd"},
		"up and out":        {[]tar.Header{soft("l", "../../../../etc"), file("l/passwd")}, "etc/passwd"},
		"up, from below":    {[]tar.Header{folder("a/b"), soft("a/b/l", "../../.."), file("a/b/l/etc/passwd")}, "etc/passwd"},
		"the root itself":   {[]tar.Header{soft("l", "/"), file("l/f")}, "f"},
		"of links":          {[]tar.Header{folder("d/e"), soft("d/e/up", ".."), soft("l", "d/e/up/e"), file("l/up/f")}, "dest/d/f"},
		"what is missing":   {[]tar.Header{folder("d"), soft("l", "d"), file("l/new/er/f")}, "dest/d/new/er/f"},
		"a hard link":       {[]tar.Header{folder("d"), soft("l", "d"), file("d/f"), hard("g", "l/f")}, "dest/g"},
		"replaced":          {[]tar.Header{soft("l", "/etc"), folder("l"), file("l/passwd")}, "dest/l/passwd"},
		"to nothing":        {[]tar.Header{soft("l", "/nowhere"), file("l/f")}, ""},
		"to a file":         {[]tar.Header{soft("l", "/etc/passwd"), file("l/f")}, ""},
		"to itself":         {[]tar.Header{soft("l", "l"), file("l/f")}, ""},
		"up from a file":    {[]tar.Header{file("f"), soft("l", "f/.."), file("l/g")}, ""},
		"out by a target":   {[]tar.Header{hard("g", "../../canary/file")}, ""},
		"in place of dest":  {[]tar.Header{soft(".", "/etc")}, ""},
		"a folder's target": {[]tar.Header{folder("d"), hard("g", "d")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, Limits{})
			var err error
			for i, h := range tc.entries {
				if err = s.write(h); err != nil && i < len(tc.entries)-1 {
					t.Fatalf("%s: %v", h.Name, err)
				}
			}
			s.untouched()
			if tc.at == "" {
				if !fault.Is(err, fault.Invalid) {
					t.Errorf("error %v, want an invalid fault", err)
				}
				return
			}
			last := tc.entries[len(tc.entries)-1]
			want := last.Name
			if last.Typeflag == tar.TypeLink {
				want = "d/f"
			}
			raw, failed := os.ReadFile(filepath.Join(s.base, "root", tc.at))
			if err != nil || failed != nil || string(raw) != want {
				t.Errorf("%s holds %q, %v, %v, want %q", tc.at, raw, err, failed, want)
			}
		})
	}
}

// TestWriterBudget writes what costs more than it weighs.
func TestWriterBudget(t *testing.T) {
	walk := strings.Repeat("d/../", 400)
	half := strings.Repeat("d/", tarfile.MaxDepth/2+1)
	chain := make([]tar.Header, 0, 400)
	chain = append(chain, folder("d"), folder("l30"))
	for i := range 30 {
		chain = append(chain, soft(fmt.Sprint("l", i), walk+fmt.Sprint("l", i+1)))
	}
	entries, targets, folders := slices.Clone(chain), slices.Clone(chain), make([]tar.Header, 0, 200)
	targets = append(targets, file("l30/f"))
	for i := range 200 {
		entries = append(entries, file(fmt.Sprintf("l0/%d/f", i)))
		targets = append(targets, hard(fmt.Sprint("h", i), "l0/f"))
		folders = append(folders, file(fmt.Sprintf("%d/%sf", i, strings.Repeat("a/", 490))))
	}
	for name, tc := range map[string]struct {
		entries []tar.Header
		limits  Limits
		text    string
	}{
		"implied folders": {folders, Limits{}, "folders that it does not list"},
		"links":           {entries, Limits{}, "too many symbolic links"},
		"targets":         {targets, Limits{}, "too many symbolic links"},
		"entries":         {[]tar.Header{file("a"), file("a"), file("a")}, Limits{Entries: 2}, "more than 2 entries"},
		"with folders":    {[]tar.Header{file("a/b/c")}, Limits{Entries: 2}, "more than 2 entries"},
		"deep by a link":  {[]tar.Header{file(half + "f"), soft("l", half), file("l/" + half + "f")}, Limits{}, "folders deep"},
		"deep by itself":  {[]tar.Header{folder(half + half)}, Limits{}, "folders deep"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, tc.limits)
			var err error
			for _, h := range tc.entries {
				if err = s.write(h); err != nil {
					break
				}
			}
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.text) || len(err.Error()) > 400 {
				t.Errorf("error %v, want an invalid fault with %q", err, tc.text)
			}
			s.untouched()
		})
	}
}

// TestWriterForeign writes where there is no data.
func TestWriterForeign(t *testing.T) {
	s := newScene(t, Limits{})
	s.writer.opt.Foreign = func(fd int) (bool, error) {
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		return strings.HasSuffix(name, "/etc") || strings.HasSuffix(name, "/magic"), err
	}
	for _, h := range []tar.Header{soft("l", "/etc"), folder("d"), soft("magic", "d")} {
		if err := s.write(h); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"l/passwd", "l/new/f", "magic/f"} {
		if err := s.write(file(name)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, want an invalid fault", name, err)
		}
	}
}

// FuzzWriter writes entries of few names in all orders: whatever they are, nothing changes beside the root, nothing panics,
// and errors are of the entries.
func FuzzWriter(f *testing.F) {
	f.Add([]byte("\x00ab\x21ac\x42\x63"))
	f.Add([]byte("\x41b\x02abc\x61ba\x23cb"))
	targets := []string{"a", "/", "..", "../../..", "../../canary", "a/b", "/dest/b", "b/../c", "/etc/", "c"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := newScene(t, Limits{Entries: 200})
		for len(raw) > 1 {
			size := min(int(raw[0]&7)+1, len(raw)-1)
			parts := make([]string, 0, size)
			for _, c := range raw[1 : 1+size] {
				parts = append(parts, string(rune('a'+c%4)))
			}
			h := tar.Header{
				Name: strings.Join(parts, "/"), Linkname: targets[int(raw[1])%len(targets)],
				Typeflag: []byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo}[int(raw[0]>>3)%5],
			}
			raw = raw[1+size:]
			err := s.write(h)
			if _, ok := errors.AsType[*fs.PathError](err); err != nil && !ok && !fault.Is(err, fault.Invalid) && !errors.Is(err, unix.EISDIR) {
				t.Fatalf("%c %s -> %s: %v", h.Typeflag, h.Name, h.Linkname, err)
			}
		}
		s.writer.Settle()
		s.untouched()
	})
}

// BenchmarkWriter writes small files into folders that no entry tells of.
func BenchmarkWriter(b *testing.B) {
	for b.Loop() {
		s := newScene(b, Limits{})
		for i := range 2000 {
			h := tar.Header{Name: fmt.Sprintf("usr/lib/p%d/f%d", i/20, i), Typeflag: tar.TypeReg, Mode: 0o644, ModTime: time.Unix(1e9, 0)}
			if err := s.writer.Write(b.Context(), &h, io.LimitReader(strings.NewReader("hello"), 5)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestOwnerRefused: an owner that a file cannot have is no error, whatever keeps him from it; all other errors are.
func TestOwnerRefused(t *testing.T) {
	for _, tc := range []struct {
		refuse func(uid, gid int) error
		same   bool
		err    error
	}{
		{func(int, int) error { return nil }, true, nil},
		{func(int, int) error { return unix.EPERM }, false, nil},
		{func(int, int) error { return unix.EINVAL }, false, nil},
		{func(uid, _ int) error {
			if uid == 5 {
				return unix.EPERM
			}
			return nil
		}, false, nil},
		{func(int, int) error { return unix.EIO }, false, unix.EIO},
	} {
		w := &Writer{}
		same, err := w.changeOwner(&tar.Header{Uid: 5, Gid: 6}, tc.refuse)
		if !errors.Is(err, tc.err) || err == nil && same != tc.same {
			t.Errorf("own = %t, %v, want %t, %v", same, err, tc.same, tc.err)
		}
	}
}
