package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestResumable(t *testing.T) {
	for _, tc := range []struct {
		name          string
		before, after []string // after: what comes from the beginning on
		want          string
		gap           bool
	}{
		{name: "nothing was shown", after: []string{"a\n", "b\n"}, want: "a\nb\n"},
		{name: "in the middle of a line", before: []string{"a\nb"}, after: []string{"a\nbc\n"}, want: "a\nbc\n"},
		{name: "in other pieces", before: []string{"ab", "cd"}, after: []string{"a", "bcde", "f"}, want: "abcdef"},
		{name: "nothing new", before: []string{"ab"}, after: []string{"ab"}, want: "ab"},
		{name: "another stream", before: []string{"ab"}, after: []string{"bcd"}, want: "ab", gap: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			f := newFollowed(&out, &out, true)
			if err := f.copyStream(strings.NewReader(strings.Join(tc.before, ""))); err != nil {
				t.Fatal(err)
			}
			f.stdout.rewindStream()
			var err error
			for _, piece := range tc.after {
				if _, failed := f.stdout.Write([]byte(piece)); failed != nil {
					err = failed
				}
			}
			if out.String() != tc.want || errors.Is(err, errGap) != tc.gap {
				t.Errorf("%q then %q: got %q, %v, want %q, a gap: %t", tc.before, tc.after, out.String(), err, tc.want, tc.gap)
			}
		})
	}
	var out strings.Builder
	f := newFollowed(&out, &out, true)
	if err := f.copyStream(strings.NewReader("abc")); err != nil {
		t.Fatal(err)
	}
	if err := f.resumeLog(strings.NewReader("ab")); !errors.Is(err, errGap) {
		t.Errorf("resume of a shorter log = %v, want a gap", err)
	}
}

func TestLineTimes(t *testing.T) {
	at := func(seconds int) string {
		return time.Unix(int64(seconds), 0).UTC().Format("2006-01-02T15:04:05.000000000Z07:00")
	}
	for _, tc := range []struct {
		name  string
		lines string
		last  int
		want  int // seconds; 0: since always
		ok    bool
	}{
		{"an empty log", "", 3, 0, true},
		{"a shorter log", at(1) + " a\n" + at(1) + " b\n", 2, 0, true},
		{"a line before", at(1) + " a\n" + at(2) + " b\n" + at(3) + " c\n", 2, 2, true},
		{"lines out of order", at(1) + " a\n" + at(3) + " b\n" + at(2) + " c\n", 2, 2, true},
		{"a line before of the same moment", at(1) + " a\n" + at(1) + " b\n" + at(3) + " c\n", 2, 0, false},
		{"a line before that is later", at(3) + " a\n" + at(2) + " b\n" + at(3) + " c\n", 2, 0, false},
		{"a line longer than its time", at(1) + " " + strings.Repeat("x", 100) + "\n" + at(2) + " b\n", 1, 2, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var times lineTimes
			for piece := range slices.Chunk([]byte(tc.lines), 7) {
				if _, err := times.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			got, ok := times.startOfLast(tc.last)
			if ok != tc.ok || ok && !got.IsZero() != (tc.want != 0) || ok && tc.want != 0 && got.Unix() != int64(tc.want) {
				t.Errorf("since(%d) = %s, %t, want %d s, %t", tc.last, got, ok, tc.want, tc.ok)
			}
		})
	}
	times := lineTimes{}
	_, _ = times.Write([]byte(at(5) + " a\n"))
	if got, ok := times.startOfLast(0); !ok || got.UnixNano() != 5e9+1 {
		t.Errorf("after the last line: %s, %t", got, ok)
	}
}
