package show_test

import (
	"testing"
	"time"

	"moss/cmd/moss/show"
)

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0B", 12: "12B", 999: "999B", 1000: "1kB", 1234: "1.23kB", 999_499: "999kB", 999_500: "1MB", 4_670_000: "4.67MB",
		123_456_789: "123MB", 9_223_372_036_854_775_807: "9.22EB", -1: "-1B",
	} {
		if got := show.Size(bytes); got != want {
			t.Errorf("Size(%d) = %s, want %s", bytes, got, want)
		}
	}
}

func TestSince(t *testing.T) {
	now := time.Now()
	for d, want := range map[time.Duration]string{
		-time.Second: "Less than a second ago", 0: "Less than a second ago", time.Second: "1 second ago",
		time.Minute: "About a minute ago", 3 * time.Minute: "3 minutes ago", 72 * time.Hour: "3 days ago",
	} {
		if got := show.Since(now.Add(-d), now); got != want {
			t.Errorf("Since %s = %s, want %s", d, got, want)
		}
	}
}

func TestShortening(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{show.ID("sha256:0123456789abcdef"), "0123456789ab"},
		{show.ID("0123"), "0123"},
		{show.Shorten("löngest", 5), "löng…"},
		{show.Shorten("short", 5), "short"},
		{show.Plain("a\x1b[2Jb\u009bc\td"), "a?[2Jb?c\td"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}

func TestValue(t *testing.T) {
	got, err := show.Value([]byte(`{"a":[9007199254740993,1.5,1e400]}`))
	if err != nil {
		t.Fatal(err)
	}
	list := got.(map[string]any)["a"].([]any)
	for i, want := range []any{int64(9007199254740993), 1.5, "1e400"} {
		if list[i] != want {
			t.Errorf("number %d is %v (%T), want %v", i, list[i], list[i], want)
		}
	}
	if _, err := show.Value([]byte(`{`)); err == nil {
		t.Error("half a record passes, want an error")
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("{{.A}} {{json .}} {{truncate .A 3}}")
	f.Add(`{{pad .A 1 2}}\t{{join .B ","}}`)
	f.Fuzz(func(_ *testing.T, text string) {
		// It must not panic; errors are fine.
		_, _ = show.ParseTemplate(text)
	})
}
