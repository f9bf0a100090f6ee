package main

import (
	"slices"
	"strings"
	"testing"

	"moss/api/client/clienttest"
)

func TestListSorted(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /containers/json"] = answer(`[{"Id":"2","Names":["/a"],"Image":"z","Command":"m","Created":3,"Status":"Up","SizeRw":1},
		{"Id":"1","Names":["/c"],"Image":"y","Command":"n","Created":2,"Status":"Exited","SizeRw":3},
		{"Id":"3","Names":["/b"],"Image":"x","Command":"l","Created":1,"Status":"Paused","SizeRw":2}]`)
	for key, want := range map[string]string{
		"": "a c b", "created": "a c b", "command": "b a c", "id": "c a b", "image": "b c a", "names": "a b c", "size": "c b a", "status": "c b a",
	} {
		args := []string{"ps", "-a", "--format", "{{.Names}}"}
		if key != "" {
			args = append(args, "--sort", key)
		}
		stdout, stderr, code := moss(t, engine, "", args...)
		if got := strings.Join(strings.Fields(stdout), " "); got != want || code != 0 {
			t.Errorf("ps --sort %q: %q, %q, %d, want %q", key, got, stderr, code, want)
		}
	}
	if last := engine.Requests(); !slices.ContainsFunc(last, func(r string) bool { return strings.Contains(r, "size=1") }) {
		t.Errorf("no request for sizes: %q", last)
	}
	if _, stderr, code := moss(t, engine, "", "ps", "--sort", "weight"); code != exitEngine && code != exitFailed || !strings.Contains(stderr, "want one of command, created") {
		t.Errorf("ps --sort weight: %q, %d", stderr, code)
	}
}
