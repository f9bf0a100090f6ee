package handler

import (
	"testing"
	"time"

	"moss/engine/fault"
)

func TestTimestamp(t *testing.T) {
	east := time.FixedZone("", 2*60*60)
	now := time.Date(2015, 11, 21, 10, 30, 0, 500, east)
	date := func(hour, minute, second, nano int, zone *time.Location) time.Time {
		return time.Date(2013, 1, 2, hour, minute, second, nano, zone)
	}
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
		{in: "10m", want: now.Add(-10 * time.Minute)},
		{in: "1h1m1.5s", want: now.Add(-time.Hour - time.Minute - 1500*time.Millisecond)},
		{in: "1.5h", want: now.Add(-90 * time.Minute)},
		{in: "-10m", want: now.Add(10 * time.Minute)},
		{in: "0s", want: now},
		{in: "2013-01-02T03:04:05Z", want: date(3, 4, 5, 0, time.UTC)},
		{in: "2013-01-02T03:04:05.000000006Z", want: date(3, 4, 5, 6, time.UTC)},
		{in: "2013-01-02T03:04:05.5-05:00", want: date(8, 4, 5, 500000000, time.UTC)},
		{in: "2013-01-02T03:04:05+02:00", want: date(3, 4, 5, 0, east)},
		{in: "2013-01-02T03:04:05", want: date(3, 4, 5, 0, east)},
		{in: "2013-01-02T03:04:05.000000006", want: date(3, 4, 5, 6, east)},
		{in: "2013-01-02T03:04", want: date(3, 4, 0, 0, east)},
		{in: "2013-01-02T03:04Z", want: date(3, 4, 0, 0, time.UTC)},
		{in: "2013-01-02T03", want: date(3, 0, 0, 0, east)},
		{in: "2013-01-02T03Z", want: date(3, 0, 0, 0, time.UTC)},
		{in: "2013-01-02", want: date(0, 0, 0, 0, east)},
		{in: "2013-01-02Z", want: date(0, 0, 0, 0, time.UTC)},
		{in: "2013-01-02-05:00", want: date(5, 0, 0, 0, time.UTC)},
		{in: "x", bad: true},
		{in: "5.x", bad: true},
		{in: "5.-1", bad: true},
		{in: "5.1234567890", bad: true},
		{in: "9999999999999999", bad: true},
		{in: "10", want: time.Unix(10, 0)},
		{in: "10 m", bad: true},
		{in: "2013-13-02", bad: true},
		{in: "2013-01-02T25:00:00Z", bad: true},
		{in: "2013-01-02 03:04:05", bad: true},
		{in: "yesterday", bad: true},
	} {
		got, err := parseTimestamp("since", tc.in, now)
		if tc.bad != (err != nil) || !got.Equal(tc.want) || got.IsZero() != tc.want.IsZero() {
			t.Errorf("timestamp(%q) = %v, %v, want %v, error %v", tc.in, got, err, tc.want, tc.bad)
		}
	}
}

func FuzzTimestamp(f *testing.F) {
	for _, s := range []string{"", "0", "5.25", "-1.999999999", "1.+2", "10m", "-1.5h", "2013-01-02T03:04:05.000000006+02:00", "2013-01-02"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := parseTimestamp("since", s, time.Unix(1448064000, 0)); err != nil && !fault.Is(err, fault.Invalid) {
			t.Fatalf("timestamp(%q) = %v, want an invalid fault", s, err)
		}
	})
}
