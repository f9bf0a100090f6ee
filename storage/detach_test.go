package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// TestDetach detaches a mounted layer: what is open goes on, and the next Mount is of the same file system.
func TestDetach(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		img := put(t, s, map[string]string{"etc/": "", "etc/motd": "hello"}, "base")
		id := newID(t)
		if err := s.Create(ctx, id, img.ID); err != nil {
			t.Fatal(err)
		}
		if err := s.Detach(ctx, id); err != nil {
			t.Errorf("Detach of a layer that is not mounted: %v", err)
		}
		dir, err := s.Mount(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		device := deviceOf(t, dir)
		for range 2 { // mounts again what the first round has unmounted
			for range 2 {
				if err := s.Detach(ctx, id); err != nil {
					t.Fatalf("Detach: %v", err)
				}
			}
			if s.choice.driver == driverOverlay && s.mountedAt(id) != "" {
				t.Error("the layer is mounted after Detach")
			}
			again, err := s.Mount(ctx, id)
			if err != nil || again != dir || deviceOf(t, again) != device {
				t.Errorf("Mount of a detached layer = %q, %v, or of another file system", again, err)
			}
		}
		if err := s.Detach(ctx, id); err != nil {
			t.Fatal(err)
		}
		checkUnmounts(t, s, id)
		if err := s.Remove(ctx, id); err != nil {
			t.Fatal(err)
		}
	})
}

func deviceOf(t *testing.T, dir string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	return st.Dev
}

// checkUnmounts looks that nothing is left of a layer's mount after Unmount, and that it can be mounted anew.
func checkUnmounts(t *testing.T, s *Store, id string) {
	t.Helper()
	if err := s.Unmount(t.Context(), id); err != nil {
		t.Fatalf("Unmount: %v", err)
	}
	if len(s.detached) != 0 || s.mountedAt(id) != "" {
		t.Errorf("after Unmount: %d handles, mounted at %q", len(s.detached), s.mountedAt(id))
	}
	dir, err := s.Mount(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "etc/new"), nil, 0o600); err != nil {
		t.Error(err)
	}
}

// TestReclaimOfAnotherRoot names a process whose root is no layer: the layer is not mounted until it is let go.
func TestReclaimOfAnotherRoot(t *testing.T) {
	s := openTemp(t, driverOverlay)
	img := put(t, s, map[string]string{"etc/": ""}, "base")
	id := newID(t)
	if err := s.Create(t.Context(), id, img.ID); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{os.Getpid(), 1 << 30} {
		if err := s.Reclaim(t.Context(), id, pid); err == nil {
			t.Errorf("Reclaim of the root of process %d succeeded", pid)
		}
		if _, err := s.Mount(t.Context(), id); !fault.Is(err, fault.Conflict) {
			t.Errorf("Mount after that = %v, want a conflict", err)
		}
	}
	checkUnmounts(t, s, id)
	if err := s.Reclaim(t.Context(), id, os.Getpid()); err != nil {
		t.Errorf("Reclaim of a mounted layer: %v", err)
	}
	if err := errors.Join(s.Unmount(t.Context(), id), s.Remove(t.Context(), id)); err != nil {
		t.Error(err)
	}
}

var (
	layerName = strings.Repeat("a1", 32)
	layerLine = "36 35 0:54 / / rw,relatime shared:1 - overlay none rw,lowerdir=/l/A:/l/B,upperdir=/s/overlay/" +
		layerName + "/diff,workdir=/s/w,userxattr\n"
)

func TestIsLayer(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want bool
	}{
		"layer":            {layerLine, true},
		"after others":     {"40 36 0:5 / /proc rw - proc none rw\n" + layerLine, true},
		"relative":         {strings.Replace(layerLine, "/s/overlay/", "", 1), true},
		"of another":       {strings.Replace(layerLine, "a1", "b2", 1), false},
		"a folder of it":   {strings.Replace(layerLine, " / / ", " /etc / ", 1), false},
		"elsewhere":        {strings.Replace(layerLine, " / / ", " / /mnt ", 1), false},
		"no overlay":       {strings.Replace(layerLine, "- overlay", "- tmpfs", 1), false},
		"no upper":         {strings.Replace(layerLine, "upperdir", "lowerdir+", 1), false},
		"a name within":    {strings.Replace(layerLine, "/s/overlay/", "/s/overlay\\054upperdir=x/y", 1), false},
		"under another":    {"36 35 0:5 / / rw - tmpfs none rw\n" + layerLine, false},
		"nothing":          {"", false},
		"cut off":          {layerLine[:40], false},
		"blanks of a root": {"\n \n", false},
	} {
		if got := isLayer(test.text, layerName); got != test.want {
			t.Errorf("%s: isLayer = %v, want %v", name, got, test.want)
		}
	}
}

func FuzzIsLayer(f *testing.F) {
	f.Add(layerLine)
	f.Add("36 35 0:54 / / - - - -\n")
	f.Fuzz(func(t *testing.T, text string) {
		if isLayer(text, layerName) && !strings.Contains(text, layerName+"/diff") {
			t.Errorf("%q is taken for the layer", text)
		}
	})
}
