package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testModule is a leaf below two packages, one of them below a program; side is known to mid's tests alone.
func testModule() *module {
	m := &module{pkgs: map[string]*pkg{}, nested: []string{"tests/other"}}
	for _, p := range []pkg{
		{name: "leaf", tested: true, embeds: []string{"words.txt", "pages"}},
		{name: "near", imports: []string{"leaf"}},
		{name: "mid", imports: []string{"leaf", "near"}, testImports: []string{"side"}, tested: true},
		{name: "side", tested: true},
		{name: "cmd/top", imports: []string{"mid"}, program: true, tested: true},
		{name: "hack/compat", tested: true},
		{name: "hack/quick", tested: true},
	} {
		p.source = true
		m.pkgs[p.name] = &p
	}
	return m
}

const testMap = `
leaf        | 01-a 02-b  # a comment
mid         | 02-b
mid/own.go  | 04-d
side/...    | 03-c
cmd/...     | 04-d
tests/lib/x | 01-a
tests/other/... | 05-e
`

func TestChoose(t *testing.T) {
	table, err := parseMap(testMap)
	if err != nil {
		t.Fatalf("parseMap: %v", err)
	}
	for _, tc := range []struct {
		name, files                                       string // files that are gone end in "-"
		changed, own, affected, dependants, bats, leftOut string
		goFiles, scripts, nested                          string
		wantBuild, wantLayers, wantCompat                 bool
	}{
		{
			name: "a leaf", files: "leaf/a.go", changed: "leaf", own: "leaf", affected: "near mid cmd/top", dependants: "mid cmd/top",
			bats: "01-a 02-b", goFiles: "leaf/a.go", wantBuild: true, wantLayers: true,
		},
		{
			name: "embedded", files: "leaf/words.txt", changed: "leaf", own: "leaf", affected: "near mid cmd/top",
			dependants: "mid cmd/top", bats: "01-a 02-b", wantBuild: true,
		},
		{
			name: "embedded below a folder", files: "leaf/pages/one/page.html", changed: "leaf", own: "leaf",
			affected: "near mid cmd/top", dependants: "mid cmd/top", bats: "01-a 02-b", wantBuild: true,
		},
		{
			name: "tests alone", files: "leaf/a_test.go leaf/testdata/x", changed: "leaf", own: "leaf", goFiles: "leaf/a_test.go",
			wantBuild: true, wantLayers: true, wantCompat: true,
		},
		{
			name: "known to tests alone", files: "side/s.go", changed: "side", own: "side", affected: "mid", dependants: "mid",
			bats: "03-c", goFiles: "side/s.go", wantBuild: true, wantLayers: true,
		},
		{
			name: "a changed package is no dependant", files: "mid/m.go leaf/a.go", changed: "leaf mid", own: "leaf mid",
			affected: "near cmd/top", dependants: "cmd/top", bats: "01-a 02-b", goFiles: "mid/m.go leaf/a.go", wantBuild: true, wantLayers: true,
		},
		{
			name: "a file that is gone", files: "leaf/a.go-", changed: "leaf", own: "leaf", affected: "near mid cmd/top",
			dependants: "mid cmd/top", bats: "01-a 02-b", wantBuild: true, wantLayers: true,
		},
		{
			name: "a file with a line of its own", files: "mid/own.go", changed: "mid", own: "mid", affected: "cmd/top", dependants: "cmd/top",
			bats: "04-d", goFiles: "mid/own.go", wantBuild: true, wantLayers: true,
		},
		{name: "a bats file", files: "tests/09-z.bats", bats: "09-z", scripts: "tests/09-z.bats", wantBuild: true, wantCompat: true},
		{name: "a bats file that is gone", files: "tests/09-z.bats-", leftOut: "tests/09-z.bats: no tests are known for it", wantCompat: true},
		{name: "a tool of the tests", files: "tests/lib/x", bats: "01-a", wantBuild: true},
		{
			name: "another module", files: "tests/other/main.go", nested: "tests/other", bats: "05-e", goFiles: "tests/other/main.go",
			wantBuild: true, wantLayers: true,
		},
		{name: "a script", files: "hack/x.sh", scripts: "hack/x.sh", leftOut: "hack/x.sh: no tests are known for it"},
		{name: "of the guest", files: "tests/guest/10-a.bats", scripts: "tests/guest/10-a.bats", leftOut: "tests/guest/10-a.bats: make guest", wantCompat: true},
		{name: "of a swarm", files: "tests/swarm/10-a.bats", scripts: "tests/swarm/10-a.bats", leftOut: "tests/swarm/10-a.bats: make test-swarm", wantCompat: true},
		{name: "the fields", files: "docs/fields.tsv", own: "hack/compat", wantCompat: true},
		{name: "the map", files: "tests/map.txt", own: "hack/quick"},
		{name: "words", files: "README.md"},
		{name: "modules", files: "go.sum", leftOut: "go.sum: the tests of all that uses these modules: make unit"},
	} {
		words := strings.Fields(tc.files)
		files := make([]change, 0, len(words))
		for _, word := range words {
			name, gone := strings.CutSuffix(word, "-")
			files = append(files, change{path: name, gone: gone})
		}
		sel := selectParts(testModule(), table, files)
		for _, part := range []struct {
			name string
			got  []string
			want string
		}{
			{"changed", sel.changed, tc.changed},
			{"own", sel.own, tc.own},
			{"affected", sel.affected, tc.affected},
			{"dependants", sel.dependants, tc.dependants},
			{"bats", sel.bats, tc.bats},
			{"left out", sel.leftOut, tc.leftOut},
			{"Go files", sel.goFiles, tc.goFiles},
			{"scripts", sel.scripts, tc.scripts},
			{"nested", sel.nested, tc.nested},
		} {
			if got := strings.Join(part.got, " "); got != part.want {
				t.Errorf("%s: choose(%s): %s: got %q, want %q", tc.name, tc.files, part.name, got, part.want)
			}
		}
		if sel.build != tc.wantBuild || sel.layers != tc.wantLayers || sel.compat != tc.wantCompat {
			t.Errorf("%s: choose(%s): build %t, layers %t, compat %t, want %t, %t, %t",
				tc.name, tc.files, sel.build, sel.layers, sel.compat, tc.wantBuild, tc.wantLayers, tc.wantCompat)
		}
	}
}

func TestPickBatsTakesTheFirstOfEachList(t *testing.T) {
	var sel selection
	sel.pickBats([][]string{{"a1", "a2", "a3", "a4"}, {"b1", "b2", "b3", "b4"}, {"c1", "a1", "c3", "c4"}})
	if got, want := strings.Join(sel.bats, " "), "a1 a2 a3 b1 b2 b3 c1 c3"; got != want {
		t.Errorf("pickBats: got %q, want %q", got, want)
	}
	if want := []string{"more than 8 bats files: a4 b4 c4"}; !slices.Equal(sel.leftOut, want) {
		t.Errorf("pickBats: left out %q, want %q", sel.leftOut, want)
	}
}

func TestListChanges(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	inGit := func(args ...string) string {
		t.Helper()
		args = append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)
		out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	inGit("init", "-q", "-b", "main")
	for _, name := range []string{"same", "committed", "edited", "removed"} {
		write(name, "1")
	}
	write(".gitignore", "ignored\n")
	inGit("add", ".")
	inGit("commit", "-q", "-m", "one")
	left := inGit("rev-parse", "HEAD")
	inGit("checkout", "-q", "-b", "work")
	write("committed", "2")
	inGit("commit", "-q", "-a", "-m", "two")
	write("edited", "2")
	write("new ü", "2")
	write("ignored", "2")
	if err := os.Remove("removed"); err != nil {
		t.Fatal(err)
	}

	base, err := findBase(t.Context())
	if err != nil || base != left {
		t.Errorf("findBase: got %q, %v, want %q", base, err, left)
	}
	got, err := listChanges(t.Context(), base)
	want := []change{{path: "committed"}, {path: "edited"}, {path: "new ü"}, {path: "removed", gone: true}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("listChanges: got %v, %v, want %v", got, err, want)
	}
	inGit("update-ref", "refs/remotes/origin/main", "HEAD")
	if got, want := must(t, findBase), inGit("rev-parse", "HEAD"); got != want {
		t.Errorf("findBase after a push: got %q, want %q", got, want)
	}
}

func TestReadModule(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":               "module m\n\ngo 1.26\n",
		"a/a.go":               "package a\n\nimport (\n\t_ \"embed\"\n\t_ \"m/b\"\n)\n\n//go:embed x\nvar x []byte\n",
		"a/tagged.go":          "//go:build tagged\n\npackage a\n\nimport _ \"m/c\"\n",
		"a/a_test.go":          "package a_test\n\nimport _ \"m/d\"\n",
		"cmd/p/main.go":        "package main\n\nimport _ \"m/a\"\n\nfunc main() {}\n",
		"hack/tool/main.go":    "package main\n\nfunc main() {}\n",
		"nested/go.mod":        "module n\n",
		"nested/n.go":          "package n\n",
		"a/testdata/broken.go": "not Go",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := readModule(root, []string{"tagged"})
	if err != nil {
		t.Fatalf("readModule: %v", err)
	}
	a := m.pkgs["a"]
	if a == nil || !slices.Equal(a.imports, []string{"b", "c"}) || !slices.Equal(a.testImports, []string{"d"}) || !a.tested || !a.source {
		t.Errorf("readModule: package a: got %+v", a)
	}
	for file, want := range map[string]bool{"a/x": true, "a/y": false, "a/a_test.go": false, "a/new.go": true, "a/below/x.go": false} {
		if got := a.holds(file); got != want {
			t.Errorf("holds(%s) = %t, want %t", file, got, want)
		}
	}
	if got := m.listPrograms(); !slices.Equal(got, []string{"cmd/p"}) {
		t.Errorf("listPrograms: got %q, want [cmd/p]", got)
	}
	if len(m.pkgs) != 3 || !slices.Equal(m.nested, []string{"nested"}) {
		t.Errorf("readModule: got %d packages, nested %q, want 3, [nested]", len(m.pkgs), m.nested)
	}
}
