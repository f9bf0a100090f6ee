package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository makes a small one with the given list, table and one test of each kind.
func repository(t *testing.T, fields, table string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"docs/fields.tsv":          fields,
		"docs/compatibility.md":    table,
		"tests/12-two.bats":        "@test \"one; and another\" {\n}\n",
		"tests/11-exec.bats":       "@test \"it runs\" {\n}\n",
		"engine/exec/ex_test.go":   "func TestRuns(t *testing.T) {\n",
		".cache/tests/hidden.bats": "@test \"hidden\" {\n}\n",
		"ran/bats.tap":             "1..2\nok 1 it runs in 20ms\nok 2 left out in 1ms # skip no kvm\n",
		"ran/go.txt":               "moss/engine/exec TestRuns\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCheckTable(t *testing.T) {
	const list = "# a part\none\tall\ntwo\t1.22-\n"
	const good = "| `one` | all | carried out | 11-exec: it runs |\n| `two` | 1.22- | shown | engine/exec TestRuns; 11-exec: it runs |\n"
	for _, tc := range []struct {
		name, table, want string
	}{
		{"whole", good, ""},
		{"a semicolon in a name", strings.Replace(good, "engine/exec TestRuns", "12-two: one; and another; engine/exec TestRuns", 1), ""},
		{"a row too few", strings.Split(good, "\n")[0], "two: not in the table"},
		{"a row too many", good + "| `three` | all | x | 11-exec: it runs |\n", "three: in the table, not in the list"},
		{"twice", good + "| `one` | all | x | 11-exec: it runs |\n", "one: twice in the table"},
		{"other versions", strings.Replace(good, "1.22-", "1.24-", 1), "two: versions 1.24- in the table, 1.22- in the list"},
		{"no words", strings.Replace(good, "shown", "", 1), "two: the table does not say what moss does with it"},
		{"no test", strings.Replace(good, "| 11-exec: it runs |", "| |", 1), "one: no test is named"},
		{"a test that is not there", strings.Replace(good, "TestRuns", "TestWalks", 1), `two: there is no test "engine/exec TestWalks"`},
		{"a hidden test", strings.Replace(good, "11-exec: it runs", "hidden: hidden", 1), `one: there is no test "hidden: hidden"`},
	} {
		findings, _, err := check(repository(t, list, tc.table), "")
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if got := strings.Join(findings, "\n"); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestEarlierTooIsSaid(t *testing.T) {
	for _, tc := range []struct{ list, does, want string }{
		{"one\t1.24-\tearlier too\n", "shown, earlier too", ""},
		{"one\t1.24-\n", "shown", ""},
		{"one\t1.24-\tearlier too\n", "shown", `one: "earlier too" in one of list and table only`},
		{"one\t1.24-\n", "shown, earlier too", `one: "earlier too" in one of list and table only`},
	} {
		findings, _, err := check(repository(t, tc.list, "| `one` | 1.24- | "+tc.does+" | 11-exec: it runs |\n"), "")
		if got := strings.Join(findings, "\n"); err != nil || got != tc.want {
			t.Errorf("%q and %q: got %q, %v, want %q", tc.list, tc.does, got, err, tc.want)
		}
	}
	if _, err := readItems(writeList(t, "one\tall\tsometimes")); err == nil {
		t.Error("other words behind the versions: got no error")
	}
}

func TestNeverNeedsNoTest(t *testing.T) {
	findings, _, err := check(repository(t, "one\tall\n", "| `one` | all | never: nothing attaches | |\n"), "")
	if err != nil || len(findings) != 0 {
		t.Errorf("check: got %q, %v, want nothing", findings, err)
	}
}

func TestCheckRan(t *testing.T) {
	root := repository(t, "one\tall\n", "| `one` | all | x | 11-exec: it runs; engine/exec TestRuns |\n")
	ran := filepath.Join(root, "ran")
	if findings, _, err := check(root, ran); err != nil || len(findings) != 0 {
		t.Errorf("check: got %q, %v, want nothing", findings, err)
	}
	if err := os.WriteFile(filepath.Join(ran, "bats.tap"), []byte("not ok 1 it runs\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	findings, _, err := check(root, ran)
	if want := []string{`one: the test "11-exec: it runs" did not pass in that run`}; err != nil || !slices.Equal(findings, want) {
		t.Errorf("check: got %q, %v, want %q", findings, err, want)
	}
}

func TestSkippedHasNotPassed(t *testing.T) {
	passed, err := readPassed(filepath.Join(repository(t, "", ""), "ran"))
	if err != nil {
		t.Fatal(err)
	}
	if !passed["it runs"] || passed["left out"] || len(passed) != 2 && !passed["engine/exec TestRuns"] {
		t.Errorf("passed: got %v", passed)
	}
}

func TestCheckShapes(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{"host.Binds\tall", ""},
		{"create.Healthcheck.Test\t1.24-", ""},
		{"inspect.Volumes\t-1.18", ""},
		{"host.ShmSize\tall", "at 1.18"},
		{"host.NoSuchThing\tall", "has no such field"},
		{"image.Config\t1.24-\tearlier too", ""},
		{"image.Config\t1.24-", "at 1.18"},
		{"image.RootFS\tall\tearlier too", "at 1.18"},
	} {
		items, err := readItems(writeList(t, tc.line))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(checkShapes(items), "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%q: got %q, want %q", tc.line, got, tc.want)
		}
	}
}

func TestCheckRoutes(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{"GET /containers/{id}/json ?size\t1.21-", ""},
		{"GET /containers/{id}/json 404\tall", ""},
		{"GET /containers/{id}/nothing\t1.24-", "not served at 1.24"},
	} {
		items, err := readItems(writeList(t, tc.line))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(checkRoutes(items), "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%q: got %q, want %q", tc.line, got, tc.want)
		}
	}
}

func writeList(t *testing.T, line string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fields.tsv")
	if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
