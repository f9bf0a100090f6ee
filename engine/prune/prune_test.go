package prune_test

import (
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/prune"
)

func TestTakes(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	labels := map[string]string{"tier": "web", "keep": ""}
	for _, tc := range []struct {
		name    string
		filters map[string][]string
		want    bool
	}{
		{"nothing asked", nil, true},
		{"a label", map[string][]string{"label": {"tier"}}, true},
		{"a label with its value", map[string][]string{"label": {"tier=web"}}, true},
		{"another value", map[string][]string{"label": {"tier=db"}}, false},
		{"all labels are needed", map[string][]string{"label": {"tier", "other"}}, false},
		{"a label that must not be there", map[string][]string{"label!": {"keep"}}, false},
		{"one that is not there", map[string][]string{"label!": {"other", "tier=db"}}, true},
		{"older than an hour", map[string][]string{"until": {"1h"}}, true},
		{"older than three hours", map[string][]string{"until": {"3h"}}, false},
		{"before a date", map[string][]string{"until": {"2026-11-21T11:00:00Z"}}, true},
		{"before an earlier date", map[string][]string{"until": {"2026-11-21T09:00:00Z"}}, false},
		{"exactly then", map[string][]string{"until": {"2026-11-21T10:00:00Z"}}, false},
		{"in Unix seconds", map[string][]string{"until": {"1795255201.5"}}, true},
	} {
		f, err := prune.New(tc.filters, now, prune.Label, prune.NotLabel, prune.Until)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if got := f.Takes(labels, now.Add(-2*time.Hour)); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, filters := range map[string]map[string][]string{
		"an unknown filter":    {"dangling": {"true"}},
		"one not allowed here": {"until": {"1h"}},
	} {
		if _, err := prune.New(filters, time.Now(), prune.Label); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v, want fault.Invalid", name, err)
		}
	}
	for _, values := range [][]string{{"soon"}, {""}, {"1h", "2h"}, {}, {"1.1234567891"}, {"9999999999999999"}, {"1.x"}} {
		if _, err := prune.New(map[string][]string{"until": values}, time.Now(), prune.Until); !fault.Is(err, fault.Invalid) {
			t.Errorf("until %q: got %v, want fault.Invalid", values, err)
		}
	}
}

func TestParseTime(t *testing.T) {
	now := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	local := func(y int, m time.Month, d, h, mi, s int) time.Time {
		return time.Date(y, m, d, h, mi, s, 0, time.Local) //nolint:gosmopolitan // that is what clients mean
	}
	for text, want := range map[string]time.Time{
		"10m": now.Add(-10 * time.Minute), "1h30m": now.Add(-90 * time.Minute), "0": time.Unix(0, 0), "1500000000": time.Unix(1_500_000_000, 0),
		"1500000000.5": time.Unix(1_500_000_000, 5e8), "2019-01-02": local(2019, 1, 2, 0, 0, 0), "2019-01-02T03": local(2019, 1, 2, 3, 0, 0),
		"2019-01-02T03:04": local(2019, 1, 2, 3, 4, 0), "2019-01-02T03:04:05": local(2019, 1, 2, 3, 4, 5),
		"2019-01-02T03:04:05Z": time.Date(2019, 1, 2, 3, 4, 5, 0, time.UTC), "2019-01-02T03:04:05.5+01:00": time.Date(2019, 1, 2, 2, 4, 5, 5e8, time.UTC),
		"2019-01-02Z": time.Date(2019, 1, 2, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := prune.ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("ParseTime(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"1h", "1795255201.5", "2026-11-21", "2026-11-21T10:00:00+01:00", "0", "-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := prune.ParseTime(text, time.Unix(1795255200, 0))
		if err != nil && (!fault.Is(err, fault.Invalid) || !at.IsZero()) {
			t.Errorf("ParseTime(%q) = %v, %v, want fault.Invalid and no time", text, at, err)
		}
	})
}
