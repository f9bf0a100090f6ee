package storage

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/image"
)

func newID(t testing.TB) string {
	t.Helper()
	var raw [32]byte
	if _, err := rand.Read(raw[:]); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(raw[:])
}

func open(t testing.TB, root, driver string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Root: root, RunRoot: filepath.Join(root, "run"), Driver: driver, SingleID: true})
	if err != nil {
		t.Fatalf("Open(%s): %v", driver, err)
	}
	return s
}

func openTemp(t testing.TB, driver string) *Store {
	t.Helper()
	root := t.TempDir()
	run := filepath.Join(root, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", run, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	s := open(t, root, driver)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := unix.Unmount(run, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return s
}

func tarball(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		h := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name])), Typeflag: tar.TypeReg, Uid: 1000, Gid: 5}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func put(t testing.TB, s *Store, files map[string]string, names ...string) *image.Image {
	t.Helper()
	img, err := s.PutImage(t.Context(), bytes.NewReader(tarball(t, files)), ImageSpec{
		Architecture: "amd64", OS: "linux", Comment: "made by a test", Created: time.Now(),
		Config: image.Config{Cmd: []string{"sh"}, Env: []string{"A=1"}},
	}, names)
	if err != nil {
		t.Fatalf("PutImage: %v", err)
	}
	return img
}

// seen is an image as it is now.
func seen(t testing.TB, s *Store, img *image.Image) *image.Image {
	t.Helper()
	now, err := s.Get(t.Context(), img.ID)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return now
}

func eachDriver(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	const aloneVar = "MOSS_TEST_ALONE"
	for _, driver := range []string{driverOverlay, driverFuse, driverVFS} {
		t.Run(driver, func(t *testing.T) {
			if driver == driverFuse && os.Getenv(aloneVar) == "" {
				dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
				if err != nil {
					t.Skipf("needs fuse-overlayfs and /dev/fuse for everyone (chmod 666 /dev/fuse): %v", err)
				}
				if err := dev.Close(); err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+strings.Replace(t.Name(), "/", "$/^", 1)+"$")
				cmd.Env = append(os.Environ(), aloneVar+"=1")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
				return
			}
			test(t, openTemp(t, driver))
		})
	}
}

func layers(t *testing.T, s *Store) (records, folders int) {
	t.Helper()
	all, err := s.cs.Layers()
	if err != nil {
		t.Fatal(err)
	}
	driver, err := s.cs.GraphDriver()
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := driver.ListLayers()
	if err != nil {
		t.Fatal(err)
	}
	for _, temp := range []string{"overlay/tempdirs", "overlay-layers/tmp", "overlay/staging"} {
		left, err := os.ReadDir(filepath.Join(s.root, temp))
		if err == nil && len(left) > 0 {
			t.Errorf("left in %s: %v", temp, left)
		}
	}
	return len(all) + len(s.containers.allParents()), len(dirs)
}
