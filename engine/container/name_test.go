package container

import (
	"math/rand/v2"
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestCheckName(t *testing.T) {
	for _, good := range []string{"web", "/web", "a1", "a.b-c_d", "0x", "a", "_web", "-web", "a."} {
		if got, err := CheckName(good); err != nil || got != strings.TrimPrefix(good, "/") {
			t.Errorf("CheckName(%q) = %q, %v", good, got, err)
		}
	}
	for _, bad := range []string{"", "/", ".web", "_a.b", "we b", "web/db", "//web", "wäb", "web\n", "a:b"} {
		_, err := CheckName(bad)
		want := "Invalid container name (" + bad + "), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"
		if !fault.Is(err, fault.Invalid) || err.Error() != want {
			t.Errorf("CheckName(%q) error = %v, want %s", bad, err, want)
		}
	}
}

func TestRandomName(t *testing.T) {
	seen := map[string]bool{}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same names each time
	for try := range 4 {
		for range 200 {
			name := RandomName(random.IntN, try)
			if _, err := CheckName(name); err != nil || strings.Count(name, "_") != 1 {
				t.Fatalf("RandomName gave %q: %v", name, err)
			}
			if hasDigit := strings.ContainsAny(name, "0123456789"); hasDigit != (try > 0) {
				t.Errorf("RandomName(try %d) = %q", try, name)
			}
			seen[name] = true
		}
	}
	if len(seen) < 700 {
		t.Errorf("800 names hold only %d different ones", len(seen))
	}
}

func TestRandomNameWordsAreUnique(t *testing.T) {
	for _, list := range []string{adjectives, plantNames} {
		seen := map[string]bool{}
		for word := range strings.FieldsSeq(list) {
			if seen[word] || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
				t.Errorf("word %q is there twice or is not lower-case letters", word)
			}
			seen[word] = true
		}
	}
}
