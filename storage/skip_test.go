package storage

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moss/engine/container"
)

// TestMountPointsAreNoChanges makes what a runtime makes to mount over it, beside what a container really did.
func TestMountPointsAreNoChanges(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		img := put(t, s, map[string]string{"etc/": "", "etc/old": "1", "opt/": "", "var/": "", "srv/": ""}, "base")
		id := newID(t)
		if err := s.Create(ctx, id, img.ID); err != nil {
			t.Fatal(err)
		}
		dir, err := s.Mount(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Remove(ctx, id) //nolint:errcheck // the test has failed or is over
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		at := func(name string) string { return filepath.Join(dir, name) }
		check(os.WriteFile(at("etc/hosts"), nil, 0o644))
		check(os.WriteFile(at("etc/hostname"), []byte("its own"), 0o644))
		check(os.MkdirAll(at("proc"), 0o755))
		check(os.MkdirAll(at("data/deep/point"), 0o755))
		check(os.MkdirAll(at("opt/point"), 0o755))
		check(os.Chmod(at("opt"), 0o700))
		check(os.MkdirAll(at("mnt/point"), 0o755))
		check(os.WriteFile(at("mnt/kept"), nil, 0o644))
		check(os.WriteFile(at("srv/hidden"), nil, 0o644))
		check(os.Symlink("/srv", at("link")))
		skip := []string{
			"/etc/hosts", "/etc/hostname", "/proc", "/data/deep/point", "/opt/point", "/mnt/point", "/link/hidden", "/none", "/var",
		}
		want := []container.Change{
			{Path: "/etc", Kind: container.ChangeModified}, {Path: "/etc/hostname", Kind: container.ChangeAdded}, {Path: "/link", Kind: container.ChangeAdded}, {Path: "/mnt", Kind: container.ChangeAdded}, {Path: "/mnt/kept", Kind: container.ChangeAdded}, {Path: "/opt", Kind: container.ChangeModified},
		}
		got, err := s.Changes(ctx, id, skip)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Changes = %v, %v, want %v", got, err, want)
		}
		if all, err := s.Changes(ctx, id, nil); err != nil || len(all) != 15 {
			t.Errorf("Changes without skip = %v, %v, want 15", all, err)
		}
		names := diffNames(t, s, id, skip)
		wantNames := []string{"/etc", "/etc/hostname", "/link", "/mnt", "/mnt/kept", "/opt"}
		if !slices.Equal(names, wantNames) {
			t.Errorf("Diff holds %q, want %q", names, wantNames)
		}
		check(os.Remove(at("etc/hostname")))
		got, err = s.Changes(ctx, id, skip)
		if err != nil || slices.ContainsFunc(got, func(c container.Change) bool { return strings.HasPrefix(c.Path, "/etc") }) {
			t.Errorf("Changes = %v, %v, want /etc left out: only a mount point was made in it", got, err)
		}
	})
}

// TestDiffClosedEarly ends an archive before its end: nothing may be left of it.
func TestDiffClosedEarly(t *testing.T) {
	s := openTemp(t, driverVFS)
	ctx := t.Context()
	img := put(t, s, map[string]string{"etc/": ""}, "base")
	id := newID(t)
	if err := s.Create(ctx, id, img.ID); err != nil {
		t.Fatal(err)
	}
	dir, err := s.Mount(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "proc"), 0o755),
		os.WriteFile(filepath.Join(dir, "big"), make([]byte, 4<<20), 0o644)); err != nil {
		t.Fatal(err)
	}
	diff, err := s.Diff(ctx, id, []string{"/proc"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(diff, make([]byte, 512)); err != nil {
		t.Error(err)
	}
	if err := diff.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Remove(ctx, id); err != nil {
		t.Errorf("Remove after a diff that was closed early: %v", err)
	}
}

func diffNames(t *testing.T, s *Store, id string, skip []string) []string {
	t.Helper()
	diff, err := s.Diff(t.Context(), id, skip)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(diff); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if name := path.Clean("/" + h.Name); name != "/" {
			names = append(names, name)
		}
	}
	if err := diff.Close(); err != nil {
		t.Error(err)
	}
	slices.Sort(names)
	return names
}
