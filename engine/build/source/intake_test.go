package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

func TestIntake(t *testing.T) {
	fifo := func(h *tar.Header) { h.Typeflag = tar.TypeFifo }
	device := func(h *tar.Header) { h.Typeflag, h.Devmajor = tar.TypeChar, 1 }
	for _, tc := range []struct {
		name    string
		headers []*tar.Header
		want    string
	}{
		{"nothing", nil, ""},
		{"sorted", []*tar.Header{entry("b"), entry("a/"), entry("a/y"), entry("a/x"), entry("a.b")}, "a/\na/x=a/x\na/y=a/y\na.b=a.b\nb=b"},
		{"implied folders", []*tar.Header{entry("a/b/c")}, "a/\na/b/\na/b/c=a/b/c"},
		{"the root itself", []*tar.Header{entry("./"), entry("./a"), entry("a/../b")}, "a=./a\nb=a/../b"},
		{"absolute", []*tar.Header{entry("/etc/passwd"), hard("/x", "/etc/passwd")}, "etc/\netc/passwd=/etc/passwd\nx=/etc/passwd"},
		{"the last one wins", []*tar.Header{entry("a"), entry("b"), entry("./a")}, "a=./a\nb=b"},
		{"folder twice", []*tar.Header{entry("a/"), entry("a/x"), entry("a/")}, "a/\na/x=a/x"},
		{"file for a folder", []*tar.Header{entry("a/x"), entry("a")}, "a=a"},
		{"folder for a file", []*tar.Header{entry("a"), entry("a/"), entry("a/x")}, "a/\na/x=a/x"},
		{"file for a folder, and back", []*tar.Header{entry("a/x"), entry("a"), entry("a/"), entry("a/y")}, "a/\na/y=a/y"},
		{"folder for a link", []*tar.Header{entry("d/"), soft("a", "d"), entry("a/"), entry("a/x")}, "a/\na/x=a/x\nd/"},
		{"links out stay links", []*tar.Header{soft("a", "/etc/passwd"), soft("b", "../../../etc")}, "a->/etc/passwd\nb->../../../etc"},
		{"through a link", []*tar.Header{entry("d/"), soft("a", "d"), entry("a/x")}, "a->d\nd/\nd/x=a/x"},
		{"through a link out", []*tar.Header{entry("etc/"), soft("a", "../../etc"), entry("a/x")}, "a->../../etc\netc/\netc/x=a/x"},
		{"through a link that changes", []*tar.Header{entry("d/"), entry("e/"), soft("a", "d"), entry("a/x"), soft("a", "e"), entry("a/y")}, "a->e\nd/\nd/x=a/x\ne/\ne/y=a/y"},
		{"hard link", []*tar.Header{entry("a"), hard("b", "a"), entry("a/../a")}, "a=a/../a\nb=a"},
		{"hard link to a link", []*tar.Header{soft("a", "/etc/passwd"), hard("b", "a")}, "a->/etc/passwd\nb->/etc/passwd"},
		{"hard link to itself", []*tar.Header{entry("a"), hard("a", "./a")}, "a=a"},
		{"hard link through a link", []*tar.Header{entry("d/x"), soft("a", "d"), hard("b", "a/x")}, "a->d\nb=d/x\nd/\nd/x=d/x"},
		{"devices are left out", []*tar.Header{entry("null", device), entry("a")}, "a=a"},
		{"fifo", []*tar.Header{entry("f", fifo)}, "f p---------"},
		{"global header", []*tar.Header{
			entry("g", func(h *tar.Header) {
				*h = tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{"comment": "x"}}
			}), entry("a"),
		}, "a=a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := list(t, treeOf(t, tc.headers...)); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestIntakeMany(t *testing.T) {
	headers := make([]*tar.Header, 0, 301)
	for i := range 300 { // in an order that is none
		headers = append(headers, entry("f"+strings.Repeat("x", i*7%300)))
	}
	tree := treeOf(t, append(headers, entry("fxxx"))...)
	root, err := tree.Stat(t.Context(), ".", false)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := tree.List(t.Context(), root)
	if err != nil || len(entries) != 300 || !slices.IsSortedFunc(entries, func(a, b *Entry) int { return strings.Compare(a.Path, b.Path) }) {
		t.Errorf("List has %d entries, %v, want 300 sorted ones", len(entries), err)
	}
	if n, bytes := tree.Count(); n != 300 || bytes != 300*301/2 {
		t.Errorf("Count = %d, %d, want 300 and what they hold", n, bytes)
	}
}

func TestIntakeDescribes(t *testing.T) {
	at := time.Unix(1e9, 5).UTC()
	describe := func(h *tar.Header) {
		h.Mode, h.Uid, h.Gid, h.ModTime, h.Format = 0o6751, 1000, 1<<31, at, tar.FormatPAX
		h.PAXRecords = map[string]string{
			"SCHILY.xattr.user.a": "b", "SCHILY.xattr.security.capability": "\x01\x00", "SCHILY.xattr.user.overlay.opaque": "y",
			"SCHILY.xattr.trusted.x": "y", "SCHILY.xattr.security.selinux": "y",
		}
	}
	tree := treeOf(t, entry("a", describe), hard("b", "a"), entry("d/", func(h *tar.Header) { h.Mode = 0o1777 }),
		entry("e", func(h *tar.Header) { h.Uid, h.Gid = -1, 1<<32 }), soft("s", "a"))
	want := Entry{Mode: 0o751 | fs.ModeSetuid | fs.ModeSetgid, UID: 1000, GID: 1 << 31, Size: 1, ModTime: at, Inode: 1}
	for _, name := range []string{"a", "b", "s"} {
		e, err := tree.Stat(t.Context(), name, true)
		if err != nil {
			t.Fatal(err)
		}
		if e.Mode != want.Mode || e.UID != want.UID || e.GID != want.GID || !e.ModTime.Equal(at) || e.Inode != want.Inode || e.Size != want.Size {
			t.Errorf("%s is %+v, want %+v", name, e, want)
		}
		if len(e.Xattrs) != 2 || e.Xattrs["user.a"] != "b" || e.Xattrs["security.capability"] != "\x01\x00" {
			t.Errorf("%s has the attributes %q", name, e.Xattrs)
		}
	}
	for name, want := range map[string]fs.FileMode{"d": fs.ModeDir | fs.ModeSticky | 0o777, "s": fs.ModeSymlink | 0o777} {
		if e, err := tree.Stat(t.Context(), name, false); err != nil || e.Mode != want {
			t.Errorf("%s is %+v, %v, want %s", name, e, err, want)
		}
	}
	if e, err := tree.Stat(t.Context(), "e", false); err != nil || e.UID != 0 || e.GID != 0 || e.Inode != 0 {
		t.Errorf("ids that cannot be are %+v, %v", e, err)
	}
}

// TestIntakeBombs takes in contexts that cost more than they weigh.
func TestIntakeBombs(t *testing.T) {
	walk := strings.Repeat("d/../", 800)
	chain := slices.Grow([]*tar.Header{entry("d/"), entry("l30/f")}, 30)
	for i := range 30 {
		chain = append(chain, soft(fmt.Sprint("l", i), walk+fmt.Sprint("l", i+1)))
	}
	many := func(n int, entry func(i int) *tar.Header) []*tar.Header {
		list := make([]*tar.Header, n)
		for i := range list {
			list[i] = entry(i)
		}
		return list
	}
	for _, tc := range []struct {
		name, text string
		entries    []*tar.Header
	}{
		{"implied folders", "folders that it does not list", many(200, func(i int) *tar.Header { return entry(fmt.Sprintf("%d/%sf", i, strings.Repeat("a/", 490))) })},
		{"links", "too many symbolic links", append(chain, many(100, func(i int) *tar.Header { return entry(fmt.Sprintf("l0/%d/f", i)) })...)},
		{"targets", "too many symbolic links", append(chain, many(100, func(i int) *tar.Header { return hard(fmt.Sprint("h", i), "l0/f") })...)},
	} {
		_, err := Intake(t.Context(), bytes.NewReader(archiveOf(t, tc.entries...)), Options{Dir: t.TempDir()})
		holds(t, tc.name, err, fault.Invalid, tc.text)
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("%s: the error has %d bytes", tc.name, len(err.Error()))
		}
	}
}

// TestIntakePrivileges takes in programs of owners that cannot be, which become root's without their privileges.
func TestIntakePrivileges(t *testing.T) {
	program := func(name string, uid, gid int) *tar.Header {
		return entry(name, func(h *tar.Header) { h.Mode, h.Uid, h.Gid, h.Format = 0o6755, uid, gid, tar.FormatGNU })
	}
	tree := treeOf(t, program("roots", 0, 0), program("users", 1000, 1000), program("nobodys", -1, 0), program("no group", 0, 1<<40))
	const special = fs.ModeSetuid | fs.ModeSetgid
	for name, want := range map[string]fs.FileMode{"roots": 0o755 | special, "users": 0o755 | special, "nobodys": 0o755, "no group": 0o755} {
		if e, err := tree.Stat(t.Context(), name, false); err != nil || e.Mode != want {
			t.Errorf("%s is %v, %v, want mode %v", name, e.Mode, err, want)
		}
	}
}

func TestIntakeCompressed(t *testing.T) {
	raw := archiveOf(t, entry("a/"), entry("a/x"), entry("big", func(h *tar.Header) { h.Size = 3*piece + 5 }), entry("z"))
	for name, wrap := range map[string]func(io.Writer) (io.WriteCloser, error){
		"plain": func(w io.Writer) (io.WriteCloser, error) { return nopCloser{w}, nil },
		"gzip":  func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"xz":    func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
		"zstd":  func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	} {
		t.Run(name, func(t *testing.T) {
			var packed bytes.Buffer
			w, err := wrap(&packed)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(raw); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			for how, src := range map[string]io.Reader{"whole": &packed, "bytes": iotest.OneByteReader(bytes.NewReader(bytes.Clone(packed.Bytes())))} {
				tree, err := Intake(t.Context(), src, Options{Dir: t.TempDir()})
				if err != nil {
					t.Fatal(how, err)
				}
				if got, want := list(t, tree), "a/\na/x=a/x\nbig="+strings.Repeat("\x00", 3*piece+5)+"\nz=z"; got != want {
					t.Errorf("%s: got %.100q…", how, got)
				}
				if err := tree.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// sparse makes an entry in GNU's old format: 512 bytes of x at an offset of what pretends to have size bytes.
func sparse(offset, size int64) []byte {
	h := make([]byte, 512)
	copy(h, "sparse")
	for at, text := range map[int]string{
		100: "0000644\x00", 108: "0000000\x00", 116: "0000000\x00", 124: "00000001000\x00", 136: "00000000000\x00", 156: "S", 257: "ustar  \x00",
		398: "00000001000\x00",
	} {
		copy(h[at:], text)
	}
	for at, n := range map[int]int64{386: offset, 483: size} { // numbers in base 256
		h[at] = 0x80
		binary.BigEndian.PutUint64(h[at+4:], uint64(n))
	}
	seal(h)
	return slices.Concat(h, bytes.Repeat([]byte("x"), 512), make([]byte, 1024))
}

// seal makes a header's checksum right.
func seal(h []byte) {
	copy(h[148:], "        ")
	total := 0
	for _, c := range h {
		total += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", total))
}

// hugeHeader is an archive whose extended header has 2 MiB.
func hugeHeader(t *testing.T) []byte {
	raw := archiveOf(t, entry("a", func(h *tar.Header) { h.Size = 2 << 20 }))
	raw[156] = tar.TypeXHeader
	seal(raw[:512])
	return raw
}

func TestIntakeSparse(t *testing.T) {
	tree, err := Intake(t.Context(), bytes.NewReader(sparse(1<<20, 3<<20)), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close() //nolint:errcheck // only read
	want := strings.Repeat("\x00", 1<<20) + strings.Repeat("x", 512) + strings.Repeat("\x00", 2<<20-512)
	if got := list(t, tree); got != "sparse="+want {
		t.Errorf("got %d bytes that are others", len(got))
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(tree.file.Fd()), &st); err != nil || st.Blocks*512 > 1<<20 {
		t.Errorf("the content takes %d blocks, %v, want holes", st.Blocks, err)
	}
}

func TestIntakeFails(t *testing.T) {
	long := strings.Repeat("x", 200)
	bomb := &tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 40 << 20}
	for _, tc := range []struct {
		name string
		raw  []byte
		opt  Options
		want string
	}{
		{"no tar", []byte("FROM busybox\nRUN true\n"), Options{}, "the build context is not a tar archive"},
		{"no tar, long", bytes.Repeat([]byte("FROM busybox\n"), 1000), Options{}, "the build context is not a tar archive"},
		{"no gzip", []byte("\x1f\x8b\x08\x00garbage"), Options{}, "truncated"},
		{"broken gzip", []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + long), Options{}, "cannot be decompressed"},
		{"cut in a header", archiveOf(t, entry("a"), entry("b"))[:1024+100], Options{}, "truncated"},
		{"cut in a file", archiveOf(t, entry("a", func(h *tar.Header) { h.Size = 5000 }))[:2000], Options{}, "truncated"},
		{"garbage after an entry", append(archiveOf(t, entry("a"))[:1024], bytes.Repeat([]byte("x"), 1024)...), Options{}, "entry 2 of the build context"},
		{"climbs", archiveOf(t, entry("../a")), Options{}, `the name "../a" leads out of the build context`},
		{"climbs later", archiveOf(t, entry("a/../../b")), Options{}, "leads out"},
		{"hard link out", archiveOf(t, hard("a", "../../etc/passwd")), Options{}, `the link target "../../etc/passwd" leads out`},
		{"hard link to nothing", archiveOf(t, hard("a", "/etc/passwd")), Options{}, `entry "a" cannot be a link to "etc/passwd"`},
		{"hard link to a folder", archiveOf(t, entry("d/"), hard("a", "d")), Options{}, "which is a folder"},
		{"hard link to a later one", archiveOf(t, hard("a", "b"), entry("b")), Options{}, "no such file"},
		{"link loop", archiveOf(t, soft("a", "b"), soft("b", "a"), entry("a/x")), Options{}, "too many levels of symbolic links"},
		{"link to itself", archiveOf(t, soft("a", "a"), entry("a/x")), Options{}, "too many levels of symbolic links"},
		{"through a file", archiveOf(t, entry("a"), entry("a/x")), Options{}, `entry "a/x" is in "a", which is not a folder`},
		{"through nothing", archiveOf(t, soft("a", "b"), entry("a/x")), Options{}, `entry "a/x" goes through a link`},
		{"root as a file", archiveOf(t, entry(".")), Options{}, "the whole build context"},
		{"deep", archiveOf(t, entry(strings.Repeat("a/", 513)+"b")), Options{}, "512 folders deep"},
		{"long name", archiveOf(t, entry(strings.Repeat("a", 5000))), Options{}, "4096 bytes"},
		{"long link", archiveOf(t, soft("a", strings.Repeat("a", 5000))), Options{}, "want 1 to 4096"},
		{"deep through links", archiveOf(t, entry(strings.Repeat("a/", 400)), soft("l", strings.Repeat("a/", 399)+"a"), entry("l/"+strings.Repeat("b/", 400))), Options{}, "too deep"},
		{"unknown type", archiveOf(t, &tar.Header{Typeflag: 'Z', Name: "a"}), Options{}, "unknown type"},
		{"many", archiveOf(t, entry("a"), entry("b"), entry("c/d")), Options{MaxEntries: 3}, "more than 3 entries"},
		{"many of one", archiveOf(t, slices.Repeat([]*tar.Header{entry("a")}, 9)...), Options{MaxEntries: 2}, "more than 8 entries"},
		{"bomb", gzipped(t, archiveOf(t, bomb)), Options{FreeOut: 1 << 20}, "more than 500 times its size"},
		{"sparse bomb", sparse(0, 1<<40), Options{}, "pretend to more than 17179869184 bytes"},
		{"huge header", hugeHeader(t), Options{}, "header field too long"},
		{"attribute", archiveOf(t, entry("a", func(h *tar.Header) {
			h.PAXRecords = map[string]string{"SCHILY.xattr.user.a": strings.Repeat("x", maxXattr+1)}
		})), Options{}, "more than 65536 bytes"},
		{"much follows", append(archiveOf(t, entry("a")), make([]byte, maxAfter+1)...), Options{}, "follow the archive"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.opt.Dir = t.TempDir()
			_, err := Intake(t.Context(), bytes.NewReader(tc.raw), tc.opt)
			holds(t, "Intake", err, fault.Invalid, tc.want)
			nothingLeft(t, tc.opt.Dir)
		})
	}
}

func TestIntakeText(t *testing.T) {
	b, err := newBuilder(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.abandonTree()
	b.text = maxText - 5
	if err := b.putNode("abc/de", &inode{}); err != nil {
		t.Errorf("put = %v", err)
	}
	holds(t, "put", b.putNode("abc/f", &inode{}), fault.Invalid, "more than 67108864 bytes")
}

// TestNamedSpool is for file systems on which files have names from the beginning.
func TestNamedSpool(t *testing.T) {
	dir := t.TempDir()
	s, err := namedSpool(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, dir)
	node := &inode{}
	s.beginFile(node)
	space, err := s.nextBuffer()
	if err != nil {
		t.Fatal(err)
	}
	s.commitBytes(node, copy(space, "text"), true)
	f, err := s.finishFile()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	if got, err := io.ReadAll(f); err != nil || string(got) != "text" || node.sum != sumContent(got) {
		t.Errorf("the content is %q, %v with the sum %x", got, err, node.sum)
	}
}

func gzipped(t testing.TB, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestIntakeEnds has the sender hang up, the disk fill up, and the client go away.
func TestIntakeEnds(t *testing.T) {
	raw := archiveOf(t, entry("a", func(h *tar.Header) { h.Size = 20 << 20 }), entry("b"))
	hungUp := errors.New("connection reset")
	noRoom := fault.Internal("no room")
	gone := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	for _, tc := range []struct {
		name string
		ctx  context.Context //nolint:containedctx // of one row
		src  io.Reader
		room func(int64, int64) error
		want error
	}{
		{"hang up", t.Context(), io.MultiReader(bytes.NewReader(raw[:10<<20]), iotest.ErrReader(hungUp)), nil, hungUp},
		{"hang up as http words it", t.Context(), io.MultiReader(bytes.NewReader(raw[:10<<20]), iotest.ErrReader(io.ErrUnexpectedEOF)), nil, io.ErrUnexpectedEOF},
		{"no room", t.Context(), bytes.NewReader(raw), func(bytes, files int64) error {
			if bytes != roomStep || files != 1 {
				t.Errorf("Room(%d, %d)", bytes, files)
			}
			return noRoom
		}, noRoom},
		{"cancel", ctx, io.MultiReader(bytes.NewReader(raw[:10<<20]), readerFunc(func([]byte) (int, error) {
			cancel(gone)
			<-ctx.Done()
			return 0, ctx.Err()
		})), nil, gone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Intake(tc.ctx, tc.src, Options{Dir: dir, Room: tc.room})
			if !errors.Is(err, tc.want) || fault.Is(err, fault.Invalid) {
				t.Errorf("Intake = %v, want %v", err, tc.want)
			}
			nothingLeft(t, dir)
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func FuzzIntake(f *testing.F) {
	f.Add(archiveOf(f, entry("a/"), entry("a/x"), soft("l", "a"), entry("l/y"), hard("h", "l/x")))
	f.Add(archiveOf(f, soft("a", "b"), soft("b", "../a"), entry("a/x")))
	f.Add([]byte("FROM scratch"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		tree, err := Intake(t.Context(), bytes.NewReader(raw), Options{Dir: dir, FreeOut: 1 << 20, MaxEntries: 1000})
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("Intake = %v", err)
			}
			return
		}
		defer tree.Close() //nolint:errcheck // only read
		list(t, tree)
		n, size := tree.Count()
		root, err := tree.Sub(".")
		if err != nil {
			t.Fatal(err)
		}
		if have, holds := root.Count(); have != n || holds != size {
			t.Errorf("the tree has %d entries and %d bytes, but counted %d and %d", have, holds, n, size)
		}
	})
}
