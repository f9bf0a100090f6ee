package source

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// entry makes a header; folders end in a slash.
func entry(name string, change ...func(*tar.Header)) *tar.Header {
	h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, ModTime: time.Unix(1e9, 0)}
	if strings.HasSuffix(name, "/") {
		h.Typeflag, h.Mode = tar.TypeDir, 0o755
	}
	for _, f := range change {
		f(h)
	}
	return h
}

func soft(name, to string) *tar.Header {
	return entry(name, func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeSymlink, to })
}

func hard(name, to string) *tar.Header {
	return entry(name, func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeLink, to })
}

// archiveOf makes an archive; regular files hold their own name unless they have a size, which is zeros then.
func archiveOf(t testing.TB, headers ...*tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		content := make([]byte, h.Size)
		if h.Typeflag == tar.TypeReg && h.Size == 0 {
			content = []byte(h.Name)
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// treeOf takes in an archive that is a good one.
func treeOf(t testing.TB, headers ...*tar.Header) *Tree {
	t.Helper()
	tree, err := Intake(t.Context(), bytes.NewReader(archiveOf(t, headers...)), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() }) //nolint:errcheck // only read
	return tree
}

// list describes all that is in a source, one line for each entry.
func list(t testing.TB, src Source) string {
	t.Helper()
	var out strings.Builder
	root, err := src.Stat(t.Context(), ".", false)
	if err != nil {
		t.Fatal(err)
	}
	listFolder(t, src, root, &out)
	return strings.TrimSuffix(out.String(), "\n")
}

func listFolder(t testing.TB, src Source, dir *Entry, out *strings.Builder) {
	t.Helper()
	entries, err := src.List(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if path.Dir(e.Path) != dir.Path {
			t.Errorf("List(%q) has %q", dir.Path, e.Path)
		}
		switch {
		case e.Mode.IsRegular():
			fmt.Fprintf(out, "%s=%s\n", e.Path, read(t, src, e))
		case e.Mode.IsDir():
			fmt.Fprintf(out, "%s/\n", e.Path)
			listFolder(t, src, e, out)
		case e.Mode&fs.ModeSymlink != 0:
			fmt.Fprintf(out, "%s->%s\n", e.Path, e.Link)
		default:
			fmt.Fprintf(out, "%s %s\n", e.Path, e.Mode.Type())
		}
	}
}

// read returns a file's content, which must have the digest that the source says.
func read(t testing.TB, src Source, e *Entry) string {
	t.Helper()
	f, err := src.Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	got, err := src.Digest(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if want := got.Algorithm().FromBytes(content); got != want || int64(len(content)) != e.Size {
		t.Errorf("%s has the digest %s and %d bytes, want %s and %d", e.Path, got, e.Size, want, len(content))
	}
	return string(content)
}

// holds checks an error's kind and text.
func holds(t *testing.T, what string, err error, kind fault.Constructor, text string) {
	t.Helper()
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s = %v, want %v with %q", what, err, fault.KindOf(kind("")), text)
	}
}

// nothingLeft fails the test if a folder holds anything.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	src, closeIt := rooted(t, dir)
	defer closeIt()
	if got := list(t, src); got != "" {
		t.Errorf("the folder holds %q", got)
	}
}

func rooted(t testing.TB, dir string) (*Root, func()) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), dir)
	return Rooted(f), func() { f.Close() } //nolint:errcheck // only a handle
}
