package filter

import (
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestHasLabels(t *testing.T) {
	labels := map[string]string{"a": "1", "b": ""}
	for want, has := range map[string]bool{
		"": true, "a": true, "a=1": true, "a=": false, "a=2": false, "b": true, "b=": true, "c": false, "a b=": true, "a c": false,
	} {
		if got := HasLabels(labels, strings.Fields(want)); got != has {
			t.Errorf("HasLabels(%v, %q) = %t, want %t", labels, want, got, has)
		}
	}
}

func TestBool(t *testing.T) {
	for values, want := range map[string]string{
		"": "nil", "true": "true", "True": "true", "1": "true", "0": "false", "false": "false", "1 true": "true",
		"yes": "invalid", "true false": "invalid", "1 0": "invalid",
	} {
		b, err := Bool("dangling", strings.Fields(values))
		got := "nil"
		switch {
		case fault.Is(err, fault.Invalid) && strings.Contains(err.Error(), "dangling"):
			got = "invalid"
		case b != nil && *b:
			got = "true"
		case b != nil:
			got = "false"
		}
		if got != want {
			t.Errorf("Bool(%q) = %s, %v, want %s", values, got, err, want)
		}
	}
}

func TestPatterns(t *testing.T) {
	for values, want := range map[string]string{
		"web": "web web-1 my-web", "^web$": "web", "^my ^db": "my-web db", "": "", "(": "invalid", strings.Repeat("a", maxPattern+1): "invalid",
	} {
		match, err := Patterns("name", strings.Fields(values))
		if err != nil {
			if !fault.Is(err, fault.Invalid) || want != "invalid" {
				t.Errorf("Patterns(%.20q): %v, want %s", values, err, want)
			}
			continue
		}
		var got []string
		for _, text := range []string{"web", "web-1", "my-web", "db"} {
			if match(text) {
				got = append(got, text)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("Patterns(%q) match %q, want %s", values, got, want)
		}
	}
}
