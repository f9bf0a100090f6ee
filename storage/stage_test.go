package storage

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/image"
)

// entries makes an archive of entries; a body is given by Linkname for regular files.
func entries(t testing.TB, list ...*tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range list {
		body := ""
		if h.Typeflag == tar.TypeReg {
			body, h.Linkname = h.Linkname, ""
			h.Size = int64(len(body))
		}
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func file(name, body string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: tar.TypeReg, Linkname: body, ModTime: time.Unix(1e9, 0)}
}

func folder(name string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: tar.TypeDir, ModTime: time.Unix(1e9, 0)}
}

func link(kind byte, name, target string) *tar.Header {
	return &tar.Header{Name: name, Typeflag: kind, Linkname: target}
}

func stage(t testing.TB, s *Store, plain []byte) *Staged {
	t.Helper()
	staged, err := s.Stage(t.Context(), bytes.NewReader(plain), Blob{
		Digest: digest.FromString("compressed " + digest.FromBytes(plain).String()), Size: int64(len(plain)), // as pulled has it
	})
	if err != nil {
		t.Fatalf("Stage: %v", err)
	}
	if got, want := staged.DiffID(), digest.FromBytes(plain); got != want {
		t.Errorf("Stage: diff id %s, want %s", got, want)
	}
	return staged
}

// pulled makes what PutPulled takes of plain archives. seed tells images of the same layers apart.
func pulled(t testing.TB, seed string, names []string, plain ...[]byte) Pulled {
	t.Helper()
	p := Pulled{Names: names, Layers: make([]*Staged, len(plain))}
	m := manifest{
		SchemaVersion: 2, MediaType: mediaTypeManifest, Layers: []descriptor{},
		Config: descriptor{MediaType: mediaTypeConfig},
	}
	for i, layer := range plain {
		p.DiffIDs = append(p.DiffIDs, digest.FromBytes(layer))
		m.Layers = append(m.Layers, descriptor{
			MediaType: mediaTypeLayer + ".gzip", Size: int64(1000 + i), Digest: digest.FromString("compressed " + string(p.DiffIDs[i])),
		})
	}
	var err error
	if p.Config, err = json.Marshal(imageJSON{
		Architecture: "amd64", OS: "linux", Created: time.Unix(1.1e9, 0).UTC(), Comment: seed, Config: image.Config{Cmd: []string{"sh"}},
		History: []History{{CreatedBy: seed}}, RootFS: rootFS{Type: "layers", DiffIDs: p.DiffIDs},
	}); err != nil {
		t.Fatal(err)
	}
	m.Config.Size, m.Config.Digest = int64(len(p.Config)), digest.FromBytes(p.Config)
	p.Manifest.MediaType = mediaTypeManifest
	if p.Manifest.Raw, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	return p
}

// pull stages what is not here and puts the image, as the service does.
func pull(t testing.TB, s *Store, seed string, names []string, plain ...[]byte) (*image.Image, error) {
	t.Helper()
	p := pulled(t, seed, names, plain...)
	for i := s.Here(p.DiffIDs); i < len(plain); i++ {
		p.Layers[i] = stage(t, s, plain[i])
	}
	return s.PutPulled(t.Context(), p)
}

func mustPull(t testing.TB, s *Store, seed string, names []string, plain ...[]byte) *image.Image {
	t.Helper()
	img, err := pull(t, s, seed, names, plain...)
	if err != nil {
		t.Fatalf("PutPulled: %v", err)
	}
	return img
}

func checkLayer(t testing.TB, s *Store, imageID string, index int, want []byte) {
	t.Helper()
	r, err := s.OpenLayer(t.Context(), imageID, index)
	if err != nil {
		t.Fatalf("OpenLayer(%d): %v", index, err)
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatalf("read layer %d: %v", index, err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("layer %d has %d bytes of digest %s, want %d of %s", index, len(got), digest.FromBytes(got), len(want), digest.FromBytes(want))
	}
}

func nothingLeft(t *testing.T, s *Store) {
	t.Helper()
	records, folders := layers(t, s)
	if list, err := s.List(t.Context()); err != nil || len(list) != 0 || records != 0 || folders != 0 {
		t.Errorf("left: %d records, %d folders, images %v, %v", records, folders, list, err)
	}
	if left, err := readDir(filepath.Join(s.root, stagedFolder)); err != nil || len(left) != 0 {
		t.Errorf("left in %s: %v, %v", stagedFolder, left, err)
	}
}

func TestStageAndPut(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		lower := entries(t, folder("etc/"), file("etc/a", "lower a"), file("etc/b", "lower b"), folder("var/"), file("var/old", "x"))
		upper := entries(t, file("etc/.wh.b", ""), file("etc/c", "upper c"), folder("var/"), file("var/.wh..wh..opq", ""), file("var/new", "y"))
		img := mustPull(t, s, "one", []string{"r/one:1"}, lower, upper)
		if img.Size != int64(len(lower)+len(upper)) || !slices.Equal(img.RepoTags, []string{"r/one:1"}) || !img.Created.Equal(time.Unix(1.1e9, 0)) {
			t.Errorf("PutPulled = %+v", img)
		}
		checkLayer(t, s, img.ID, 0, lower)
		checkLayer(t, s, img.ID, 1, upper)
		id := newID(t)
		if err := s.Create(ctx, id, img.ID); err != nil {
			t.Fatal(err)
		}
		dir, err := s.Mount(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"etc/a": "lower a", "etc/c": "upper c", "var/new": "y", "etc/b": "-", "var/old": "-"} {
			got, err := os.ReadFile(filepath.Join(dir, name))
			if want == "-" {
				if !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s: %q, %v; want none", name, got, err)
				}
			} else if err != nil || string(got) != want {
				t.Errorf("%s = %q, %v; want %q", name, got, err, want)
			}
		}
		if err := s.Remove(ctx, id); err != nil {
			t.Fatal(err)
		}
		if n := s.Here([]digest.Digest{digest.FromBytes(lower), digest.FromBytes(upper)}); n != 2 {
			t.Errorf("Here = %d, want 2", n)
		}
		if gone, err := s.Delete(ctx, img); err != nil || len(gone) != 2 {
			t.Errorf("Delete = %v, %v; want two layers", gone, err)
		}
		nothingLeft(t, s)
	})
}

func TestStagedFiles(t *testing.T) {
	s := openTemp(t, "")
	plain := entries(t,
		&tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o1751, PAXRecords: map[string]string{"SCHILY.xattr.user.root": "r"}},
		&tar.Header{Name: "suid", Typeflag: tar.TypeReg, Linkname: "#!", Mode: 0o4755},
		&tar.Header{Name: "x", Typeflag: tar.TypeReg, Linkname: "x", Uid: 1000, Gid: 7, PAXRecords: map[string]string{"SCHILY.xattr.user.moss": "v"}},
		link(tar.TypeLink, "hard", "x"), link(tar.TypeSymlink, "soft", "x"),
		&tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
		&tar.Header{Name: "disk", Typeflag: tar.TypeBlock, Devmajor: 8},
		&tar.Header{Name: "pipe", Typeflag: tar.TypeFifo, Mode: 0o622},
		folder("closed/"), file("deep/er/file", "no parents"),
		link(tar.TypeSymlink, "out", "/"), file("out/inside", "1"), link(tar.TypeSymlink, "up", "../../../../.."), file("up/inside2", "2"),
	)
	img := mustPull(t, s, "files", nil, plain)
	checkLayer(t, s, img.ID, 0, plain)
	dir := s.layerFolder(img.TopLayer)
	stat := func(name string) (st unix.Stat_t) {
		if err := unix.Lstat(filepath.Join(dir, name), &st); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return st
	}
	if st := stat(""); st.Mode&0o7777 != 0o1751 {
		t.Errorf("mode of the root folder = %o, want 1751", st.Mode&0o7777)
	}
	if st := stat("suid"); st.Mode&0o7777 != 0o4755 {
		t.Errorf("mode of suid = %o, want 4755", st.Mode&0o7777)
	}
	if a, b := stat("x"), stat("hard"); a.Ino != b.Ino || a.Nlink != 2 || a.Uid != 0 {
		t.Errorf("x and hard: inodes %d %d, links %d, owner %d; want one file of ours", a.Ino, b.Ino, a.Nlink, a.Uid)
	}
	if target, err := os.Readlink(filepath.Join(dir, "soft")); err != nil || target != "x" {
		t.Errorf("soft -> %s, %v", target, err)
	}
	for name, key := range map[string]string{"": "user.root", "x": "user.moss"} {
		if n, err := unix.Lgetxattr(filepath.Join(dir, name), key, make([]byte, 10)); err != nil || n != 1 {
			t.Errorf("xattr %s of %q: %d bytes, %v", key, name, n, err)
		}
	}
	if st := stat("pipe"); st.Mode != unix.S_IFIFO|0o622 {
		t.Errorf("mode of pipe = %o", st.Mode)
	}
	for _, name := range []string{"null", "disk"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, want no device", name, err)
		}
	}
	for name, want := range map[string]string{"inside": "1", "inside2": "2", "deep/er/file": "no parents"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q, inside the layer", name, got, err, want)
		}
	}
	for _, name := range []string{"/inside", "/inside2"} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s was made outside of the layer", name)
		}
	}
	// Without an entry of its own, a layer's root folder is like the one below.
	img = mustPull(t, s, "over it", nil, plain, entries(t, file("y", "y")))
	dir = s.layerFolder(img.TopLayer)
	if st := stat(""); st.Mode&0o7777 != 0o1751 {
		t.Errorf("mode of the upper root folder = %o, want 1751", st.Mode&0o7777)
	}
	img = mustPull(t, s, "alone", nil, entries(t, file("y", "y")))
	dir = s.layerFolder(img.TopLayer)
	if st := stat(""); st.Mode&0o7777 != 0o755 {
		t.Errorf("mode of a root folder of its own = %o, want 755", st.Mode&0o7777)
	}
}

func TestStageErrors(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		whole := tarball(t, map[string]string{"a": strings.Repeat("a", 2e6), "b": strings.Repeat("b", 2e6)})
		boom := errors.New("boom")
		ctx, cancel := context.WithCancel(t.Context())
		for name, tc := range map[string]struct {
			src  io.Reader
			want func(error) bool
		}{
			"the source fails":    {&broken{data: whole[:3e6], err: boom}, func(err error) bool { return err == boom }}, //nolint:errorlint // it comes as it is
			"it fails at the end": {&broken{data: slices.Clone(whole), err: boom}, func(err error) bool { return errors.Is(err, boom) }},
			"cancelled": {io.MultiReader(bytes.NewReader(whole[:3e6]), readerFunc(func([]byte) (int, error) {
				cancel()
				return 0, nil
			}), bytes.NewReader(whole[3e6:])), func(err error) bool { return errors.Is(err, context.Canceled) }},
			"truncated":      {bytes.NewReader(whole[:3e6]), func(err error) bool { return fault.Is(err, fault.Invalid) }},
			"no archive":     {strings.NewReader(strings.Repeat("no archive ", 100)), func(err error) bool { return fault.Is(err, fault.Invalid) }},
			"twice the same": {bytes.NewReader(entries(t, file("a", "1"), file("a", "2"))), func(err error) bool { return fault.Is(err, fault.Invalid) }},
			"parent is a file": {bytes.NewReader(entries(t, file("a", "1"), file("a/b", "2"))), func(err error) bool {
				return fault.Is(err, fault.Invalid) || s.choice.driver == driverVFS // found when it is put
			}},
		} {
			t.Run(name, func(t *testing.T) {
				c := t.Context()
				if name == "cancelled" {
					c = ctx
				}
				staged, err := s.Stage(c, tc.src, Blob{Size: -1})
				if !tc.want(err) {
					t.Errorf("Stage: %v", err)
				}
				if staged != nil {
					if err := staged.Discard(); err != nil {
						t.Error(err)
					}
				}
				nothingLeft(t, s)
			})
		}
		if _, err := s.Stage(t.Context(), nil, Blob{Digest: "../x"}); !fault.Is(err, fault.Invalid) {
			t.Errorf("Stage of a bad digest: %v", err)
		}
	})
}

func TestStageMany(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		plain := make([][]byte, 0, 12)
		for i := range 12 {
			plain = append(plain, tarball(t, map[string]string{"same": strconv.Itoa(i), fmt.Sprintf("own%d", i): strings.Repeat("x", 300_000+i)}))
		}
		p := pulled(t, "many", []string{"many"}, plain...)
		var all sync.WaitGroup
		for i := range plain {
			all.Go(func() {
				staged, err := s.Stage(t.Context(), bytes.NewReader(plain[i]), Blob{Size: -1})
				if err != nil {
					t.Errorf("Stage %d: %v", i, err)
				}
				p.Layers[i] = staged
			})
		}
		all.Wait()
		img, err := s.PutPulled(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for i := range plain {
			checkLayer(t, s, img.ID, i, plain[i])
		}
		if err := p.Layers[3].Discard(); err != nil {
			t.Errorf("Discard after PutPulled: %v", err)
		}
	})
}

// TestStageMemory stages six layers at once and looks at what that takes.
func TestStageMemory(t *testing.T) {
	s := openTemp(t, "")
	body := noise(1, 1<<20)
	list := make([]*tar.Header, 0, 30)
	for i := range 30 {
		list = append(list, file(fmt.Sprintf("f%d", i), body))
	}
	plain := entries(t, list...)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most uint64
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			src := bytes.NewReader(plain)
			staged, err := s.Stage(t.Context(), readerFunc(func(p []byte) (int, error) { return src.Read(p) }), Blob{Size: -1})
			if err != nil {
				t.Errorf("Stage: %v", err)
				return
			}
			if err := staged.Discard(); err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(5 * time.Millisecond):
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse)
		}
	}
	const limit = 40 << 20
	if most > before.HeapInuse+limit {
		t.Errorf("six layers took %d MiB, want less than %d", (most-before.HeapInuse)>>20, limit>>20)
	}
	t.Logf("%d MiB", (int64(most)-int64(before.HeapInuse))>>20)
	nothingLeft(t, s)
}
