package volume

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
)

// fill puts 1000 bytes under two names, 24 more in a folder, and a link to much more.
func fill(t *testing.T, dir string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, "one"), []byte(strings.Repeat("x", 1000)), 0o600))
	must(t, os.Link(filepath.Join(dir, "one"), filepath.Join(dir, "two")))
	must(t, os.Mkdir(filepath.Join(dir, "below"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "below", "three"), []byte(strings.Repeat("x", 24)), 0o600))
	must(t, os.Symlink("/usr", filepath.Join(dir, "four"))) // a link is as long as its text
}

const filled = 1000 + 24 + int64(len("/usr"))

func TestUsage(t *testing.T) {
	s, _ := open(t, t.TempDir())
	used, err := s.Create(t.Context(), CreateOptions{Name: "used"})
	must(t, err)
	fill(t, used.Mountpoint)
	_, _, err = s.Hold(t.Context(), CreateOptions{Name: "used"}, "c1")
	must(t, err)
	_, err = s.Create(t.Context(), CreateOptions{Name: "empty"})
	must(t, err)
	list, err := s.Usage(t.Context())
	must(t, err)
	if len(list) != 2 || list[0].Volume.Name != "empty" || list[0].Size != 0 || list[0].Users != 0 ||
		list[1].Volume != used || list[1].Size != filled || list[1].Users != 1 {
		t.Errorf("usage %+v, want empty with 0 bytes and used with %d and one user", list, filled)
	}
}

// A volume that cannot be read keeps nobody from knowing the sizes of all others.
func TestUsageWithAnUnreadableVolume(t *testing.T) {
	s, _ := open(t, t.TempDir())
	for _, name := range []string{"shut", "well"} {
		v, err := s.Create(t.Context(), CreateOptions{Name: name})
		must(t, err)
		fill(t, v.Mountpoint)
		if name == "shut" {
			below := filepath.Join(v.Mountpoint, "below")
			must(t, os.Chmod(below, 0))
			t.Cleanup(func() { must(t, os.Chmod(below, 0o700)) }) //nolint:gosec // for what removes it
		}
	}
	list, err := s.Usage(t.Context())
	must(t, err)
	if len(list) != 2 || list[0].Size != -1 || list[1].Size != filled {
		t.Errorf("usage %+v, want shut with -1 and well with %d", list, filled)
	}
}

func TestPrune(t *testing.T) {
	s, _ := open(t, t.TempDir())
	for name, label := range map[string]string{"used": "a", "idle": "a", "kept": "b"} {
		v, err := s.Create(t.Context(), CreateOptions{Name: name, Labels: map[string]string{label: "1"}})
		must(t, err)
		fill(t, v.Mountpoint)
	}
	_, _, err := s.Hold(t.Context(), CreateOptions{Name: "used"}, "c1")
	must(t, err)
	removed, reclaimed, err := s.Prune(t.Context(), map[string][]string{"label!": {"b"}})
	must(t, err)
	if !slices.Equal(removed, []string{"idle"}) || reclaimed != filled {
		t.Errorf("pruned %q, %d bytes, want idle and %d", removed, reclaimed, filled)
	}
	if got := names(t, s, nil); !slices.Equal(got, []string{"kept", "used"}) {
		t.Errorf("left %q, want kept and used", got)
	}
	s.Release("used", "c1")
	_, err = s.Create(t.Context(), CreateOptions{Name: "elsewhere", Options: map[string]string{"type": "tmpfs", "device": "tmpfs"}})
	must(t, err)
	removed, reclaimed, err = s.Prune(t.Context(), nil)
	must(t, err)
	if !slices.Equal(removed, []string{"kept", "used"}) || reclaimed != 2*filled {
		t.Errorf("pruned %q, %d bytes, want both and %d", removed, reclaimed, 2*filled)
	}
	if got := names(t, s, nil); !slices.Equal(got, []string{"elsewhere"}) {
		t.Errorf("left %q, want the one with options", got)
	}
	unnamed, err := s.Create(t.Context(), CreateOptions{})
	must(t, err)
	_, err = s.Create(t.Context(), CreateOptions{Name: "named"})
	must(t, err)
	removed, _, err = s.Prune(t.Context(), map[string][]string{"label": {LabelAnonymous}})
	must(t, err)
	if !slices.Equal(removed, []string{unnamed.Name}) {
		t.Errorf("pruned %q of what nobody named, want %s", removed, unnamed.Name)
	}
	for _, key := range []string{"until", "dangling", "all"} {
		if _, _, err := s.Prune(t.Context(), map[string][]string{key: {"1h"}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("filter %s: got %v, want fault.Invalid", key, err)
		}
	}
}
