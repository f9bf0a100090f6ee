package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository makes a small one with the given list and one test of each kind.
func repository(t *testing.T, fields string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"docs/fields.tsv":          fields,
		"docs/fields-later.tsv":    "",
		"tests/12-two.bats":        "@test \"one; and another\" {\n}\n",
		"tests/11-exec.bats":       "@test \"it \\$runs\" {\n}\n# bats test_tags=long, whole\n@test \"sweep\" {\n}\n",
		"tests/13-all.bats":        "# bats file_tags=whole\n\n@test \"all\" {\n}\n",
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

const goodList = "## Part\n### One\n# document 1\none\tall\trule\t\tcarried out\t11-exec: it $runs\n" +
	"### Two\ntwo\t1.22-\trule\tlater\tshown\tengine/exec TestRuns; 11-exec: it $runs\n"

func TestCheckItems(t *testing.T) {
	for _, tc := range []struct {
		name, list, want string
	}{
		{"whole", goodList, ""},
		{"a semicolon in a name", strings.Replace(goodList, "engine/exec TestRuns", "12-two: one; and another; engine/exec TestRuns", 1), ""},
		{"twice", goodList + "one\tall\trule\t\tx\t11-exec: it $runs\n", "one: twice in the list"},
		{"never in the words only", strings.Replace(goodList, "carried out", "never: it cannot", 1), `one: "never" in one of note and words only`},
		{"never in the note only", strings.Replace(goodList, "later", "never", 1), `two: "never" in one of note and words only`},
		{"earlier too in the words only", strings.Replace(goodList, "carried out", "there, earlier too", 1), `one: "earlier too" in one of note and words only`},
		{"earlier too in the note only", strings.Replace(goodList, "later", "earlier too", 1), `two: "earlier too" in one of note and words only`},
		{"earlier too in both", "one\t1.24-\trule\tearlier too\tshown, earlier too\t11-exec: it $runs\n", ""},
		{"never needs no test", "one\t1.24-\trule\tnever\tnever: nothing attaches\t\n", ""},
		{"no words", strings.Replace(goodList, "shown", "", 1), "two: the list does not say what moss does with it"},
		{"no test", strings.Replace(goodList, "\t11-exec: it $runs", "\t", 1), "one: no test is named"},
		{"a test that is not there", strings.Replace(goodList, "TestRuns", "TestWalks", 1), `two: there is no test "engine/exec TestWalks"`},
		{"a hidden test", strings.Replace(goodList, "11-exec: it $runs", "hidden: hidden", 1), `one: there is no test "hidden: hidden"`},
	} {
		root := repository(t, tc.list)
		items := itemsOf(t, root)
		tests, err := findTests(root)
		got := strings.Join(slices.Concat(checkItems(items), checkProofs(items, tests, nil)), "\n")
		if err != nil || got != tc.want {
			t.Errorf("%s: got %q, %v, want %q", tc.name, got, err, tc.want)
		}
	}
}

// TestPage: the page is made from the list, and a page that is not is found.
func TestPage(t *testing.T) {
	root := repository(t, goodList)
	items := itemsOf(t, root)
	if err := writePage(root, items); err != nil {
		t.Fatal(err)
	}
	const head = "| item | versions | kind | moss | tests |\n|---|---|---|---|---|\n"
	const want = "\n## Part\n\n### One\n\n" + head + "| `one` | all | rule | carried out | 11-exec: it $runs |\n" +
		"\n### Two\n\n" + head + "| `two` | 1.22- | rule, later | shown | engine/exec TestRuns; 11-exec: it $runs |\n"
	if got, ok := strings.CutPrefix(formatPage(items), fieldsHead); !ok || got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if findings, err := checkPage(root, items); err != nil || len(findings) > 0 {
		t.Errorf("the page as it was written: got %q, %v", findings, err)
	}
	items[0].does = "a | b"
	if page := formatPage(items); !strings.Contains(page, `| a \| b |`) {
		t.Errorf("a bar in the words ends the cell: %q", page)
	}
	if findings, err := checkPage(root, items); err != nil || len(findings) != 1 {
		t.Errorf("a page that is not what the list gives: got %q, %v, want one finding", findings, err)
	}
}

func itemsOf(t *testing.T, root string) []item {
	t.Helper()
	items, err := readLists(root)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func TestListIsWellFormed(t *testing.T) {
	for line, want := range map[string]string{
		"one\tall":                                             "has 2 columns",
		"one\tall\trule\tsometimes\t\t":                        "is no note",
		"one\t1.x\trule\t\t\t":                                 "1.x",
		"list.Id\tall\ttext\t\t\t":                             "is no kind",
		"list.Id\tall\trule\t\t\t":                             "is no kind",
		"one\tall\tstring\t\t\t":                               "is no kind",
		"GET /info\tall\tstatus\t\t\t":                         "is no kind",
		"GET /info 200\tall\tendpoint\t\t\t":                   "is no kind",
		"GET /events ?since\tall\tstring\t\t\t":                "is no kind",
		"GET /events ?filters=type\tall\tfilters\t\t\t":        "is no kind",
		"any endpoint 400\tall\theader\t\t\t":                  "is no kind",
		"list.Labels\tall\tmap of map of string\tmoss\t\t":     "",
		"GET /events ?since\tall\ttime\t\t\t":                  "",
		"create.Cmd\tall\tstring or array of string\t\t\t":     "",
		"GET /containers/json\tall\tendpoint: -> things\t\t\t": "",
	} {
		_, err := readItems(writeList(t, line))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", line, err, want)
		}
	}
}

func TestCheckRan(t *testing.T) {
	root := repository(t, "one\tall\trule\t\tx\t11-exec: it $runs; engine/exec TestRuns\n")
	items := itemsOf(t, root)
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
		if findings := checkProofs(items, tests, passed); !slices.Equal(findings, want) {
			t.Errorf("%q: got %q, want %q", ran, findings, want)
		}
	}
}

func TestWhatIsNotOfEveryRunNeedNotHavePassed(t *testing.T) {
	root := repository(t, "one\tall\trule\t\tx\t11-exec: it $runs; 11-exec: sweep; 13-all: all\ntwo\tall\trule\t\tx\t11-exec: sweep; 13-all: all\n")
	tests, err := findTests(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"two: all of its tests have the tag whole"}
	if got := checkProofs(itemsOf(t, root), tests, map[string]bool{"it $runs": true}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSkippedHasNotPassed(t *testing.T) {
	passed, err := readPassed(filepath.Join(repository(t, ""), "ran"))
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
