package tree

import (
	"archive/tar"
	"fmt"
	"path"
	"strconv"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/tarfile"
)

// named is an entry of an archive.
type named struct {
	name string
	kind byte
	link string
}

func enter(limits Limits, entries ...named) (*Budget, error) {
	b := NewBudget(limits)
	n := NewNames(b)
	for _, e := range entries {
		if err := n.Enter(e.name, e.kind, e.link); err != nil {
			return b, err
		}
	}
	return b, nil
}

// many makes entries from their numbers.
func many(count int, entry func(i int) named) []named {
	list := make([]named, count)
	for i := range list {
		list[i] = entry(i)
	}
	return list
}

func TestNamesImplied(t *testing.T) {
	deep := strings.Repeat("a/", tarfile.MaxDepth-1)
	for name, tc := range map[string]struct {
		entries []named
		want    int64
	}{
		"all told of":                 {[]named{{"a", tar.TypeDir, ""}, {"a/b", tar.TypeDir, ""}, {"a/b/f", tar.TypeReg, ""}}, 0},
		"none told of":                {[]named{{"a/b/f", tar.TypeReg, ""}, {"a/c/g", tar.TypeReg, ""}}, 3},
		"told of later":               {[]named{{"a/b/f", tar.TypeReg, ""}, {"a/b", tar.TypeDir, ""}, {"a/b/g", tar.TypeReg, ""}}, 2},
		"one deep name":               {[]named{{deep + "f", tar.TypeReg, ""}, {deep + "g", tar.TypeReg, ""}}, tarfile.MaxDepth - 1},
		"a file in a folder's place":  {[]named{{"a/b/f", tar.TypeReg, ""}, {"a", tar.TypeReg, ""}, {"a", tar.TypeDir, ""}, {"a/b/f", tar.TypeReg, ""}}, 3},
		"through a link":              {[]named{{"d/x/f", tar.TypeReg, ""}, {"l", tar.TypeSymlink, "d"}, {"l/x/g", tar.TypeReg, ""}}, 2},
		"through an absolute link":    {[]named{{"d/x/f", tar.TypeReg, ""}, {"e/l", tar.TypeSymlink, "/../d/./"}, {"e/l/x/g", tar.TypeReg, ""}}, 3},
		"through a link of a link":    {[]named{{"d/x/f", tar.TypeReg, ""}, {"l", tar.TypeSymlink, "d/.."}, {"h", tar.TypeLink, "l"}, {"h/d/x/g", tar.TypeReg, ""}}, 2},
		"a folder in a link's place":  {[]named{{"d/x/f", tar.TypeReg, ""}, {"l", tar.TypeSymlink, "d"}, {"l", tar.TypeDir, ""}, {"l/x/g", tar.TypeReg, ""}}, 3},
		"the root":                    {[]named{{".", tar.TypeDir, ""}, {"f", tar.TypeReg, ""}}, 0},
		"a link in a replaced folder": {[]named{{"r/l", tar.TypeSymlink, "/d"}, {"r", tar.TypeReg, ""}, {"r", tar.TypeDir, ""}, {"r/l/f", tar.TypeReg, ""}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := enter(Limits{}, tc.entries...)
			if err != nil || b.implied != tc.want || b.entries != int64(len(tc.entries)) {
				t.Errorf("%d folders are implied by %d entries, %v, want %d", b.implied, b.entries, err, tc.want)
			}
		})
	}
}

// TestNamesOfRealArchives implies all folders, as archives made from lists of files do.
func TestNamesOfRealArchives(t *testing.T) {
	for name, entry := range map[string]func(i int) named{
		"objects": func(i int) named {
			return named{fmt.Sprintf("%02x/%02x/%02x/%d", i%256, i/256%256, i/7%256, i), tar.TypeReg, ""}
		},
		"each its own": func(i int) named { return named{fmt.Sprintf("org/a%d/b/c/d/e/f/1.0/a.jar", i), tar.TypeReg, ""} },
		"merged":       func(i int) named { return named{fmt.Sprintf("lib/m%d/n/f", i), tar.TypeReg, ""} },
	} {
		entries := append([]named{{"lib", tar.TypeSymlink, "usr/lib"}}, many(40_000, entry)...)
		if _, err := enter(Limits{}, entries...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNamesRefuse(t *testing.T) {
	half := strings.Repeat("d/", tarfile.MaxDepth/2)
	walk := strings.Repeat("d/../", 800)
	for _, tc := range []struct {
		name    string
		limits  Limits
		entries []named
		text    string
	}{
		{
			"folders for each entry",
			Limits{},
			many(300, func(i int) named { return named{fmt.Sprintf("%d/%sf", i, strings.Repeat("a/", 490)), tar.TypeReg, ""} }),
			"folders that it does not list",
		},
		{
			"folders again and again",
			Limits{},
			many(600, func(i int) named {
				if i%2 == 0 {
					return named{"r/" + strings.Repeat("a/", 490) + "f", tar.TypeReg, ""}
				}
				return named{"r", tar.TypeReg, ""}
			}),
			"folders that it does not list",
		},
		{"implied ones count", Limits{Entries: 20}, many(15, func(i int) named { return named{fmt.Sprintf("%d/f", i), tar.TypeReg, ""} }), "more than 20 entries"},
		{"entries", Limits{Entries: 20, Whole: "the pile"}, many(21, func(i int) named { return named{strconv.Itoa(i), tar.TypeReg, ""} }), "the pile has more than 20 entries"},
		{"a loop", Limits{}, []named{{"l", tar.TypeSymlink, "l"}, {"l/f", tar.TypeReg, ""}}, "symbolic links"},
		{"a loop of a hard link", Limits{}, []named{{"l", tar.TypeSymlink, "l"}, {"f", tar.TypeLink, "l/x"}}, "symbolic links"},
		{
			"a chain",
			Limits{},
			append(many(45, func(i int) named { return named{fmt.Sprint("l", i), tar.TypeSymlink, fmt.Sprint("l", i+1)} }), named{"l0/f", tar.TypeReg, ""}),
			"more than 40 symbolic links",
		},
		{
			"links that walk about",
			Limits{},
			append(many(30, func(i int) named { return named{fmt.Sprint("l", i), tar.TypeSymlink, walk + fmt.Sprint("l", i+1)} }),
				many(100, func(i int) named { return named{fmt.Sprintf("l0/%d/f", i), tar.TypeReg, ""} })...),
			"too many symbolic links",
		},
		{
			"links that grow",
			Limits{},
			append(many(30, func(i int) named {
				return named{fmt.Sprint("l", i), tar.TypeSymlink, fmt.Sprint("l", i+1, "/", strings.Repeat("x", 200))}
			}), named{"l0/f", tar.TypeReg, ""}),
			"symbolic links",
		},
		{
			"deep by links",
			Limits{},
			[]named{{"l", tar.TypeSymlink, half}, {"l/" + half + "m", tar.TypeSymlink, "x"}, {"k", tar.TypeSymlink, half + half}, {"k/d/f", tar.TypeReg, ""}},
			"folders deep",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := enter(tc.limits, tc.entries...); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.text) || len(err.Error()) > 300 {
				t.Errorf("error %v, want an invalid fault with %q", err, tc.text)
			}
		})
	}
}

func TestBudgetBytes(t *testing.T) {
	b := NewBudget(Limits{Free: 1000, Ratio: 10, Sparse: 100, Whole: "it"})
	for _, tc := range []struct {
		out, in int64
		ok      bool
	}{{1000, 0, true}, {1010, 0, false}, {2000, 100, true}, {2011, 100, false}} {
		if err := b.Bytes(tc.out, tc.in); (err == nil) != tc.ok || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%d bytes of %d: %v", tc.out, tc.in, err)
		}
	}
	if err := b.Sparse("a", 60); err != nil {
		t.Error(err)
	}
	if err := b.Sparse("b", 41); !fault.Is(err, fault.Invalid) {
		t.Errorf("101 sparse bytes: %v", err)
	}
	if err := b.Sparse("c", 40); err != nil {
		t.Errorf("what was refused was counted: %v", err)
	}
}

// FuzzNames enters names made of few parts, so that they meet, and holds the count of folders against a plain model where
// nothing is replaced and no link is on the way.
func FuzzNames(f *testing.F) {
	f.Add([]byte("a/b/c\x00f\x00d\x01a/b\x03l\x02../a"))
	f.Add([]byte("l\x02l\x00l/x\x00"))
	kinds := []byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b := NewBudget(Limits{Entries: 10_000})
		n := NewNames(b)
		made, plain := map[string]bool{".": true}, true
		for len(raw) > 1 {
			size := min(int(raw[0])%24+1, len(raw)-1)
			name, kind := path.Clean("./"+strings.Trim(strings.ToValidUTF8(string(raw[1:1+size]), "_"), "/")), kinds[raw[0]>>6]
			raw = raw[1+size:]
			if name == ".." || strings.HasPrefix(name, "../") {
				continue
			}
			link := name
			if kind == tar.TypeSymlink {
				link = "x/" + name
			}
			for dir := path.Dir(name); !made[dir]; dir = path.Dir(dir) {
				made[dir] = true
			}
			plain = plain && kind != tar.TypeSymlink && (kind == tar.TypeDir || !made[name]) && kind != tar.TypeLink
			if kind == tar.TypeDir {
				made[name] = true
			}
			if err := n.Enter(name, kind, link); err != nil {
				if !fault.Is(err, fault.Invalid) {
					t.Fatalf("Enter(%q) = %v", name, err)
				}
				return
			}
		}
		if folders := int64(len(made) - 1); plain && b.implied > folders {
			t.Errorf("%d folders are implied where %d are", b.implied, folders)
		}
		if len(n.folders) > int(b.implied+b.entries) {
			t.Errorf("%d folders are known of %d that were counted", len(n.folders), b.implied+b.entries)
		}
	})
}

func BenchmarkNames(b *testing.B) {
	names := make([]string, 100_000)
	for i := range names {
		names[i] = fmt.Sprintf("usr/lib/python3/dist-packages/p%d/sub/file%d.py", i/20, i)
	}
	for b.Loop() {
		n := NewNames(NewBudget(Limits{}))
		for _, name := range names {
			if err := n.Enter(name, tar.TypeReg, ""); err != nil {
				b.Fatal(err)
			}
		}
	}
}
