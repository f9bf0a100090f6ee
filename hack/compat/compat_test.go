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
		"tests/11-exec.bats":       "@test \"it \\$runs\" {\n}\n",
		"engine/exec/ex_test.go":   "func TestRuns(t *testing.T) {\n",
		".cache/tests/hidden.bats": "@test \"hidden\" {\n}\n",
		"ran/bats.tap":             "1..2\nok 1 it $runs in 20ms\nok 2 left out in 1ms # skip no kvm\n",
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
	const list = "# a part\none\tall\trule\ntwo\t1.22-\trule\n"
	const good = "| `one` | all | carried out | 11-exec: it $runs |\n| `two` | 1.22- | shown | engine/exec TestRuns; 11-exec: it $runs |\n"
	for _, tc := range []struct {
		name, table, want string
	}{
		{"whole", good, ""},
		{"a semicolon in a name", strings.Replace(good, "engine/exec TestRuns", "12-two: one; and another; engine/exec TestRuns", 1), ""},
		{"a row too few", strings.Split(good, "\n")[0], "two: not in the table"},
		{"a row too many", good + "| `three` | all | x | 11-exec: it $runs |\n", "three: in the table, not in the list"},
		{"never", strings.Replace(good, "carried out", "never: it cannot", 1), `one: "never" in one of list and table only`},
		{"twice", good + "| `one` | all | x | 11-exec: it $runs |\n", "one: twice in the table"},
		{"other versions", strings.Replace(good, "1.22-", "1.24-", 1), "two: versions 1.24- in the table, 1.22- in the list"},
		{"no words", strings.Replace(good, "shown", "", 1), "two: the table does not say what moss does with it"},
		{"no test", strings.Replace(good, "| 11-exec: it $runs |", "| |", 1), "one: no test is named"},
		{"a test that is not there", strings.Replace(good, "TestRuns", "TestWalks", 1), `two: there is no test "engine/exec TestWalks"`},
		{"a hidden test", strings.Replace(good, "11-exec: it $runs", "hidden: hidden", 1), `one: there is no test "hidden: hidden"`},
	} {
		got, err := differences(t, list, tc.table)
		if err != nil || got != tc.want {
			t.Errorf("%s: got %q, %v, want %q", tc.name, got, err, tc.want)
		}
	}
}

func TestNotesAreSaid(t *testing.T) {
	for _, tc := range []struct{ list, does, want string }{
		{"one\t1.24-\trule\tearlier too\n", "shown, earlier too", ""},
		{"one\t1.24-\trule\n", "shown", ""},
		{"one\t1.24-\trule\tearlier too\n", "shown", `one: "earlier too" in one of list and table only`},
		{"one\t1.24-\trule\n", "shown, earlier too", `one: "earlier too" in one of list and table only`},
		{"one\t1.24-\trule\tnever\n", "never: nothing attaches", ""},
		{"one\t1.24-\trule\tnever\n", "shown", `one: "never" in one of list and table only`},
		{"one\t1.24-\trule\none\t1.24-\trule\n", "shown", "one: twice in the list"},
	} {
		proof := "11-exec: it $runs"
		if strings.HasPrefix(tc.does, notApplicable) {
			proof = "" // it needs none
		}
		got, err := differences(t, tc.list, "| `one` | 1.24- | "+tc.does+" | "+proof+" |\n")
		if err != nil || got != tc.want {
			t.Errorf("%q and %q: got %q, %v, want %q", tc.list, tc.does, got, err, tc.want)
		}
	}
}

// differences returns what a list and a table lack of each other, and the table of proofs.
func differences(t *testing.T, list, table string) (string, error) {
	t.Helper()
	root := repository(t, list, table)
	items, err := readItems(filepath.Join(root, "docs", "fields.tsv"))
	if err != nil {
		return "", err
	}
	rows, err := readTable(filepath.Join(root, "docs", "compatibility.md"))
	if err != nil {
		return "", err
	}
	tests, err := findTests(root)
	return strings.Join(append(compareItems(items, rows), checkProofs(rows, tests, nil)...), "\n"), err
}

func TestListIsWellFormed(t *testing.T) {
	for line, want := range map[string]string{
		"one\tall":                                       "has 2 columns",
		"one\tall\trule\tsometimes":                      "is no note",
		"one\t1.x\trule":                                 "1.x",
		"list.Id\tall\ttext":                             "is no kind",
		"list.Id\tall\trule":                             "is no kind",
		"one\tall\tstring":                               "is no kind",
		"GET /info\tall\tstatus":                         "is no kind",
		"GET /info 200\tall\tendpoint":                   "is no kind",
		"GET /events ?since\tall\tstring":                "is no kind",
		"GET /events ?filters=type\tall\tfilters":        "is no kind",
		"any endpoint 400\tall\theader":                  "is no kind",
		"list.Labels\tall\tmap of map of string\tmoss":   "",
		"GET /events ?since\tall\ttime":                  "",
		"create.Cmd\tall\tstring or array of string":     "",
		"GET /containers/json\tall\tendpoint: -> things": "",
	} {
		_, err := readItems(writeList(t, line))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", line, err, want)
		}
	}
}

func TestCheckRan(t *testing.T) {
	root := repository(t, "", "| `one` | all | x | 11-exec: it $runs; engine/exec TestRuns |\n")
	rows, err := readTable(filepath.Join(root, "docs", "compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := findTests(root)
	if err != nil {
		t.Fatal(err)
	}
	for ran, want := range map[string][]string{
		"ok 1 it $runs in 20ms\nmoss/engine/exec TestRuns\n":       nil,
		"not ok 1 it $runs\nmoss/engine/exec TestRuns\n":           {`one: the test "11-exec: it $runs" did not pass in that run`},
		"ok 1 it $runs # skip no kvm\nmoss/engine/exec TestRuns\n": {`one: the test "11-exec: it $runs" did not pass in that run`},
		"ok 1 it $runs\nmoss/engine/exec TestWalks\n":              {`one: the test "engine/exec TestRuns" did not pass in that run`},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "tap"), []byte(ran), 0o600); err != nil {
			t.Fatal(err)
		}
		passed, err := readPassed(dir)
		if err != nil {
			t.Fatal(err)
		}
		if findings := checkProofs(rows, tests, passed); !slices.Equal(findings, want) {
			t.Errorf("%q: got %q, want %q", ran, findings, want)
		}
	}
}

func TestSkippedHasNotPassed(t *testing.T) {
	passed, err := readPassed(filepath.Join(repository(t, "", ""), "ran"))
	if err != nil {
		t.Fatal(err)
	}
	if !passed["it $runs"] || passed["left out"] || len(passed) != 2 && !passed["engine/exec TestRuns"] {
		t.Errorf("passed: got %v", passed)
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
