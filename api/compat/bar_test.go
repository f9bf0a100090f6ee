package compat_test

import (
	"math"
	"strings"
	"testing"

	"moss/api/compat"
)

func TestBar(t *testing.T) {
	for _, tc := range []struct {
		current, total int64
		want           string
	}{
		{0, 100, "[>" + strings.Repeat(" ", 49) + "] 0 B/100 B"},
		{50, 100, "[" + strings.Repeat("=", 25) + ">" + strings.Repeat(" ", 24) + "] 50 B/100 B"},
		{100, 100, "[" + strings.Repeat("=", 50) + "] 100 B/100 B"},
		{1500, 0, "1.5 kB"},
		{1500, 1000, "1.5 kB"},
		{12345678, 0, "12.35 MB"},
		{999_999, 0, "1000 kB"},
		{-5, 0, "-5 B"},
		{2e15, 0, "2 PB"},
		{math.MaxInt64, 0, "9.223 EB"},
	} {
		if got := compat.Bar(tc.current, tc.total); got != tc.want {
			t.Errorf("Bar(%d, %d) = %q, want %q", tc.current, tc.total, got, tc.want)
		}
	}
}

func FuzzBar(f *testing.F) {
	f.Add(int64(1), int64(2))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, current, total int64) {
		if got := compat.Bar(current, total); strings.Contains(got, "[") && strings.Index(got, "]") != 51 {
			t.Fatalf("Bar(%d, %d) = %q, want 50 signs between the brackets", current, total, got)
		}
	})
}
