package storage

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/tarfile"
	"moss/engine/tree/treetest"
)

// stepSpec describes the image of a step.
func stepSpec(parent, text string) ImageSpec {
	return ImageSpec{
		Base: parent, Created: time.Now(), CreatedBy: text, OS: "linux", Architecture: "amd64",
		Config: image.Config{Env: []string{"STEP=" + text}}, Step: "sha256:" + sum([]byte(text)),
	}
}

// ran makes a container of an image and has it change its files; it is not mounted afterwards.
func ran(t testing.TB, s *Store, imageID string, change func(dir string)) (containerID string) {
	t.Helper()
	containerID = newID(t)
	if err := s.Create(t.Context(), containerID, imageID); err != nil {
		t.Fatalf("Create: %v", err)
	}
	if err := s.SetVolatile(t.Context(), containerID, true); err != nil {
		t.Fatalf("SetVolatile: %v", err)
	}
	dir, err := s.Mount(t.Context(), containerID)
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	change(dir)
	if err := s.Unmount(t.Context(), containerID); err != nil {
		t.Fatalf("Unmount: %v", err)
	}
	return containerID
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
}

// content returns the archive of the topmost layer of an image, after comparing it with its digest.
func content(t testing.TB, s *Store, img *image.Image) map[string]*tar.Header {
	t.Helper()
	r, err := s.OpenLayer(t.Context(), img.ID, len(img.Layers)-1)
	if err != nil {
		t.Fatalf("OpenLayer: %v", err)
	}
	raw, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatalf("read layer: %v", err)
	}
	if got, want := digest.FromBytes(raw).String(), img.Layers[len(img.Layers)-1]; got != want {
		t.Fatalf("the layer given back has digest %s, want %s", got, want)
	}
	headers := map[string]*tar.Header{}
	for in := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return headers
		}
		must(t, err)
		if headers[h.Name] != nil {
			t.Errorf("%s is in the archive twice", h.Name)
		}
		headers[h.Name] = h
	}
}

// tree returns what is seen in an image: a line for each file.
func treeOf(t testing.TB, s *Store, imageID string) map[string]string {
	t.Helper()
	view, err := s.View(t.Context(), imageID)
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	files := map[string]string{}
	err = filepath.WalkDir(view.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == view.Dir {
			return err
		}
		name, _ := filepath.Rel(view.Dir, path)
		info, err := entry.Info()
		if err != nil {
			return err
		}
		about := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			about += " " + digest.FromBytes(raw).Encoded()[:12]
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			about += " " + target
		}
		files[name] = about
		return nil
	})
	must(t, err, view.Close())
	return files
}

func same(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	for name, about := range want {
		if got[name] != about {
			t.Errorf("%s: %s is %q, want %q", what, name, got[name], about)
		}
	}
	for name, about := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is there: %s", what, name, about)
		}
	}
}

var sealBase = map[string]string{
	"etc/": "", "etc/passwd": "root", "etc/gone": "x", "srv/": "", "srv/deep/": "", "srv/deep/a": "a", "srv/deep/b": "b",
	"swap": "file", "var/": "", "var/lib/": "", "var/lib/x": "x", "run/": "", "keep": "k", "again/": "", "again/old": "o",
}

// changeAll does with files whatever commands do.
func changeAll(t testing.TB, dir string) {
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, dir, "etc/new", strings.Repeat("n", 70_000))
	write(t, dir, "etc/passwd", "root and more")
	must(t, os.Remove(at("etc/gone")), os.RemoveAll(at("srv/deep")), os.Remove(at("swap")))
	must(t, os.Mkdir(at("swap"), 0o711), os.RemoveAll(at("var/lib")))
	write(t, dir, "swap/in", "inside")
	write(t, dir, "var/lib", "a file now")
	must(t, os.RemoveAll(at("again")), os.Mkdir(at("again"), 0o755), os.Mkdir(at("again/sub"), 0o755))
	write(t, dir, "again/new", "n")
	must(t, os.MkdirAll(at("fresh/deep"), 0o755), os.Symlink("/etc/passwd", at("fresh/link")))
	write(t, dir, "fresh/one", "linked")
	must(t, os.Link(at("fresh/one"), at("fresh/deep/two")), os.Link(at("fresh/one"), at("a-three")))
	must(t, unix.Mkfifo(at("fresh/pipe"), 0o640), unix.Chmod(at("keep"), 0o4711))
	must(t, unix.Lsetxattr(at("fresh/one"), "user.colour", []byte("blue\x00green"), 0))
	sparse, err := os.Create(at("fresh/sparse"))
	must(t, err)
	_, err = sparse.WriteAt([]byte("end"), 5<<20)
	must(t, err, sparse.Close())
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	fresh, err := os.Open(at("fresh")) // names of sockets are short
	must(t, err)
	must(t, unix.Bind(socket, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/socket", fresh.Fd())}))
	must(t, fresh.Close(), unix.Close(socket))
	must(t, os.Mkdir(at("fresh/"+strings.Repeat("l", 200)), 0o700))
}

func TestSeal(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		base := put(t, s, sealBase, "base")
		id := ran(t, s, base.ID, func(dir string) { changeAll(t, dir) })
		img, err := s.Seal(t.Context(), id, stepSpec(base.ID, "RUN all"), nil)
		if err != nil {
			t.Fatalf("Seal: %v", err)
		}
		if len(img.Layers) != 2 || img.Parent != base.ID || img.Result || img.Step == "" {
			t.Fatalf("sealed %+v", img)
		}
		headers := content(t, s, img)
		for name, kind := range map[string]byte{
			"etc/.wh.gone": tar.TypeReg, "srv/.wh.deep": tar.TypeReg, "swap/": tar.TypeDir, "swap/in": tar.TypeReg,
			"var/lib": tar.TypeReg, "fresh/link": tar.TypeSymlink, "fresh/pipe": tar.TypeFifo, "fresh/sparse": tar.TypeReg,
			"fresh/deep/two": tar.TypeLink, "keep": tar.TypeReg,
		} {
			h := headers[name]
			if name == "fresh/deep/two" && h == nil || h != nil && h.Typeflag != kind && (h.Typeflag != tar.TypeReg || kind != tar.TypeLink) {
				t.Errorf("%s in the archive: %+v", name, h)
			}
			if h == nil {
				t.Errorf("%s is not in the archive: %v", name, names(headers))
			}
		}
		for name := range headers {
			if strings.Contains(name, "socket") || strings.HasPrefix(name, "fresh/.wh.") {
				t.Errorf("%s is in the archive", name)
			}
		}
		if h := headers["a-three"]; h == nil || h.PAXRecords["SCHILY.xattr.user.colour"] != "blue\x00green" {
			t.Errorf("the attribute of a-three: %+v", h)
		}
		want := treeOf(t, s, img.ID)
		for _, name := range []string{"etc/gone", "srv/deep", "again/old", "fresh/socket", "var/lib/x"} {
			if want[name] != "" {
				t.Errorf("%s is seen in the image: %s", name, want[name])
			}
		}
		if want["again/new"] == "" || want["swap/in"] == "" || want["keep"][:10] != "urwx--x--x" {
			t.Errorf("the image has %v", want)
		}
		// What others unpack of the archive is what is seen here.
		r, err := s.OpenLayer(t.Context(), img.ID, 1)
		must(t, err)
		other := put(t, s, sealBase2())
		copied, err := s.PutImage(t.Context(), r, ImageSpec{Base: other.ID, OS: "linux"}, nil)
		must(t, err, r.Close())
		unpacked := treeOf(t, s, copied.ID)
		delete(unpacked, "zz")
		same(t, "unpacked", unpacked, want)
		if err := s.Remove(t.Context(), id); err != nil {
			t.Errorf("Remove: %v", err)
		}
		same(t, "after the container", treeOf(t, s, img.ID), want)
	})
}

// sealBase2 is sealBase in another layer.
func sealBase2() map[string]string {
	files := maps.Clone(sealBase)
	files["zz"] = ""
	return files
}

func names(headers map[string]*tar.Header) []string {
	list := make([]string, 0, len(headers))
	for name := range headers {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func TestSealNothing(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		base := put(t, s, map[string]string{"etc/": "", "etc/hosts": "x", "var/": ""}, "base")
		records, folders := layers(t, s)
		id := ran(t, s, base.ID, func(string) {})
		img, err := s.Seal(t.Context(), id, stepSpec(base.ID, "RUN true"), nil)
		if err != nil || !slices.Equal(img.Layers, base.Layers) {
			t.Fatalf("Seal = %+v, %v, want the layers %v", img, err, base.Layers)
		}
		must(t, s.Remove(t.Context(), id))
		if r, f := layers(t, s); r != records || f != folders {
			t.Errorf("%d layers, %d folders, want %d and %d", r, f, records, folders)
		}
		history, _, err := s.History(t.Context(), img.ID)
		if err != nil || len(history) != 2 || !history[1].EmptyLayer || history[1].CreatedBy != "RUN true" {
			t.Errorf("history %+v, %v", history, err)
		}
	})
}

// TestSealDeep archives folders as deep as a layer may have them, with few files open, and one deeper.
func TestSealDeep(t *testing.T) {
	own, deep := t.TempDir(), strings.Repeat("d/", tarfile.MaxDepth)
	must(t, os.MkdirAll(filepath.Join(own, deep), 0o755), os.WriteFile(filepath.Join(own, deep, "f"), nil, 0o644))
	ctx := treetest.Watch(t)
	must(t, writeFolder(ctx, io.Discard, own, nil))
	ctx.Check()
	must(t, os.Mkdir(filepath.Join(own, deep, "d"), 0o755))
	if err := writeFolder(t.Context(), io.Discard, own, nil); !fault.Is(err, fault.Invalid) || len(err.Error()) > 1000 {
		t.Errorf("writeFolder = %.300v, want fault.Invalid in short", err)
	}
}

// TestSealMountPoints seals a layer in which a runtime made mount points.
func TestSealMountPoints(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		base, err := s.PutImage(t.Context(), bytes.NewReader(entries(t,
			folder("etc/"), folder("run/"), link(tar.TypeSymlink, "var-run", "/run"), folder("data/"), file("data/f", "x"),
		)), ImageSpec{OS: "linux"}, nil)
		must(t, err)
		id := ran(t, s, base.ID, func(dir string) {
			write(t, dir, "etc/hosts", "")
			write(t, dir, "etc/resolv.conf", "")
			must(t, os.MkdirAll(filepath.Join(dir, "cache/deep"), 0o755), os.Mkdir(filepath.Join(dir, "run/secrets"), 0o755))
			write(t, dir, "run/secrets/one", "")
			write(t, dir, "data/new", "real")
			must(t, os.Mkdir(filepath.Join(dir, "data/mnt"), 0o755))
			must(t, os.MkdirAll(filepath.Join(dir, "full/mnt"), 0o755))
			write(t, dir, "full/mnt/file", "")
		})
		img, err := s.Seal(t.Context(), id, stepSpec(base.ID, "RUN mounts"), []string{
			"/etc/hosts", "/etc/resolv.conf", "/cache/deep", "/var-run/secrets/one", "/data/mnt", "/full/mnt", "/proc",
		})
		if err != nil {
			t.Fatalf("Seal: %v", err)
		}
		want := []string{"data/", "data/new", "full/", "full/mnt/", "full/mnt/file"}
		slices.Sort(want)
		if got := names(content(t, s, img)); !slices.Equal(got, want) {
			t.Errorf("the layer has %v, want %v", got, want)
		}
		got := treeOf(t, s, img.ID)
		for _, name := range []string{"etc/hosts", "cache", "run/secrets", "data/mnt"} {
			if got[name] != "" {
				t.Errorf("%s is left: %s", name, got[name])
			}
		}
	})
}

func TestSealRefused(t *testing.T) {
	s := openTemp(t, driverOverlay)
	base := put(t, s, map[string]string{"a": "1"}, "base")
	other := put(t, s, map[string]string{"a": "2"}, "other")
	id := ran(t, s, base.ID, func(dir string) { write(t, dir, "b", "b") })
	for name, tc := range map[string]struct {
		container, parent string
		kind              fault.Constructor
	}{
		"no such container": {newID(t), base.ID, fault.NotFound},
		"no such parent":    {id, "sha256:" + newID(t), fault.NotFound},
		"another parent":    {id, other.ID, fault.Conflict},
		"not an id":         {"x", base.ID, fault.Invalid},
	} {
		if _, err := s.Seal(t.Context(), tc.container, stepSpec(tc.parent, name), nil); !fault.Is(err, tc.kind) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Seal(gone, id, stepSpec(base.ID, "late"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	img, err := s.Seal(t.Context(), id, stepSpec(base.ID, "RUN b"), nil)
	if err != nil || treeOf(t, s, img.ID)["b"] == "" {
		t.Fatalf("Seal after all that = %v, %v", img, err)
	}
	// The container has an empty layer now, which can be mounted and goes as any other.
	dir, err := s.Mount(t.Context(), id)
	must(t, err)
	if _, err := os.Stat(filepath.Join(dir, "b")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the container still has what it wrote: %v", err)
	}
	must(t, s.Remove(t.Context(), id))

	id = ran(t, s, base.ID, func(dir string) { write(t, dir, ".wh.real", "b") })
	if _, err := s.Seal(t.Context(), id, stepSpec(base.ID, "RUN wh"), nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("a file .wh.real: %v, want fault.Invalid", err)
	}
	must(t, s.Remove(t.Context(), id))
	layers(t, s) // nothing is left in the staging folder
}

// TestSealTheRoot changes the root folder itself.
func TestSealTheRoot(t *testing.T) {
	s := openTemp(t, driverOverlay)
	base := put(t, s, map[string]string{"a": "1"}, "base")
	id := ran(t, s, base.ID, func(dir string) { must(t, os.Chmod(dir, 0o700)) })
	img, err := s.Seal(t.Context(), id, stepSpec(base.ID, "RUN chmod"), nil)
	must(t, err)
	if h := content(t, s, img)["./"]; h == nil || h.Mode != 0o700 {
		t.Errorf("the root folder in the archive: %+v", h)
	}
	next := ran(t, s, img.ID, func(dir string) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the root folder of the next step: %v, %v", info.Mode(), err)
		}
		write(t, dir, "b", "")
	})
	if img, err = s.Seal(t.Context(), next, stepSpec(img.ID, "RUN b"), nil); err != nil {
		t.Fatal(err)
	}
	if got := names(content(t, s, img)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the next layer has %v, want b alone", got)
	}
}
