package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/storage/storagetest"
)

func TestMain(m *testing.M) { storagetest.Main(m) }

// box is a container's root with something beside it that must not be touched.
type box struct {
	t      testing.TB
	root   string
	canary string // a folder outside the root
	events []string
	ids    *container.IDMap
	user   string // of the container

	removed bool // no view is opened any more
}

const secret = "the canary's own"

func newBox(t testing.TB) *box {
	t.Helper()
	dir := t.TempDir()
	b := &box{t: t, root: filepath.Join(dir, "root"), canary: filepath.Join(dir, "canary")}
	for _, sub := range []string{b.root + "/dest", b.root + "/etc", b.canary + "/sub"} {
		b.must(os.MkdirAll(sub, 0o755))
	}
	b.must(os.WriteFile(b.canary+"/file", []byte(secret), 0o644))
	b.must(os.WriteFile(b.root+"/etc/passwd", []byte("inside"), 0o644))
	return b
}

func (b *box) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// OpenFiles shows the root whatever the container is called.
func (b *box) OpenFiles(context.Context, string) (*container.Files, error) {
	if b.removed {
		return nil, fault.NotFound("No such container: web")
	}
	root, err := os.OpenFile(b.root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	r := &container.Record{ID: "c", Name: "web", Config: container.Config{User: b.user}}
	user := func() (container.UserIDs, error) { return container.ResolveUser(b.user, nil, nil, nil) }
	return &container.Files{Record: r, Root: root, IDs: b.ids, User: user, Done: root.Close}, nil
}

// OpenLayer is OpenFiles.
func (b *box) OpenLayer(ctx context.Context, ref string) (*container.Files, error) {
	return b.OpenFiles(ctx, ref)
}

// Publish notes an event.
func (b *box) Publish(e event.Event) { b.events = append(b.events, e.Action) }

func (b *box) service() *Service {
	return New(Options{Containers: b, Events: b, FreeOut: 32 << 20}) // a bomb need not run for long to be known
}

func (b *box) unpack(path string, raw []byte) error {
	return b.service().Unpack(b.t.Context(), "web", path, bytes.NewReader(raw), UnpackOptions{})
}

// pack returns the archive of a path and its entries by name.
func (b *box) pack(path string) ([]byte, map[string]*tar.Header, error) {
	d, err := b.service().Open(b.t.Context(), "web", path)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close() //nolint:errcheck // it has been read
	var out bytes.Buffer
	if err := d.Send(b.t.Context(), &out); err != nil {
		return nil, nil, err
	}
	entries := map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(out.Bytes())); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out.Bytes(), entries, nil
		}
		if err != nil {
			return nil, nil, err
		}
		entries[h.Name] = h
	}
}

// untouched fails the test if anything changed outside the root.
func (b *box) untouched() {
	b.t.Helper()
	var found []string
	b.must(filepath.WalkDir(filepath.Dir(b.root), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == b.root {
			return fs.SkipDir
		}
		found = append(found, strings.TrimPrefix(path, filepath.Dir(b.root)))
		return nil
	}))
	if want := []string{"", "/canary", "/canary/file", "/canary/sub"}; !slices.Equal(found, want) {
		b.t.Errorf("outside the root there are %q, want %q", found, want)
	}
	if got, err := os.ReadFile(b.canary + "/file"); err != nil || string(got) != secret {
		b.t.Errorf("the canary holds %q, %v", got, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(b.canary+"/file", &st); err != nil || st.Nlink != 1 || st.Mode&0o7777 != 0o644 {
		b.t.Errorf("the canary has %d links and mode %o, %v", st.Nlink, st.Mode, err)
	}
}

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

func link(name, to string) *tar.Header {
	return entry(name, func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeSymlink, to })
}

func hard(name, to string) *tar.Header {
	return entry(name, func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeLink, to })
}

// archiveOf makes an archive; regular files hold their own name.
func archiveOf(t testing.TB, headers ...*tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// holds checks an error's kind and text.
func holds(t *testing.T, what string, err error, kind fault.Constructor, text string) {
	t.Helper()
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s = %v, want %v with %q", what, err, fault.KindOf(kind("")), text)
	}
}
