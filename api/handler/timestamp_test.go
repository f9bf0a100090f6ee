package handler

import (
	"testing"
	"time"

	"moss/engine/fault"
)

func TestTimestamp(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want time.Time
		bad  bool
	}{
		{in: ""},
		{in: "0"},
		{in: "5", want: time.Unix(5, 0)},
		{in: "5.25", want: time.Unix(5, 250000000)},
		{in: "1448064000.000000005", want: time.Unix(1448064000, 5)},
		{in: "-5", want: time.Unix(-5, 0)},
		{in: "5.", want: time.Unix(5, 0)},
		{in: "x", bad: true},
		{in: "5.x", bad: true},
		{in: "5.-1", bad: true},
		{in: "5.1234567890", bad: true},
		{in: "9999999999999999", bad: true},
		{in: "10m", bad: true},
	} {
		got, err := timestamp("since", tc.in)
		if tc.bad != (err != nil) || !got.Equal(tc.want) || got.IsZero() != tc.want.IsZero() {
			t.Errorf("timestamp(%q) = %v, %v, want %v, error %v", tc.in, got, err, tc.want, tc.bad)
		}
	}
}

func FuzzTimestamp(f *testing.F) {
	for _, s := range []string{"", "0", "5.25", "-1.999999999", "1.+2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := timestamp("since", s); err != nil && !fault.Is(err, fault.Invalid) {
			t.Fatalf("timestamp(%q) = %v, want an invalid fault", s, err)
		}
	})
}
