package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/tree/treetest"
)

// image makes a folder as an image would have it.
func image(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(at("sub/deep"), 0o750))
	must(t, os.WriteFile(at("file"), []byte("content"), 0o644))
	must(t, os.WriteFile(at("sub/deep/tool"), []byte("#!"), 0o755))
	must(t, os.Chmod(at("sub/deep/tool"), 0o2755|fs.ModeSetgid))
	must(t, os.Link(at("file"), at("sub/hard")))
	must(t, os.Symlink("/etc/passwd", at("absolute")))
	must(t, os.Symlink("../../..", at("sub/up")))
	must(t, unix.Mkfifo(at("pipe"), 0o600))
	must(t, unix.Mknod(at("socket"), unix.S_IFSOCK|0o600, 0))
	must(t, unix.Setxattr(at("file"), "user.note", []byte("kept"), 0))
	must(t, os.Chmod(dir, 0o711|fs.ModeSticky))
	old := time.Unix(1e9, 0)
	for _, name := range []string{"file", "sub/deep", "sub", "."} {
		must(t, os.Chtimes(at(name), old, old))
	}
	return dir
}

func opener(dir string) func() (*os.File, error) {
	return func() (*os.File, error) { return os.Open(dir) }
}

// tree describes what is in a folder.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		must(t, err)
		info, err := d.Info()
		must(t, err)
		name, err := filepath.Rel(dir, path)
		must(t, err)
		line := name + " " + info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(path)
			must(t, err)
			line += " " + string(raw)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			must(t, err)
			line += " " + target
		}
		if name != "absolute" && name != "sub/up" && name != "pipe" && !strings.HasSuffix(name, "tool") {
			line += " " + info.ModTime().UTC().Format(time.DateOnly)
		}
		list = append(list, line)
		return nil
	}))
	return list
}

func TestFill(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(s *Store)
	}{
		{"alone", func(*Store) {}},
		{"beside another container", func(s *Store) {
			_, err := s.Join(t.Context(), "data", "other")
			must(t, err)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, _ := open(t, t.TempDir())
			v, _, err := s.Hold(t.Context(), CreateOptions{Name: "data"}, "c")
			must(t, err)
			tc.prepare(s)
			from := image(t)
			must(t, s.Fill(t.Context(), "data", "c", opener(from)))
			want := slices.DeleteFunc(listing(t, from), func(line string) bool { return strings.HasPrefix(line, "socket ") })
			if got := listing(t, v.Mountpoint); !slices.Equal(got, want) {
				t.Errorf("the volume has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			a, err := os.Stat(filepath.Join(v.Mountpoint, "file"))
			must(t, err)
			b, err := os.Stat(filepath.Join(v.Mountpoint, "sub/hard"))
			must(t, err)
			if !os.SameFile(a, b) {
				t.Error("a file with two names has become two")
			}
			value := make([]byte, 10)
			if n, err := unix.Getxattr(filepath.Join(v.Mountpoint, "file"), "user.note", value); err != nil || string(value[:n]) != "kept" {
				t.Errorf("user.note = %q, %v", value[:max(n, 0)], err)
			}
			// Once there is something in it, nothing comes on top.
			must(t, s.Fill(t.Context(), "data", "c", func() (*os.File, error) {
				t.Error("the image was asked for")
				return nil, fs.ErrNotExist
			}))
			if left, err := filepath.Glob(filepath.Join(s.opt.Dir, "data", "_*")); err != nil || len(left) != 1 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

func TestFillOfNothing(t *testing.T) {
	s, _ := open(t, t.TempDir())
	v, _, err := s.Hold(t.Context(), CreateOptions{Name: "data"}, "c")
	must(t, err)
	must(t, s.Fill(t.Context(), "data", "c", func() (*os.File, error) { return nil, fs.ErrNotExist }))
	broken := errors.New("broken")
	if err := s.Fill(t.Context(), "data", "c", func() (*os.File, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("Fill = %v, want the opener's error", err)
	}
	// An interrupted copy leaves the volume empty, and the next one works.
	ctx, cancel := context.WithCancel(t.Context())
	from := image(t)
	err = s.Fill(ctx, "data", "c", func() (*os.File, error) {
		cancel()
		return os.Open(from)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Fill = %v, want it cancelled", err)
	}
	if left, err := os.ReadDir(v.Mountpoint); err != nil || len(left) != 0 {
		t.Errorf("half a copy: %v, %v", left, err)
	}
	must(t, s.Fill(t.Context(), "data", "c", opener(from)))
	// Memory keeps nothing until its container runs, and so gets nothing.
	_, err = s.Create(t.Context(), CreateOptions{Name: "memory", Options: map[string]string{"type": "tmpfs"}})
	must(t, err)
	must(t, s.Fill(t.Context(), "memory", "c", func() (*os.File, error) {
		t.Error("the image was asked for")
		return nil, fs.ErrNotExist
	}))
}

func TestFillDeepWithFewDescriptors(t *testing.T) {
	s, _ := open(t, t.TempDir())
	v, _, err := s.Hold(t.Context(), CreateOptions{Name: "data"}, "c")
	must(t, err)
	from, deep := t.TempDir(), strings.Repeat("d/", maxDepth)
	must(t, os.MkdirAll(filepath.Join(from, deep), 0o700))
	must(t, os.WriteFile(filepath.Join(from, deep, "file"), []byte("content"), 0o600))
	must(t, os.Link(filepath.Join(from, deep, "file"), filepath.Join(from, deep, "hard")))
	must(t, os.WriteFile(filepath.Join(from, "d", "last"), nil, 0o600))
	ctx := treetest.Watch(t)
	must(t, s.Fill(ctx, "data", "c", opener(from)))
	ctx.Check()
	if got, want := listing(t, v.Mountpoint), listing(t, from); !slices.Equal(got, want) {
		t.Errorf("the volume has %d entries, not the same %d", len(got), len(want))
	}
}

func TestFillNestedTooDeep(t *testing.T) {
	s, _ := open(t, t.TempDir())
	v, _, err := s.Hold(t.Context(), CreateOptions{Name: "data"}, "c")
	must(t, err)
	from := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(from, strings.Repeat("d/", maxDepth+1)), 0o700))
	if err := s.Fill(t.Context(), "data", "c", opener(from)); err == nil || !strings.Contains(err.Error(), "nest more than") || len(err.Error()) > 400 {
		t.Errorf("Fill = %v, want a refusal", err)
	}
	if left, err := os.ReadDir(v.Mountpoint); err != nil || len(left) != 0 {
		t.Errorf("half a copy: %v, %v", left, err)
	}
}
