package stdio

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

func FuzzWholeRunes(f *testing.F) {
	for _, s := range []string{"", "a", "ä", "\xe2\x82", "a\xff", "\xf0\x9f\x98"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		got := p[:WholeRunes(p)]
		if !bytes.HasPrefix(p, got) || len(p)-len(got) >= utf8.UTFMax {
			t.Errorf("WholeRunes(%q) = %q", p, got)
		}
		if utf8.Valid(p) && len(got) != len(p) {
			t.Errorf("WholeRunes(%q) = %q leaves something out", p, got)
		}
	})
}
