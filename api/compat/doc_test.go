package compat_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestIndex holds what the package's comment says of tests against those that there are.
func TestIndex(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var written strings.Builder
	files, err := filepath.Glob("../*/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		written.Write(raw)
	}
	rows := 0
	for line := range strings.Lines(string(doc)) {
		if !strings.HasPrefix(line, "//\t") {
			continue
		}
		rows++
		_, proofs, found := strings.Cut(strings.TrimSpace(line), "; ")
		if !found {
			t.Errorf("no proof in %q", line)
			continue
		}
		for proof := range strings.SplitSeq(proofs, ", ") {
			if regexp.MustCompile(`^(Test|Fuzz)\w+$`).MatchString(proof) {
				if !strings.Contains(written.String(), "func "+proof+"(") {
					t.Errorf("there is no %s: %q", proof, line)
				}
				continue
			}
			if _, err := os.Stat("../../tests/" + proof + ".bats"); err != nil {
				t.Errorf("there is no tests/%s.bats: %q", proof, line)
			}
		}
	}
	if rows < 30 {
		t.Errorf("the index has %d rows: it is not read whole", rows)
	}
}
