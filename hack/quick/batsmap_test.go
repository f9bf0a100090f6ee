package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func must[T any](t *testing.T, f func(ctx context.Context) (T, error)) T {
	t.Helper()
	v, err := f(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMapIsTrue holds tests/map.txt against the packages and the bats files that there are.
func TestMapIsTrue(t *testing.T) {
	root := filepath.Join("..", "..")
	m, err := readModule(root, buildTags(os.Getenv("GOFLAGS")))
	if err != nil {
		t.Fatalf("readModule: %v", err)
	}
	want := []string{"cmd/moss", "cmd/moss-log", "cmd/moss-shim", "cmd/moss-swarm", "cmd/mossd"}
	if got := m.listPrograms(); !slices.Equal(got, want) {
		t.Errorf("listPrograms: got %q, want %q", got, want)
	}
	text, err := os.ReadFile(filepath.Join(root, mapFile))
	if err != nil {
		t.Fatal(err)
	}
	table, err := parseMap(string(text))
	if err != nil {
		t.Fatalf("%s: %v", mapFile, err)
	}
	findings, err := table.check(m, root)
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	for _, finding := range findings {
		t.Errorf("%s: %s", mapFile, finding)
	}
}

func TestCheckFinds(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"tests/01-a.bats", "tests/02-b.bats", "tests/lib/x", "tests/run.sh"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const good = "leaf|01-a\nnear|01-a\nmid|01-a\ncmd/...|02-b\ntests/lib/x|01-a\ntests/run.sh|01-a\n"
	for _, tc := range []struct{ name, text, want string }{
		{"good", good, ""},
		{"no line for a package", strings.Replace(good, "mid|", "side|", 1), "mid: no line for this package"},
		{"a line above is not enough without dots", strings.Replace(good, "cmd/...", "tests/lib", 1), "cmd/top: no line for this package"},
		{"a bats file that no line names", strings.Replace(good, "02-b", "01-a", 1), "tests/02-b.bats: no line names it"},
		{"a bats file that is not there", strings.Replace(good, "02-b", "02-b 03-c", 1), "cmd/...: no tests/03-c.bats"},
		{"a package that is not there", good + "gone|01-a\n", "gone: neither a package nor a file"},
		{"a folder without packages", good + "gone/...|01-a\n", "gone/...: neither a package nor a file"},
		{"too many", strings.Replace(good, "02-b", "02-b 01-a 01-a 01-a 01-a 01-a", 1), "cmd/...: 01-a twice; cmd/...: 6 files, at most 5"},
		{"a file of tests/lib", strings.Replace(good, "tests/lib/x|01-a\n", "", 1), "tests/lib/x: no line for this file"},
	} {
		table, err := parseMap(tc.text)
		if err != nil {
			t.Fatalf("%s: parseMap: %v", tc.name, err)
		}
		findings, err := table.check(testModule(), root)
		got := strings.Join(slices.Compact(findings), "; ")
		if err != nil || got != tc.want {
			t.Errorf("%s: check: got %q, %v, want %q", tc.name, got, err, tc.want)
		}
	}
}

func TestParseMapRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no bar":     "a 01-a",
		"no pattern": "| 01-a",
		"no files":   "a |",
		"twice":      "a | 01-a\na | 01-a",
	} {
		if _, err := parseMap(text); err == nil {
			t.Errorf("%s: parseMap(%q) = no error, want one", name, text)
		}
	}
}
