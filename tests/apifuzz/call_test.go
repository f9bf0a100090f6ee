package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"
)

// TestQuote lets bash read what was quoted for it.
func TestQuote(t *testing.T) {
	for _, want := range []string{"", "plain/x-1", "two words", "it's", `back\slash`, "a\nb\x01\xff\u00e4", "$(id) `x` \"", "a'b\\c\td"} {
		out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", "-c", "printf %s "+shellQuote(want)).Output()
		if err != nil || string(out) != want {
			t.Errorf("quote(%q) = %s, which bash reads as %q, %v", want, shellQuote(want), out, err)
		}
	}
}

func TestCurl(t *testing.T) {
	c := (&call{method: "POST", version: "1.20", path: "/containers/a/x", manner: torn, cut: 3}).withQuery("q", "a b", "none", "").withJSON(map[string]int{"A": 1})
	want := `curl -sS -i --unix-socket /s -X POST -H 'Content-Type: application/json' --data-binary '{"A":1}' --path-as-is 'http://moss/v1.20/containers/a/x?q=a+b'` +
		" # hangs up in the body after 3 bytes"
	if got := c.curlLine("/s"); got != want {
		t.Errorf("curl:\n%s\nwant\n%s", got, want)
	}
	if got := shortenText(strings.Repeat("x", 5000)); len(got) > maxShown || !strings.HasSuffix(got, "...(5000 bytes)") {
		t.Errorf("shortened to %d bytes: %s", len(got), got[len(got)-20:])
	}
}

func TestFill(t *testing.T) {
	for _, tc := range []struct{ path, want string }{
		{"/containers/:id/json", "/containers/a%2Fb%00/json"},
		{"/info", "/info"},
		{"/volumes/:name", "/volumes/a%2Fb%00"},
	} {
		if got := fillPath(tc.path, []string{"a/b\x00"}); got != tc.want {
			t.Errorf("fill(%q) = %q, want %q", tc.path, got, tc.want)
		}
	}
}

func TestMinor(t *testing.T) {
	for version, want := range map[string]int{"": newest, "1.18": 18, "1.24": 24} {
		if got := (&call{version: version}).minorVersion(); got != want {
			t.Errorf("minor of %q = %d, want %d", version, got, want)
		}
	}
}
