package arg_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"moss/cmd/moss/arg"
)

func TestLink(t *testing.T) {
	for text, want := range map[string]string{
		"db": "db:db", "db:www": "db:www", "/db": "db:db", "/db:/www": "db:www", "": "!", ":a": "!", "a:": "!", "a:b:c": "!", "/": "!",
	} {
		got, err := arg.Link(text)
		if (err != nil) != (want == "!") || err == nil && got != want {
			t.Errorf("Link(%q) = %q, %v, want %s", text, got, err, want)
		}
	}
}

func TestDeviceValue(t *testing.T) {
	for text, want := range map[string]string{
		"/dev/sda:1mb": "/dev/sda 1mb", "/dev/disk/by-id/a:b:5": "/dev/disk/by-id/a:b 5", "/dev/sda": "!", "/dev/sda:": "!", "sda:5": "!", "": "!",
	} {
		path, value, err := arg.DeviceValue("device-read-bps", text)
		if (err != nil) != (want == "!") || err == nil && path+" "+value != want {
			t.Errorf("DeviceValue(%q) = %q, %q, %v, want %s", text, path, value, err, want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "device-read-bps ") {
			t.Errorf("DeviceValue(%q) = %v, want the flag's name in it", text, err)
		}
	}
}

func TestPairs(t *testing.T) {
	got, err := arg.Pairs("opt", []string{"a=1", "b=", "a=c=d"})
	if err != nil || !maps.Equal(got, map[string]string{"a": "c=d", "b": ""}) {
		t.Errorf("Pairs = %v, %v", got, err)
	}
	if got, err := arg.Pairs("opt", nil); got != nil || err != nil {
		t.Errorf("Pairs of nothing = %v, %v, want nil", got, err)
	}
	if _, err := arg.Pairs("opt", []string{"a"}); err == nil {
		t.Error("a pair without = passes")
	}
}

func TestUnix(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 60, time.UTC)
	for text, want := range map[string]time.Time{"1": time.Unix(1, 0), "1.5": time.Unix(1, 500_000_000), "1.000000001": time.Unix(1, 1)} {
		if got, err := arg.Unix(text); err != nil || !got.Equal(want) {
			t.Errorf("Unix(%s) = %v, %v, want %v", text, got, err, want)
		}
	}
	text, err := arg.Time(at.Format(time.RFC3339Nano), at)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := arg.Unix(text); err != nil || !got.Equal(at) {
		t.Errorf("Unix(Time(%v)) = %v, %v", at, got, err)
	}
	for _, text := range []string{"", "x", "1.x"} {
		if _, err := arg.Unix(text); err == nil {
			t.Errorf("Unix(%q) passes, want an error", text)
		}
	}
}

func TestCount(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "17": 17, "-1": -1, "x": -1, "": -1} {
		got, err := arg.Count("tail", text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("Count(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
}
