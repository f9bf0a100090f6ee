package source

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/tree/treetest"
)

// folderOf makes a folder with a canary beside it: lines are name/, name->link, name=>hard, or name=content.
func folderOf(t testing.TB, lines ...string) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "root")
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(top, "canary"), []byte("secret"), 0o644))
	for _, line := range lines {
		name, link, soft := strings.Cut(line, "->")
		target, other, hard := strings.Cut(line, "=>")
		file, content, _ := strings.Cut(line, "=")
		switch {
		case soft:
			must(t, os.Symlink(link, filepath.Join(dir, name)))
		case hard:
			must(t, os.Link(filepath.Join(dir, other), filepath.Join(dir, target)))
		case strings.HasSuffix(line, "/"):
			must(t, os.MkdirAll(filepath.Join(dir, line), 0o755))
		default:
			must(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644))
		}
	}
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRooted(t *testing.T) {
	dir := folderOf(t, "d/e/", "d/e/f=content", "d/h=>d/e/f", "abs->/d/e", "up->../../d/e/f", "a->b", "b->a", "out->/etc/passwd", "leak->../canary",
		"d/e/back->../../abs/f", "root->/", "dots->d/e/..")
	must(t, os.Chmod(dir+"/d/e/f", 0o751|fs.ModeSetuid))
	must(t, os.Chtimes(dir+"/d/e/f", time.Unix(1e9, 5), time.Unix(1e9, 5)))
	xattrs := unix.Setxattr(dir+"/d/e/f", "user.a", []byte("b"), 0) == nil && unix.Setxattr(dir+"/d/e/f", "user.overlay.x", []byte("b"), 0) == nil
	must(t, unix.Mkfifo(dir+"/fifo", 0o600))
	src, closeIt := rooted(t, dir)
	defer closeIt()
	want := "a->b\nabs->/d/e\nb->a\nd/\nd/e/\nd/e/back->../../abs/f\nd/e/f=content\nd/h=content\ndots->d/e/..\nfifo p---------\nleak->../canary\nout->/etc/passwd\nroot->/\nup->../../d/e/f"
	if got := list(t, src); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for path, want := range map[string]string{
		".": ".", "../../d": "d", "abs": "d/e", "abs/f": "d/e/f", "up": "d/e/f", "abs/back": "d/e/f", "root/root/abs/f": "d/e/f", "dots/e": "d/e",
	} {
		if e, err := src.Stat(t.Context(), path, true); err != nil || e.Path != want {
			t.Errorf("Stat(%q) = %+v, %v, want %q", path, e, err, want)
		}
	}
	checkStatFails(t, src)
	if _, err := src.Stat(t.Context(), "leak", true); !fault.Is(err, fault.NotFound) {
		t.Errorf("the canary is found: %v", err)
	}
	if e, err := src.Stat(t.Context(), "leak", false); err != nil || e.Link != "../canary" {
		t.Errorf("Stat of the link itself = %+v, %v", e, err)
	}
	folder, err := src.Stat(t.Context(), "d/e", true)
	must(t, err)
	listed, err := src.List(t.Context(), folder)
	must(t, err)
	stat, err := src.Stat(t.Context(), "d/h", true)
	must(t, err)
	for _, e := range []*Entry{stat, listed[1]} {
		if e.Mode != 0o751|fs.ModeSetuid || !e.ModTime.Equal(time.Unix(1e9, 5)) || e.UID != os.Getuid() || e.GID != os.Getgid() || e.Inode == 0 || e.Inode != stat.Inode {
			t.Errorf("%s is %+v", e.Path, e)
		}
		if xattrs && (len(e.Xattrs) != 1 || e.Xattrs["user.a"] != "b") {
			t.Errorf("%s has the attributes %q", e.Path, e.Xattrs)
		}
	}
	fifo, err := src.Stat(t.Context(), "fifo", true)
	must(t, err)
	_, err = src.Open(t.Context(), fifo)
	holds(t, "Open of a fifo", err, fault.Invalid, "not a regular file")
}

// TestRootedRace swaps a folder for a link out while it is read: nothing of outside is ever seen.
func TestRootedRace(t *testing.T) {
	dir := folderOf(t, "d/", "d/canary=inside", "l->..")
	src, closeIt := rooted(t, dir)
	defer closeIt()
	ctx, cancel := context.WithCancel(t.Context())
	swapped := make(chan error)
	go func() {
		for ctx.Err() == nil {
			if err := unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/l", unix.RENAME_EXCHANGE); err != nil {
				swapped <- err
				return
			}
		}
		swapped <- nil
	}()
	saw := 0
	for range 3000 {
		e, err := src.Stat(ctx, "d/canary", true)
		if err != nil {
			continue
		}
		f, err := src.Open(ctx, e)
		if err != nil {
			continue
		}
		var got bytes.Buffer
		_, err = got.ReadFrom(f)
		if err = errors.Join(err, f.Close()); err != nil || got.String() != "inside" {
			t.Fatalf("read %q, %v", got.String(), err)
		}
		saw++
	}
	cancel()
	if err := <-swapped; err != nil {
		t.Fatal(err)
	}
	if saw == 0 {
		t.Error("nothing was ever read")
	}
}

func TestFromFolder(t *testing.T) {
	dir := folderOf(t, ".git/", ".git/config=x", "d/", "d/run=x", "d/.git=gitdir", "l->../canary", "f=x")
	must(t, os.Chmod(dir+"/d/run", 0o700))
	must(t, unix.Mkfifo(dir+"/fifo", 0o600))
	at := time.Unix(1e9, 0)
	for skip, want := range map[string]string{
		".git": "d/\nd/run=x\nf=x\nl->../canary",
		"":     ".git/\n.git/config=x\nd/\nd/.git=gitdir\nd/run=x\nf=x\nl->../canary",
	} {
		tree, err := FromFolder(t.Context(), dir, []string{skip}, at, Options{Dir: t.TempDir()})
		must(t, err)
		if got := list(t, tree); got != want {
			t.Errorf("without %q got\n%s\nwant\n%s", skip, got, want)
		}
		for name, want := range map[string]fs.FileMode{"d/run": 0o755, "f": 0o644, "d": fs.ModeDir | 0o755} {
			if e, err := tree.Stat(t.Context(), name, true); err != nil || e.Mode != want || e.UID != 0 || !e.ModTime.Equal(at) {
				t.Errorf("%s is %+v, %v, want the mode %s", name, e, err, want)
			}
		}
		must(t, tree.Close())
	}
	spool := t.TempDir()
	_, err := FromFolder(t.Context(), dir, nil, at, Options{Dir: spool, MaxEntries: 2})
	holds(t, "FromFolder", err, fault.Invalid, "more than 2 entries")
	nothingLeft(t, spool)
}

func TestMaterialize(t *testing.T) {
	tree := treeOf(t, entry("a/b/c"), hard("a/h", "a/b/c"), soft("a/l", "/etc/passwd"), soft("a/up", "../.."), entry("a/ro/", func(h *tar.Header) { h.Mode = 0o555 }),
		entry("a/ro/f", func(h *tar.Header) { h.Mode = 0o4751 }), soft("s", "a"))
	want := "b/\nb/c=a/b/c\nh=a/b/c\nl->/etc/passwd\nro/\nro/f=a/ro/f\nup->../.."
	mode := 0o751 | fs.ModeSetuid
	if os.Getuid() != 0 {
		mode = 0o751 // the file cannot be root's, so it does not get what was meant for root
	}
	for path, prefix := range map[string]string{"a": "", "s": "", ".": "a/"} {
		dir := t.TempDir()
		at, err := Materialize(t.Context(), tree, path, dir)
		must(t, err)
		src, closeIt := rooted(t, filepath.Join(dir, prefix))
		if got := list(t, src); got != want || at != dir {
			t.Errorf("Materialize(%q) to %s has\n%s\nwant\n%s", path, at, got, want)
		}
		for name, mode := range map[string]fs.FileMode{"ro": fs.ModeDir | 0o555, "ro/f": mode, "b/c": 0o644} {
			if e, err := src.Stat(t.Context(), name, false); err != nil || e.Mode != mode || e.ModTime.Unix() != 1e9 && name != "b" {
				t.Errorf("%s is %+v, %v, want %s", name, e, err, mode)
			}
		}
		c, err := src.Stat(t.Context(), "b/c", false)
		must(t, err)
		h, err := src.Stat(t.Context(), "h", false)
		if err != nil || h.Inode == 0 || h.Inode != c.Inode {
			t.Errorf("the hard link is %+v, %v, that of %+v", h, err, c)
		}
		closeIt()
		must(t, os.Chmod(filepath.Join(dir, prefix, "ro"), 0o755)) // or the test cannot remove it
	}
	dir := t.TempDir()
	at, err := Materialize(t.Context(), tree, "s/b/c", dir)
	if got, failed := os.ReadFile(dir + "/c"); err != nil || at != dir+"/c" || failed != nil || string(got) != "a/b/c" {
		t.Errorf("Materialize of a file = %s, %v: %q, %v", at, err, got, failed)
	}
	_, err = Materialize(t.Context(), tree, "nothing", dir)
	holds(t, "Materialize", err, fault.NotFound, "no such file")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Materialize(ctx, tree, ".", t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("Materialize = %v, want cancelled", err)
	}
}

func TestMaterializeDeepWithFewDescriptors(t *testing.T) {
	from, to, deep := t.TempDir(), t.TempDir(), strings.Repeat("d/", 600)
	must(t, os.MkdirAll(filepath.Join(from, deep), 0o755))
	must(t, os.WriteFile(filepath.Join(from, deep, "f"), []byte("content"), 0o644))
	old := time.Unix(1e9, 0)
	must(t, os.Chtimes(filepath.Join(from, "d/d"), old, old))
	src, closeIt := rooted(t, from)
	defer closeIt()
	ctx := treetest.Watch(t)
	if _, err := Materialize(ctx, src, ".", to); err != nil {
		t.Fatal(err)
	}
	ctx.Check()
	if got, err := os.ReadFile(filepath.Join(to, deep, "f")); err != nil || string(got) != "content" {
		t.Errorf("the lowest file holds %q, %v", got, err)
	}
	if info, err := os.Stat(filepath.Join(to, "d/d")); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("a folder is of %v, %v, want %v", info.ModTime(), err, old)
	}
}
