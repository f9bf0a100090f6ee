package source

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/tarfile"
)

func TestTreeStat(t *testing.T) {
	tree := treeOf(t, entry("d/e/f"), soft("abs", "/d/e"), soft("up", "../../d/e/f"), soft("d/e/back", "../../abs/f"), soft("a", "b"), soft("b", "a"),
		soft("out", "/etc/passwd"), soft("root", "/"), soft("dots", "d/e/.."), soft("chain", "abs/back"), soft("below", "d/e/f/.."))
	for _, tc := range []struct{ path, follow, nofollow string }{
		{".", ".", "."},
		{"", ".", "."},
		{"/", ".", "."},
		{"/d//e/./f", "d/e/f", "d/e/f"},
		{"../../d", "d", "d"},
		{"d/../d/e", "d/e", "d/e"},
		{"abs", "d/e", "abs"},
		{"abs/", "d/e", "abs"},
		{"abs/f", "d/e/f", "d/e/f"},
		{"up", "d/e/f", "up"},
		{"d/e/back", "d/e/f", "d/e/back"},
		{"abs/back", "d/e/f", "d/e/back"},
		{"chain", "d/e/f", "chain"},
		{"root/root/abs/f", "d/e/f", "d/e/f"},
		{"root", ".", "root"},
		{"dots", "d", "dots"},
		{"dots/e", "d/e", "d/e"},
	} {
		for follow, want := range map[bool]string{true: tc.follow, false: tc.nofollow} {
			e, err := tree.Stat(t.Context(), tc.path, follow)
			if err != nil || e.Path != want {
				t.Errorf("Stat(%q, %t) = %+v, %v, want %q", tc.path, follow, e, err, want)
			}
		}
	}
	checkStatFails(t, tree)
	if _, err := tree.Stat(t.Context(), "below", true); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a link that goes up from a file: %v", err)
	}
}

// checkStatFails asks for what leads nowhere; both kinds of sources answer alike.
func checkStatFails(t *testing.T, src Source) {
	t.Helper()
	for _, tc := range []struct {
		path string
		kind fault.Constructor
		want string
	}{
		{"nothing", fault.NotFound, "stat nothing: no such file or directory"},
		{"d/nothing/x", fault.NotFound, "no such file or directory"},
		{"out", fault.NotFound, "no such file or directory"},
		{"a", fault.Invalid, "stat a: too many levels of symbolic links"},
		{"a/x", fault.Invalid, "too many levels of symbolic links"},
		{"d/e/f/g", fault.Invalid, "not a directory"},
		{"up/g", fault.Invalid, "not a directory"},
		{"x\x00y", fault.Invalid, "zero byte"},
		{strings.Repeat("x/", 3000), fault.Invalid, "4096 bytes"},
	} {
		_, err := src.Stat(t.Context(), tc.path, true)
		holds(t, "Stat("+tc.path+")", err, tc.kind, tc.want)
	}
	file, err := src.Stat(t.Context(), "d/e/f", false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = src.List(t.Context(), file)
	holds(t, "List of a file", err, fault.Invalid, "not a directory")
	for _, name := range []string{"d", "abs"} {
		e, err := src.Stat(t.Context(), name, false)
		if err != nil {
			t.Fatal(err)
		}
		_, err = src.Open(t.Context(), e)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("Open(%s) = %v", name, err)
		}
		_, err = src.Digest(t.Context(), e)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("Digest(%s) = %v", name, err)
		}
	}
}

func TestTreeEntryByPath(t *testing.T) {
	tree := treeOf(t, entry("d/e"))
	e := &Entry{Path: "d/e", Size: 3}
	if got := read(t, tree, e); got != "d/e" {
		t.Errorf("the content is %q", got)
	}
	if entries, err := tree.List(t.Context(), &Entry{Path: "d"}); err != nil || len(entries) != 1 {
		t.Errorf("List = %v, %v", entries, err)
	}
	if _, err := tree.Open(t.Context(), &Entry{Path: "x"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("Open = %v", err)
	}
}

func TestReadFile(t *testing.T) {
	tree := treeOf(t, entry("a"), entry("sub/Dockerfile"), soft("l", "sub/Dockerfile"))
	for _, name := range []string{"sub/Dockerfile", "l"} {
		if got, err := tree.ReadFile(t.Context(), name, 14); err != nil || string(got) != "sub/Dockerfile" {
			t.Errorf("ReadFile(%s) = %q, %v", name, got, err)
		}
	}
	_, err := tree.ReadFile(t.Context(), "l", 13)
	holds(t, "ReadFile", err, fault.Invalid, "l has 14 bytes, more than 13")
	_, err = tree.ReadFile(t.Context(), "sub", 14)
	holds(t, "ReadFile", err, fault.Invalid, "sub is not a regular file")
	_, err = tree.ReadFile(t.Context(), "x", 14)
	holds(t, "ReadFile", err, fault.NotFound, "no such file")
}

func TestWithout(t *testing.T) {
	tree := treeOf(t, entry("Dockerfile"), entry(".dockerignore"), entry("a/b/c.go"), entry("a/b/c.md"), entry("a/d.md"), entry("node_modules/x/y"),
		entry("empty/"), soft("l.md", "a"), entry("e/f/g"))
	all := list(t, tree)
	for _, tc := range []struct {
		name     string
		patterns []string
		want     string
	}{
		{"nothing", nil, all},
		{"comment's rest", []string{""}, all},
		{"folder", []string{"node_modules", "a/b", "e"}, ".dockerignore=.dockerignore\nDockerfile=Dockerfile\na/\na/d.md=a/d.md\nempty/\nl.md->a"},
		{"stars", []string{"*.md", "node_modules", "e"}, ".dockerignore=.dockerignore\nDockerfile=Dockerfile\na/\na/b/\na/b/c.go=a/b/c.go\na/b/c.md=a/b/c.md\na/d.md=a/d.md\nempty/"},
		{"two stars", []string{"**/*.md", "node_modules", "e", "empty"}, ".dockerignore=.dockerignore\nDockerfile=Dockerfile\na/\na/b/\na/b/c.go=a/b/c.go"},
		{"all but", []string{"*", "!a/b/c.go", "!e/f"}, "a/\na/b/\na/b/c.go=a/b/c.go\ne/\ne/f/\ne/f/g=e/f/g"},
		{"order", []string{"a", "!a/b", "a/b/c.md", "node_modules", "e", ".dockerignore", "Dockerfile"}, "a/\na/b/\na/b/c.go=a/b/c.go\nempty/\nl.md->a"},
		{"the Dockerfile too", []string{"*"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tree.Without(tc.patterns)
			if err != nil {
				t.Fatal(err)
			}
			if got := list(t, got); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			n, size := got.Count()
			sub, err := got.Sub(".")
			if err != nil {
				t.Fatal(err)
			}
			if m, have := sub.Count(); n != m || have != size {
				t.Errorf("Count = %d, %d, want %d, %d", n, size, m, have)
			}
		})
	}
	if got := list(t, tree); got != all {
		t.Errorf("the tree itself has become\n%s", got)
	}
	_, err := tree.Without([]string{"["})
	holds(t, "Without", err, fault.Invalid, "syntax error in pattern")
}

func TestSub(t *testing.T) {
	tree := treeOf(t, entry("a/b/c"), soft("l", "a/b"), soft("a/b/up", "../../x"), entry("x"))
	sub, err := tree.Sub("/a/b/")
	if err != nil {
		t.Fatal(err)
	}
	if got := list(t, sub); got != "c=a/b/c\nup->../../x" {
		t.Errorf("got %s", got)
	}
	if _, err := sub.Stat(t.Context(), "up", true); !fault.Is(err, fault.NotFound) {
		t.Errorf("a link leads out of the folder: %v", err)
	}
	_, err = tree.Sub("l")
	holds(t, "Sub", err, fault.Invalid, "l: not a directory")
	_, err = tree.Sub("a/x")
	holds(t, "Sub", err, fault.NotFound, "no such file")
	if _, err = tree.Into("l"); err == nil {
		t.Error("Into a link succeeds")
	}
	if _, err := tree.ReadFile(t.Context(), "x", 10); err == nil {
		t.Error("the content is open after Into failed")
	}
}

func TestSingleFile(t *testing.T) {
	at := time.Unix(5, 0)
	fromReader, err := FromReader(t.Context(), "x.sh", strings.NewReader("echo"), 0o755, at, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer fromReader.Close() //nolint:errcheck // only read
	for _, tree := range []*Tree{SingleFile("x.sh", []byte("echo"), 0o755, at), fromReader} {
		if got := list(t, tree); got != "x.sh=echo" {
			t.Errorf("got %s", got)
		}
		e, err := tree.Stat(t.Context(), "x.sh", true)
		if err != nil || e.Mode != 0o755 || !e.ModTime.Equal(at) || e.UID != 0 || e.GID != 0 {
			t.Errorf("Stat = %+v, %v", e, err)
		}
		if n, size := tree.Count(); n != 1 || size != 4 {
			t.Errorf("Count = %d, %d", n, size)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "/"} {
		if _, err := FromReader(t.Context(), name, strings.NewReader(""), 0, at, Options{Dir: t.TempDir()}); !fault.Is(err, fault.Invalid) {
			t.Errorf("FromReader(%q) = %v", name, err)
		}
	}
	if got := list(t, Empty()); got != "" {
		t.Errorf("Empty holds %s", got)
	}
}

func FuzzResolve(f *testing.F) {
	for _, path := range []string{"d/e/f", "l/f", "up/../x", "loop", "//", "./d/./"} {
		f.Add(path, "/d/e")
	}
	f.Fuzz(func(t *testing.T, path, link string) {
		if link == "" || len(link) > tarfile.MaxName || strings.ContainsRune(link, 0) {
			return
		}
		folder := func(children ...child) *inode {
			f := &folder{children: children}
			return &inode{mode: fs.ModeDir, kids: f}
		}
		to := func(text string) *inode { return &inode{mode: fs.ModeSymlink, more: &more{link: text}} }
		tree := Empty()
		tree.root = folder(child{"d", folder(child{"e", folder(child{"f", &inode{}})}, child{"l", to(link)})}, child{"l", to(link)},
			child{"loop", to("loop/x")}, child{"up", to("../../d")})
		e, err := tree.Stat(t.Context(), path, true)
		if err != nil {
			if !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
				t.Errorf("Stat(%q) = %v", path, err)
			}
			return
		}
		if e.Mode&fs.ModeSymlink != 0 {
			t.Errorf("Stat(%q) is a link", path)
		}
		if again, err := tree.findNode(e.Path); err != nil || again != e.node {
			t.Errorf("Stat(%q) says %q, where %v, %v is", path, e.Path, again, err)
		}
	})
}
