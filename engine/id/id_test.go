package id_test

import (
	"strings"
	"testing"

	"moss/engine/id"
)

func TestNew(t *testing.T) {
	seen := make(map[string]bool)
	for range 20000 { // one in 282 random ids begins with twelve decimal digits
		s := id.New()
		if !id.Is(s) || len(s) != id.Len {
			t.Fatalf("New = %q, not an id", s)
		}
		if seen[s] {
			t.Fatalf("New gave %q twice", s)
		}
		seen[s] = true
		if strings.Trim(id.Short(s), "0123456789") == "" {
			t.Fatalf("New = %q, whose short form is a number", s)
		}
	}
}

func TestShort(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 4)
	for _, tc := range []struct{ in, want string }{
		{long, "0123456789ab"},
		{"sha256:" + long, "0123456789ab"},
		{"0123456789ab", "0123456789ab"},
		{"0123456789abc", "0123456789ab"},
		{"abc", "abc"},
		{"sha256:abc", "abc"},
		{"", ""},
	} {
		if got := id.Short(tc.in); got != tc.want {
			t.Errorf("Short(%q) = %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestIs(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, tc := range []struct {
		in         string
		is, prefix bool
	}{
		{long, true, true},
		{strings.Repeat("0", 64), true, true},
		{long[:63], false, true},
		{long + "a", false, false},
		{"0", false, true},
		{"", false, false},
		{"ABC", false, false},
		{strings.ToUpper(long), false, false},
		{"ag", false, false},
		{"sha256:ab", false, false},
		{"ab\n", false, false},
		{"a b", false, false},
		{long[:63] + "ä"[:1], false, false},
	} {
		if got := id.Is(tc.in); got != tc.is {
			t.Errorf("Is(%q) = %t, want %t", tc.in, got, tc.is)
		}
		if got := id.IsPrefix(tc.in); got != tc.prefix {
			t.Errorf("IsPrefix(%q) = %t, want %t", tc.in, got, tc.prefix)
		}
	}
}
