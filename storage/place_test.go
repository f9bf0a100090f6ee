package storage

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
)

// TestPlaceWithoutOwners: the tests' user namespace has one id, so that no file can be given to another. A store that is not
// told so finds it out.
func TestPlaceWithoutOwners(t *testing.T) {
	root := t.TempDir()
	found, err := tryPlace(root, false)
	if err != nil || found.owners == nil || found.modes != nil || len(found.listWarnings()) != 1 {
		t.Errorf("tryPlace = %v, %v, want owners refused alone", found, err)
	}
	if found, err := tryPlace(root, true); err != nil || found != (place{}) {
		t.Errorf("tryPlace with one id = %v, %v, want nothing refused", found, err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) != 0 {
		t.Errorf("the trial left %v, %v", left, err)
	}

	s, err := Open(t.Context(), Options{Root: root, RunRoot: filepath.Join(root, "run")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // of no use afterwards
	if got := strings.Join(s.Warnings(), " "); !strings.Contains(got, "gives files to no other user") {
		t.Errorf("Warnings() = %q", got)
	}
	staged, err := s.Stage(t.Context(), bytes.NewReader(tarball(t, map[string]string{"f": "theirs"})), Blob{}) // of user 1000
	if err != nil {
		t.Fatalf("Stage: %v", err)
	}
	if err := staged.Discard(); err != nil {
		t.Error(err)
	}
	err = s.CreateMapped(t.Context(), newID(t), newID(t), container.KeepID(1000, 1000, 65536, 65536))
	if !fault.Is(err, fault.Unsupported) {
		t.Errorf("CreateMapped = %v, want fault.Unsupported", err)
	}
}

func TestRefusal(t *testing.T) {
	for _, err := range []error{nil, unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS} {
		if got := refusalOf(err); got != nil {
			t.Errorf("refusal(%v) = %v", err, got)
		}
	}
	if got := refusalOf(&os.PathError{Op: "chown", Path: "f", Err: unix.EPERM}); !errors.Is(got, unix.EPERM) {
		t.Errorf("refusal of EPERM = %v", got)
	}
}

// TestOpenToRoot: only modes change, and only those that keep an owner out.
func TestOpenToRoot(t *testing.T) {
	headers := []*tar.Header{
		{Name: "ro/", Typeflag: tar.TypeDir, Mode: 0o555, Uid: 5},
		{Name: "ro/none", Typeflag: tar.TypeReg, Mode: 0, Size: 3, PAXRecords: map[string]string{"SCHILY.xattr.user.x": "y"}},
		{Name: "ro/run", Typeflag: tar.TypeReg, Mode: 0o4755},
		{Name: "ro/link", Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("x", 200), Mode: 0o777},
	}
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	for _, h := range headers {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, stop := rewriteArchive(&plain, openToRoot)
	defer stop()
	in := tar.NewReader(r)
	for i, mode := range []int64{0o755, 0o600, 0o4755, 0o777} {
		h, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		want := headers[i]
		if h.Mode != mode || h.Name != want.Name || h.Linkname != want.Linkname || h.Size != want.Size || h.Uid != want.Uid ||
			len(h.PAXRecords) < len(want.PAXRecords) {
			t.Errorf("got %+v, want %+v with mode %o", h, want, mode)
		}
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}

	r, stop = rewriteArchive(strings.NewReader(strings.Repeat("x", 1024)), openToRoot)
	defer stop()
	if _, err := io.Copy(io.Discard, r); err == nil {
		t.Error("what is no archive gives no error")
	}
}

// TestSweepTrials: what a killed opening has left of its trials goes, with whatever modes, and nothing else.
func TestSweepTrials(t *testing.T) {
	root := t.TempDir()
	kept := []string{"overlay/l", "overlay/staging", "overlay/tempdirs", "overlay/" + newID(t), "overlay-layers"}
	const mounted = "overlay/volatile-check4/merged"
	gone := []string{
		"overlay/compat12/work/work", "overlay/metacopy-check3/l1", mounted, "moss-trial12/folder", "fuse-trial1/work",
	}
	for _, dir := range append(kept, gone...) {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	point := filepath.Join(root, mounted)
	if err := unix.Mount("tmpfs", point, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) }) // it should not be there any more
	for _, dir := range gone {
		if err := os.Chmod(filepath.Join(root, dir), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sweepLeftovers(root); err != nil {
		t.Fatal(err)
	}
	for _, dir := range kept {
		if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
			t.Error(err)
		}
	}
	for _, dir := range gone {
		top := filepath.Join(root, dir)
		for name := filepath.Base(top); !strings.ContainsAny(name, "0123456789"); name = filepath.Base(top) {
			top = filepath.Dir(top)
		}
		if _, err := os.Stat(top); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there still: %v", top, err)
		}
	}
}
