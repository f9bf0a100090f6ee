package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// chain makes folders in each other, each with a file, and returns the uppermost one's parent.
func chain(t *testing.T, depth int) string {
	t.Helper()
	root := t.TempDir()
	// os.RemoveAll of the test's end would need a descriptor for each level.
	t.Cleanup(func() { _ = RemoveIn(root) })
	dir, err := unix.Open(root, folderFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		if err := unix.Mkdirat(dir, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		below, err := unix.Openat(dir, "d", folderFlags, 0)
		if err != nil {
			t.Fatal(err)
		}
		closeFD(t, dir)
		dir = below
		file, err := unix.Openat(dir, "f", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(file, []byte("xy")); err != nil {
			t.Fatal(err)
		}
		closeFD(t, file)
	}
	closeFD(t, dir)
	return root
}

func closeFD(t *testing.T, fd int) {
	t.Helper()
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
}

// descriptors returns how many files the process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func openRoot(t *testing.T, path string) int {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return int(f.Fd())
}

func TestRemoveDeepTreeWithFewDescriptors(t *testing.T) {
	root := chain(t, 3000)
	before, most := descriptors(t), 0
	calls := 0
	r := Remover{Turn: func() error {
		if calls++; calls%1000 == 0 {
			most = max(most, descriptors(t)-before)
		}
		return nil
	}}
	if err := r.RemovePath(filepath.Join(root, "d")); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(root, "d")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the tree is there still: %v", err)
	}
	if most == 0 || most > maxOpen+4 {
		t.Errorf("removal had %d descriptors open, want at most %d", most, maxOpen+4)
	}
	if now := descriptors(t); now > before {
		t.Errorf("%d descriptors are open after it, %d before", now, before)
	}
}

func TestRemoveWideTreeBelowDeepOne(t *testing.T) {
	root := chain(t, maxOpen*3)
	deep := filepath.Join(root, strings.Repeat("d/", maxOpen*3))
	for i := range 300 {
		dir := filepath.Join(deep, fmt.Sprint("wide", i), strings.Repeat("e/", maxOpen+2))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemovePath(filepath.Join(root, "d")); err != nil {
		t.Fatalf("Remove: %v", err)
	}
}

func TestRemoveFoldersThatForbidIt(t *testing.T) {
	root := t.TempDir()
	for _, mode := range []os.FileMode{0, 0o100, 0o400, 0o500} {
		dir := filepath.Join(root, "top", fmt.Sprintf("%o", mode))
		if err := os.MkdirAll(filepath.Join(dir, "below"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "below", "file"), nil, 0); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{filepath.Join(dir, "below"), dir} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := RemovePath(filepath.Join(root, "top")); err != nil {
		t.Fatalf("Remove: %v", err)
	}
}

func TestRemoveFollowsNoLink(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	canary := filepath.Join(other, "canary")
	if err := os.WriteFile(canary, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(root, "top")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	if err := RemovePath(top); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	if err := os.Symlink(other, top); err != nil {
		t.Fatal(err)
	}
	if err := RemovePath(top); err != nil {
		t.Fatalf("Remove of a link: %v", err)
	}
	if _, err := os.Lstat(canary); err != nil {
		t.Errorf("the canary behind the link: %v", err)
	}
}

func TestRemoveStopsWithItsTurn(t *testing.T) {
	root := chain(t, 100)
	calls, stop := 0, errors.New("stop")
	r := Remover{Turn: func() error {
		if calls++; calls == 10 {
			return stop
		}
		return nil
	}}
	if err := r.RemovePath(filepath.Join(root, "d")); !errors.Is(err, stop) {
		t.Errorf("Remove = %v, want what Turn said", err)
	}
	if err := RemovePath(filepath.Join(root, "none", "absent")); err != nil {
		t.Errorf("Remove of what is not there: %v", err)
	}
}

func TestWalkDeepTree(t *testing.T) {
	const depth = 3000
	root := chain(t, depth)
	before, most, files := descriptors(t), 0, 0
	var size int64
	err := Walk(t.Context(), openRoot(t, root), Options{}, Visitor{Entry: func(e *Entry) (bool, error) {
		if files%1000 == 0 {
			most = max(most, descriptors(t)-before)
		}
		if !e.IsDir() {
			files++
			size += e.Stat.Size
			if want := 2*e.Depth - 1; e.PathLen() != want {
				t.Fatalf("PathLen at depth %d = %d, want %d", e.Depth, e.PathLen(), want)
			}
			if shown := e.Shown(); len(shown) > 2*maxShown {
				t.Fatalf("Shown has %d bytes", len(shown))
			}
		}
		return true, nil
	}})
	if err != nil || files != depth || size != 2*depth {
		t.Errorf("Walk = %v, %d files, %d bytes, want %d and %d", err, files, size, depth, 2*depth)
	}
	if most > maxOpen+4 {
		t.Errorf("the walk had %d descriptors open, want at most %d", most, maxOpen+4)
	}
}

func TestWalkOrderEnterAndLeave(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"b/c", "a", "skip/below", "shut/below"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"b/c/file", "b/z", "a/x"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	err := Walk(t.Context(), openRoot(t, root), Options{Sorted: true}, Visitor{
		Entry: func(e *Entry) (bool, error) {
			got = append(got, e.Path())
			return e.Base != "skip", nil
		},
		Enter: func(_ int, e *Entry) (bool, error) {
			got = append(got, "in "+e.Path())
			return e.Base != "shut", nil
		},
		Leave: func(_ int, e *Entry) error {
			got = append(got, fmt.Sprint("out ", e.Depth, " ", e.Path()))
			return nil
		},
	})
	want := []string{
		"in ", "a", "in a", "a/x", "out 1 a", "b", "in b", "b/c", "in b/c", "b/c/file", "out 2 b/c", "b/z", "out 1 b",
		"shut", "in shut", "skip", "out 0 ",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Walk = %v, %q, want %q", err, got, want)
	}
}

func TestWalkNoticesAMove(t *testing.T) {
	root := chain(t, maxOpen*2)
	elsewhere := filepath.Join(root, "elsewhere")
	middle := filepath.Join(root, strings.Repeat("d/", 5))
	err := Walk(t.Context(), openRoot(t, root), Options{}, Visitor{Entry: func(e *Entry) (bool, error) {
		if e.Depth == maxOpen*2 && e.IsDir() {
			return true, os.Rename(middle, elsewhere)
		}
		return true, nil
	}})
	if !errors.Is(err, ErrMoved) {
		t.Errorf("Walk = %v, want ErrMoved", err)
	}
}

func TestWalkStopsWithItsContext(t *testing.T) {
	root := chain(t, 10)
	ctx, cancel := context.WithCancel(t.Context())
	err := Walk(ctx, openRoot(t, root), Options{}, Visitor{Entry: func(*Entry) (bool, error) {
		cancel()
		return true, nil
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Walk = %v, want context.Canceled", err)
	}
}

func TestShort(t *testing.T) {
	long := strings.Repeat("x", 60_000)
	if got := Short(long); len(got) > 2*maxShown {
		t.Errorf("Short of %d bytes has %d", len(long), len(got))
	}
	if got := Short("a/b"); got != "a/b" {
		t.Errorf("Short(a/b) = %q", got)
	}
}

func BenchmarkRemove(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		root := b.TempDir()
		for i := range 100 {
			dir := filepath.Join(root, "t", strconv.Itoa(i))
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Fatal(err)
			}
			for j := range 1000 {
				if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(j)), []byte("x"), 0o600); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.StartTimer()
		if err := RemovePath(filepath.Join(root, "t")); err != nil {
			b.Fatal(err)
		}
	}
}
