package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes files below a folder of their own.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	top := t.TempDir()
	for name, text := range files {
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

func TestMeasureTree(t *testing.T) {
	many := strings.Repeat("func (b *big[K]) Do() {}\n", 41)
	top := tree(t, map[string]string{
		"engine/a/a.go": "package a\n\nimport \"sync\"\n\ntype three struct {\n\tone, two sync.Mutex\n\tthree sync.RWMutex\n\tnot sync.Once\n}\n\n" +
			"type wide interface {\n\tA()\n\tB()\n\tC()\n\tD()\n\tnarrow\n}\n\ntype narrow interface {\n\tE()\n\tF()\n\tG()\n\tH()\n\tI()\n}\n" +
			"// " + strings.Repeat("é", 127) + "\n// " + strings.Repeat("é", 128) + "\n",
		"engine/big/big.go":      "package big\n\ntype big[K any] struct{}\n\n" + many + "func take() {}\n\nfunc (b *big[K]) keep() {}\n\nfunc takeName() {}\n\nfunc init() {}\n" + strings.Repeat("\n", 500),
		"engine/big/big_test.go": "package big\n\nfunc put() {}\n",
		"hack/x/x.go":            "package x\n\n// " + strings.Repeat("x", 200) + "\n",
	})
	got, err := measureTree(top)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"locks engine/a.three": 3, "methods engine/a.wide": 9, "long engine/a": 1, "methods engine/big.big": 42, "words engine/big": 2,
	}
	if !maps.Equal(got, want) {
		t.Errorf("measured %v, want %v", got, want)
	}
}

// TestOnlyShrinks: neither more than is listed nor an entry that is too high is let pass.
func TestOnlyShrinks(t *testing.T) {
	top := tree(t, map[string]string{"engine/a/a.go": "package a\n\n// " + strings.Repeat("x", 200) + "\n"})
	list := filepath.Join(top, "list")
	for text, want := range map[string]string{
		"":                    "long engine/a: 1, at most 0\n",
		"long engine/a 2\n":   "long engine/a: 2 is listed, 1 is measured: lower it\n",
		"long engine/a 1\n":   "",
		"# all\n\nlong e 1\n": "long e: 1 is listed, 0 is measured: lower it\nlong engine/a: 1, at most 0\n",
	} {
		if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		err := run([]string{"-list", list}, top, &said)
		if (err != nil) != (want != "") || want != "" && said.String() != want {
			t.Errorf("with the list %q: %v, %q, want %q", text, err, said.String(), want)
		}
	}
	if err := run([]string{"-list", list, "-update"}, top, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := readList(list); err != nil || !maps.Equal(got, map[string]int{"long engine/a": 1}) {
		t.Errorf("list written anew: %v, %v", got, err)
	}
}
