package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const testRules = `
# a comment
leaf        :
mid         : leaf
mid/special : leaf side   # a longer prefix wins
side        : leaf
top         : mid
test mid    : side
test .      : leaf
`

func mustParse(t *testing.T, text string) ruleSet {
	t.Helper()
	rules, err := parseRules(text)
	if err != nil {
		t.Fatalf("parseRules: %v", err)
	}
	return rules
}

func TestParseRulesRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no colon":       "leaf",
		"two prefixes":   "leaf mid : x",
		"no prefix":      " : leaf",
		"twice":          "leaf :\nleaf :",
		"unknown target": "leaf : nowhere",
	} {
		if _, err := parseRules(text); err == nil {
			t.Errorf("%s: parseRules(%q) = no error, want one", name, text)
		}
	}
}

func TestJudge(t *testing.T) {
	rules := mustParse(t, testRules)
	for _, tc := range []struct {
		name, from, to string
		test           bool
		want           string
	}{
		{name: "allowed", from: "mid", to: "m/leaf"},
		{name: "allowed below the prefix", from: "mid", to: "m/leaf/deep"},
		{name: "not allowed", from: "leaf", to: "m/mid", want: "leaf: may not import mid"},
		{name: "own part", from: "mid", to: "m/mid/other"},
		{name: "a part its whole", from: "mid/other", to: "m/mid", want: "mid/other: may not import mid"},
		{name: "siblings", from: "mid/other", to: "m/mid/third", want: "mid/other: may not import mid/third"},
		{name: "longest prefix wins", from: "mid/special", to: "m/side"},
		{name: "the shorter prefix has less", from: "mid/other", to: "m/side", want: "mid/other: may not import side"},
		{name: "test file may more", from: "mid/other", to: "m/side", test: true},
		{name: "test file not everything", from: "leaf", to: "m/mid", test: true, want: "leaf: may not import mid in a test file"},
		{name: "a parent's rule is no grant", from: "mid", to: "m/mid/special", want: "mid: may not import mid/special"},
		{name: "prefix of a word is no prefix", from: "mid", to: "m/leaflet", want: "mid: imports leaflet, which no rule covers"},
		{name: "another module", from: "leaf", to: "example.com/leaf"},
		{name: "standard library", from: "leaf", to: "net/http"},
	} {
		got := strings.Join(rules.judgeImport("m", tc.from, tc.to, tc.test), "; ")
		if got != tc.want {
			t.Errorf("%s: judge(%s, %s) = %q, want %q", tc.name, tc.from, tc.to, got, tc.want)
		}
	}
}

func TestRunOnTree(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module m\n\ngo 1.26\n",
		"layers.txt":        "leaf :\nmid : side leaf\nside : leaf\ngone :\ntest mid : leaf/part side\n",
		"leaf/leaf.go":      "package leaf\n",
		"mid/mid.go":        "package mid\n\nimport _ \"m/leaf\"\n",
		"leaf/leaf_test.go": "package leaf_test\n\nimport _ \"m/mid\"\n",
		"lost/lost.go":      "package lost\n\nimport _ \"m/leaf\"\n",
		"mid/mid_test.go":   "package mid_test\n\nimport _ \"m/side\"\n",
		"side/side.go":      "package side\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-rules", "layers.txt"}, &out); err == nil {
		t.Errorf("run on a tree that breaks rules = no error, want one")
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		"leaf: may not import mid in a test file", "lost: no rule covers this package",
		"rule gone: no package has it", "rule mid: only test files import side", "rule side: nothing imports leaf",
		"rule test mid: nothing imports leaf/part",
	}
	if !slices.Equal(got, want) {
		t.Errorf("findings = %q, want %q", got, want)
	}

	out.Reset()
	if err := run(t.Context(), []string{"-rules", "layers.txt", "./mid"}, &out); err != nil {
		t.Errorf("run on a clean package = %v\n%s", err, out.String())
	}
}
