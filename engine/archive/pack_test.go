package archive

import (
	"archive/tar"
	"bytes"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tarfile"
	"moss/engine/tree/treetest"
)

func TestPackNames(t *testing.T) {
	b := newBox(t)
	b.must(os.MkdirAll(b.root+"/d/sub", 0o755))
	b.must(os.WriteFile(b.root+"/d/f", []byte("1"), 0o644))
	b.must(os.Symlink("/d", b.root+"/dl"))
	b.must(os.Symlink("../../../d/f", b.root+"/fl"))
	for _, tc := range []struct {
		path string
		want string
	}{
		{"/d", "d/ d/f d/sub/"},
		{"d", "d/ d/f d/sub/"},
		{"/d/", "d/ d/f d/sub/"},
		{"/d/.", "./ ./f ./sub/"},
		{"/d/f", "f"},
		{"/dl", "dl/ dl/f dl/sub/"},
		{"/dl/", "dl/ dl/f dl/sub/"},
		{"dl/.", "./ ./f ./sub/"},
		{"/fl", "fl"},
		{"/d/sub/../f", "f"},
		{"/../d/f", "f"},
		{"/d/sub", "sub/"},
		{"/dl/sub/.", "./"},
	} {
		_, entries, err := b.pack(tc.path)
		if got := strings.Join(slices.Sorted(maps.Keys(entries)), " "); err != nil || got != tc.want {
			t.Errorf("Open(%q) holds %q, %v, want %q", tc.path, got, err, tc.want)
		}
	}
	for path, kind := range map[string]fault.Constructor{
		"": fault.Invalid, "/d/f/": fault.Invalid, "/d/f/.": fault.Invalid, "/d/f/x": fault.NotFound, "/none": fault.NotFound,
		"/a\x00b": fault.Invalid, strings.Repeat("a/", 3000): fault.Invalid, "/" + strings.Repeat("n", 300): fault.Invalid,
	} {
		if _, _, err := b.pack(path); !fault.Is(err, kind) {
			t.Errorf("Open(%.40q) = %v, want %v", path, err, fault.KindOf(kind("")))
		}
	}
}

func TestStatLinks(t *testing.T) {
	b := newBox(t)
	for name, to := range map[string]string{
		"/abs": "/etc/passwd", "/rel": "etc/../etc/passwd", "/chain": "abs", "/up": "../../../etc", "/dead": "gone/x", "/loop": "loop",
		"/out": b.canary + "/file",
	} {
		b.must(os.Symlink(to, b.root+name))
	}
	for path, want := range map[string]string{
		"/abs": "/etc/passwd", "/rel": "/etc/passwd", "/chain": "/etc/passwd", "/up": "/etc", "/dead": "/gone/x", "/loop": "/loop",
		"/out": b.canary + "/file", "/etc/passwd": "", "/up/": "",
	} {
		got, err := b.service().Stat(t.Context(), "web", path)
		if err != nil || got.LinkTarget != want {
			t.Errorf("Stat(%s) leads to %q, %v, want %q", path, got.LinkTarget, err, want)
		}
	}
	if _, _, err := b.pack("/out"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Open of a link to the canary = %v", err)
	}
	if _, _, err := b.pack("/loop"); !fault.Is(err, fault.Invalid) {
		t.Errorf("Open of a loop = %v", err)
	}
}

// TestRoundTrip packs everything that a file can be and unpacks it elsewhere.
func TestRoundTrip(t *testing.T) {
	b := newBox(t)
	d := b.root + "/d"
	b.must(os.MkdirAll(d+"/deep", 0o750))
	big := bytes.Repeat([]byte("0123456789abcdef"), 400_000) // several pieces
	b.must(os.WriteFile(d+"/big", big, 0o640))
	b.must(os.WriteFile(d+"/empty", nil, 0o400))
	b.must(os.Link(d+"/big", d+"/deep/again"))
	b.must(os.Symlink("../../canary/file", d+"/link"))
	b.must(unix.Mkfifo(d+"/fifo", 0o600))
	b.must(unix.Setxattr(d+"/empty", "user.mine", []byte("v"), 0))
	b.must(os.Chmod(d+"/deep", 0o1777))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	b.must(err)
	defer unix.Close(socket) //nolint:errcheck // only its name matters
	t.Chdir(d)
	b.must(unix.Bind(socket, &unix.SockaddrUnix{Name: "socket"}))
	raw, entries, err := b.pack("/d")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 7 || entries["d/socket"] != nil {
		t.Errorf("the archive holds %v", slices.Sorted(maps.Keys(entries)))
	}
	b.must(b.unpack("/dest", raw))
	_, again, err := b.pack("/dest/d")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range entries {
		got := again[name]
		if got == nil || got.Mode != want.Mode || got.Size != want.Size || got.Linkname != want.Linkname ||
			!got.ModTime.Equal(want.ModTime) || !maps.Equal(got.PAXRecords, want.PAXRecords) || got.Typeflag != want.Typeflag {
			t.Errorf("%s came back as %+v, want %+v", name, got, want)
		}
	}
	if got, err := os.ReadFile(b.root + "/dest/d/deep/again"); err != nil || !bytes.Equal(got, big) {
		t.Errorf("the large file came back with %d bytes, %v", len(got), err)
	}
	b.untouched()
}

// TestPackDeep packs folders as deep as an archive may have them, and one deeper.
func TestPackDeep(t *testing.T) {
	b := newBox(t)
	deep := "d/" + strings.Repeat("d/", tarfile.MaxDepth)
	b.must(os.MkdirAll(b.root+"/"+deep, 0o755))
	b.must(os.WriteFile(b.root+"/"+deep+"f", nil, 0o644))
	ctx := treetest.Watch(t)
	d, err := b.service().Open(ctx, "web", "/d")
	b.must(err)
	defer d.Close() //nolint:errcheck // it has been read
	var out bytes.Buffer
	b.must(d.Send(ctx, &out))
	ctx.Check()
	if !bytes.Contains(out.Bytes(), []byte(deep+"f")) {
		t.Error("the lowest file is not in the archive")
	}
	b.must(os.Mkdir(b.root+"/"+deep+"d", 0o755))
	_, _, err = b.pack("/d")
	holds(t, "Open of what is too deep", err, fault.Invalid, "folders are more than 512 deep")
}

// TestPackShrinking reads files that have fewer bytes than was said.
func TestPackShrinking(t *testing.T) {
	for _, size := range []int64{5000, 5 << 20} {
		name := t.TempDir() + "/f"
		if err := os.WriteFile(name, []byte("short"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		p := &packer{ctx: t.Context(), tar: tar.NewWriter(&out)}
		if err := p.tar.WriteHeader(&tar.Header{Name: "f", Size: size}); err != nil {
			t.Fatal(err)
		}
		if err := p.writeContent(int(f.Fd()), "f", size); err != nil {
			t.Errorf("content: %v", err)
		}
		if err := p.tar.Close(); err != nil {
			t.Errorf("the archive is not whole: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPackSystemFiles(t *testing.T) {
	b := newBox(t)
	b.must(os.MkdirAll(b.root+"/mnt/sys", 0o755))
	b.must(unix.Mount("/sys", b.root+"/mnt/sys", "", unix.MS_BIND|unix.MS_REC, ""))
	b.must(os.WriteFile(b.root+"/mnt/version", nil, 0o644))
	b.must(unix.Mount("/proc/version", b.root+"/mnt/version", "", unix.MS_BIND, ""))
	defer unix.Unmount(b.root+"/mnt/sys", unix.MNT_DETACH)     //nolint:errcheck // the namespace goes anyway
	defer unix.Unmount(b.root+"/mnt/version", unix.MNT_DETACH) //nolint:errcheck // likewise
	for _, path := range []string{"/mnt/sys", "/mnt/sys/kernel", "/mnt/version"} {
		_, _, err := b.pack(path)
		holds(t, "Open of "+path, err, fault.Invalid, "file of the system")
	}
	_, entries, err := b.pack("/mnt")
	if got := strings.Join(slices.Sorted(maps.Keys(entries)), " "); err != nil || got != "mnt/ mnt/sys/" {
		t.Errorf("Open of the folder above holds %q, %v", got, err)
	}
	holds(t, "Unpack", b.unpack("/mnt/sys", archiveOf(t, entry("x"))), fault.Invalid, "files of the system")
	holds(t, "Unpack below", b.unpack("/", archiveOf(t, entry("mnt/sys/x"))), fault.Invalid, "files of the system")
	holds(t, "Unpack over", b.unpack("/", archiveOf(t, entry("mnt/version"))), fault.Invalid, "mount point")
}

func TestEventsOfCopies(t *testing.T) {
	b := newBox(t)
	d, err := b.service().OpenExport(t.Context(), "web")
	b.must(err)
	var out bytes.Buffer
	b.must(d.Send(t.Context(), &out))
	b.must(d.Close())
	first, err := tar.NewReader(&out).Next()
	if err != nil || strings.HasPrefix(first.Name, "/") || strings.HasPrefix(first.Name, ".") {
		t.Errorf("the first entry of an export is %v, %v", first, err)
	}
	d, err = b.service().OpenCopy(t.Context(), "web", "/etc/passwd")
	b.must(err)
	b.must(d.Send(t.Context(), io.Discard))
	b.must(d.Close())
	d, err = b.service().Open(t.Context(), "web", "/etc/passwd")
	b.must(err)
	out.Reset()
	b.must(d.Send(t.Context(), &out))
	b.must(d.Close())
	_, err = b.service().Stat(t.Context(), "web", "/etc/passwd")
	b.must(err)
	b.must(b.unpack("/etc", out.Bytes()))
	if err := b.unpack("/etc/passwd", out.Bytes()); err == nil {
		t.Error("unpacked into a file")
	}
	if got := strings.Join(b.events, " "); got != "export copy archive-path extract-to-dir" {
		t.Errorf("the events were %q", got)
	}
}
