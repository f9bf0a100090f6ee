package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPromises(t *testing.T) {
	const head = "# Page\n\n| promise | test |\n|---|---|\n"
	for _, tc := range []struct{ name, text, want string }{
		{"whole", head + "| nothing leaks | 11-exec: it $runs; engine/exec TestRuns |\n", ""},
		{"no test", head + "| nothing leaks | |\n", "docs/page.md: nothing leaks: no test is named"},
		{"an unknown test", head + "| nothing leaks | 11-exec: it walks |\n", `docs/page.md: nothing leaks: there is no test "11-exec: it walks"`},
		{"a second table", head + "| a | 11-exec: it $runs |\n\n## More\n\n| promise | test |\n|---|---|\n| b | |\n", "docs/page.md: b: no test is named"},
		{"no table", "# Page\n", "docs/page.md: no table of promises"},
	} {
		root := repository(t, "")
		if err := os.WriteFile(filepath.Join(root, "docs", "page.md"), []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		tests, err := findTests(root)
		if err != nil {
			t.Fatal(err)
		}
		promises, err := readPromises(root, "docs/page.md")
		got := strings.Join(checkProofs(promises, tests, nil), "\n")
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestLeftOut: a run that could not be whole proves nothing, and the last line says so.
func TestLeftOut(t *testing.T) {
	ran := t.TempDir()
	if _, _, err := checkList("../..", ran, false); err == nil {
		t.Error("a run without any test is taken for one")
	}
	if err := os.WriteFile(filepath.Join(ran, "guest.left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	findings, count, err := checkList("../..", ran, false)
	if err != nil || len(findings) > 0 {
		t.Fatalf("got %q, %v, want nothing", findings, err)
	}
	var out strings.Builder
	if err := writeReport(&out, findings, count, leftOut(ran)); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), " items, 0 findings; not held against a run: left out are guest\n") {
		t.Errorf("got %q", out.String())
	}
}
