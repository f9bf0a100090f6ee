package imagesvc

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"moss/engine/compress"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// log keeps the events that were published.
type log struct {
	mu     sync.Mutex // guards events
	events []event.Event
}

func (l *log) Publish(ev event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, ev)
}

// take returns the actions since the last call.
func (l *log) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	actions := make([]string, 0, len(l.events))
	for _, ev := range l.events {
		actions = append(actions, ev.Action)
	}
	l.events = nil
	return strings.Join(actions, ",")
}

func newService(t testing.TB, limits Limits) (*Service, *storage.Store, *log) {
	t.Helper()
	root := t.TempDir()
	st, err := storage.Open(t.Context(), storage.Options{Root: root, RunRoot: filepath.Join(root, "run"), SingleID: true})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	events := &log{}
	return New(StoreOf(st), Options{Events: events, EngineVersion: "test", Limits: limits}), st, events
}

func rootfs(t testing.TB, content string) []byte {
	t.Helper()
	h := file("etc/motd", int64(len(content)))
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	h.Mode = 0o644
	if err := w.WriteHeader(&tar.Header{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// bz2 is rootfs("hello") in bzip2, which Go cannot write.
func bz2(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/hello.tar.bz2.b64")
	if err != nil {
		t.Fatal(err)
	}
	out, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func compressed(t testing.TB, raw []byte, open func(io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := open(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func toGzip(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }
func toXZ(w io.Writer) (io.WriteCloser, error)   { return xz.NewWriter(w) }
func toZstd(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }

func TestImport(t *testing.T) {
	s, st, events := newService(t, Limits{})
	plain := rootfs(t, "hello")
	two := append(compressed(t, plain[:700], toGzip), compressed(t, plain[700:], toGzip)...)
	for name, raw := range map[string][]byte{
		"plain": plain, "gzip": compressed(t, plain, toGzip), "two gzip": two, "xz": compressed(t, plain, toXZ),
		"zstd": compressed(t, plain, toZstd), "bzip2": bz2(t),
	} {
		t.Run(name, func(t *testing.T) {
			var shown []image.Progress
			id, err := s.Import(t.Context(), iotest.HalfReader(bytes.NewReader(raw)), image.ImportOptions{
				Repo: "base", Tag: "v1", Message: "from a test",
				Changes: []string{"CMD [\"cat\", \"/etc/motd\"]", "ENV A=1", "LABEL l=1"}, Platform: "linux/arm/7",
			}, func(p image.Progress) { shown = append(shown, p) })
			if err != nil {
				t.Fatalf("Import: %v", err)
			}
			if len(shown) != 1 || shown[0].Status != id {
				t.Errorf("progress = %+v, want the id alone", shown)
			}
			if got := events.take(); got != "tag,import" {
				t.Errorf("events = %q, want tag,import", got)
			}
			img, err := s.Get(t.Context(), "base:v1")
			if err != nil || img.ID != id || img.Comment != "from a test" || strings.Join(img.Config.Cmd, " ") != "cat /etc/motd" ||
				!slices.Equal(img.Config.Env, []string{"A=1"}) || img.EngineVersion != "test" || img.Platform().String() != "linux/arm/v7" {
				t.Errorf("Get = %+v, %v", img, err)
			}
			container := strings.Repeat("a", 64)
			if err := st.Create(t.Context(), container, id); err != nil {
				t.Fatal(err)
			}
			dir, err := st.Mount(t.Context(), container)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "etc/motd")); err != nil || string(got) != "hello" {
				t.Errorf("the file reads %q, %v", got, err)
			}
			if err := st.Remove(t.Context(), container); err != nil {
				t.Error(err)
			}
		})
	}
	list, err := s.List(t.Context(), image.ListOptions{})
	named := 0
	for _, img := range list {
		named += len(img.RepoTags)
	}
	if err != nil || len(list) != 6 || named != 1 {
		t.Errorf("List: %d images with %d names, %v; want 6 images, the last of which has the name", len(list), named, err)
	}
}

func TestImportLeavesNothing(t *testing.T) {
	s, st, events := newService(t, Limits{Free: 4 << 20, Ratio: 100})
	plain := rootfs(t, strings.Repeat("some text that is long enough to be cut anywhere\n", 4000))
	gz, zs, x := compressed(t, plain, toGzip), compressed(t, plain, toZstd), compressed(t, plain, toXZ)
	flipped := bytes.Clone(gz)
	flipped[len(flipped)-5] ^= 1
	bomb := compressed(t, archive(t, file("zeros", 64<<20)), toZstd)
	boom := errors.New("connection reset")
	for _, tc := range []struct {
		name string
		src  io.Reader
		opts image.ImportOptions
		want string // empty: boom
	}{
		{name: "nothing", src: strings.NewReader(""), want: "the archive is empty"},
		{name: "text", src: strings.NewReader(strings.Repeat("hello\n", 1000)), want: "this is not a tar archive"},
		{name: "cut plain", src: bytes.NewReader(plain[:100_000]), want: "unexpected EOF"},
		{name: "cut gzip", src: bytes.NewReader(gz[:len(gz)-4]), want: "unexpected EOF"},
		{name: "cut zstd", src: bytes.NewReader(zs[:len(zs)-20]), want: "unexpected EOF"},
		{name: "cut xz", src: bytes.NewReader(x[:len(x)-40]), want: "unexpected EOF"},
		{name: "cut bzip2", src: bytes.NewReader(bz2(t)[:100]), want: "unexpected EOF"},
		{name: "cut gzip head", src: bytes.NewReader(gz[:5]), want: "unexpected EOF"},
		{name: "damaged gzip", src: bytes.NewReader(flipped), want: "the archive cannot be decompressed"},
		{name: "gzip of text", src: bytes.NewReader(compressed(t, bytes.Repeat([]byte("x"), 5000), toGzip)), want: "this is not a tar archive"},
		{name: "bomb", src: bytes.NewReader(bomb), want: "the archive unpacks to more than 100 times"},
		{name: "out of the root", src: bytes.NewReader(archive(t, file("a", 5), file("../../b", 5))), want: `the name "../../b" leads out`},
		{name: "hang up", src: io.MultiReader(bytes.NewReader(plain[:100_000]), iotest.ErrReader(boom))},
		{name: "hang up in gzip", src: io.MultiReader(bytes.NewReader(gz[:200]), iotest.ErrReader(boom))},
		{name: "hang up at once", src: iotest.ErrReader(boom)},
		{name: "bad name", src: bytes.NewReader(plain), opts: image.ImportOptions{Repo: "Bad"}, want: "invalid reference format"},
		{name: "bad tag", src: bytes.NewReader(plain), opts: image.ImportOptions{Repo: "a", Tag: "b c"}, want: "invalid tag format"},
		{name: "digest", src: bytes.NewReader(plain), opts: image.ImportOptions{Repo: "a", Tag: "sha256:" + strings.Repeat("a", 64)}, want: "cannot import digest"},
		{name: "a name like an id", src: bytes.NewReader(plain), opts: image.ImportOptions{Repo: "sha256", Tag: "abc"}, want: "refusing to create an ambiguous"},
		{name: "tag alone", src: bytes.NewReader(plain), opts: image.ImportOptions{Tag: "t"}, want: `invalid value for tag: "t" has no repo`},
		{name: "no platform", src: bytes.NewReader(plain), opts: image.ImportOptions{Platform: "linux/"}, want: `"linux/" is no platform`},
		{name: "another system", src: bytes.NewReader(plain), opts: image.ImportOptions{Platform: "windows"}, want: `image operating system "windows"`},
		{name: "bad change", src: bytes.NewReader(plain), opts: image.ImportOptions{Changes: []string{"RUN x"}}, want: "RUN is not a valid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := s.Import(t.Context(), tc.src, tc.opts, nil)
			switch {
			case tc.want == "" && (!errors.Is(err, boom) || fault.Is(err, fault.Invalid)):
				t.Errorf("Import = %v, want the source's error", err)
			case tc.want != "" && (!fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), tc.want)):
				t.Errorf("Import = %v, want an invalid fault %q", err, tc.want)
			}
			nothingLeft(t, st)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		src := io.MultiReader(bytes.NewReader(plain[:100_000]), readerFunc(func(p []byte) (int, error) {
			cancel()
			return copy(p, plain[100_000:]), io.EOF
		}))
		if _, err := s.Import(ctx, src, image.ImportOptions{}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Import = %v, want cancelled", err)
		}
		nothingLeft(t, st)
	})
	if got := events.take(); got != "" {
		t.Errorf("events = %q, want none", got)
	}
}

func nothingLeft(t *testing.T, st *storage.Store) {
	t.Helper()
	layers, err := st.Library().Layers()
	if err != nil || len(layers) != 0 {
		t.Errorf("layers left: %v, %v", layers, err)
	}
	images, err := st.List(t.Context())
	if err != nil || len(images) != 0 {
		t.Errorf("images left: %v, %v", images, err)
	}
	err = filepath.WalkDir(filepath.Join(st.Root(), "overlay"), func(path string, _ os.DirEntry, err error) error {
		rest := strings.TrimPrefix(path, filepath.Join(st.Root(), "overlay"))
		if !slices.Contains([]string{"", "/l", "/.has-mount-program", "/tempdirs", "/staging"}, rest) {
			t.Errorf("left on the disk: %s", rest)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestImportNoEntries(t *testing.T) {
	s, _, _ := newService(t, Limits{})
	id, err := s.Import(t.Context(), bytes.NewReader(make([]byte, 10240)), image.ImportOptions{Repo: "scratch-like"}, nil)
	if err != nil || id == "" {
		t.Errorf("Import of an archive without entries = %q, %v", id, err)
	}
}

func TestWindow(t *testing.T) {
	// A zstd frame with a window of 1 GiB: magic, no single segment, window byte, an empty last raw block.
	z := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 20 << 3, 0x01, 0x00, 0x00}
	r, err := compress.Plain(compress.From(bytes.NewReader(z)))
	if err == nil {
		_, err = io.ReadAll(r)
	}
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "window") {
		t.Errorf("zstd with a window of 1 GiB = %v", err)
	}
}

func FuzzDecompress(f *testing.F) {
	plain := rootfs(f, "hello")
	for _, raw := range [][]byte{plain, compressed(f, plain, toGzip), compressed(f, plain, toXZ), compressed(f, plain, toZstd), bz2(f)} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := compress.Plain(compress.From(bytes.NewReader(raw)))
		if err == nil {
			_, err = io.Copy(io.Discard, io.LimitReader(r, 16<<20))
			if cerr := r.Close(); err == nil {
				err = cerr
			}
		}
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%v is no invalid fault", err)
		}
	})
}
