package handler_test

import (
	"strings"
	"testing"
)

// TestAbsent: what moss does not have is refused in words, by the statuses that clients take for "not there".
func TestAbsent(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct {
		method, path string
		status       int
		word         string
	}{
		{"GET", "/plugins", 501, "plugins are not supported"},
		{"GET", "/plugins/privileges?remote=x", 501, "plugins are not supported"},
		{"POST", "/plugins/pull?remote=x", 501, "plugins are not supported"},
		{"POST", "/plugins/create?name=x", 501, "plugins are not supported"},
		{"GET", "/plugins/a/b:t/json", 404, `plugin \"a/b:t\" not found`},
		{"POST", "/plugins/a/b/enable", 404, `plugin \"a/b\" not found`},
		{"POST", "/plugins/x/disable", 404, `plugin \"x\" not found`},
		{"POST", "/plugins/x/push", 404, `plugin \"x\" not found`},
		{"POST", "/plugins/x/upgrade?remote=y", 404, `plugin \"x\" not found`},
		{"POST", "/plugins/x/set", 404, `plugin \"x\" not found`},
		{"DELETE", "/plugins/a/b?force=1", 404, `plugin \"a/b\" not found`},
		{"GET", "/containers/web/checkpoints", 501, "checkpoints are not supported"},
		{"POST", "/containers/web/checkpoints", 501, "checkpoints are not supported"},
		{"DELETE", "/containers/web/checkpoints/x", 501, "checkpoints are not supported"},
		{"POST", "/containers/web/start?checkpoint=x", 501, "checkpoints are not supported"},
		{"POST", "/containers/web/start?checkpoint-dir=/x", 501, "checkpoints are not supported"},
		{"PUT", "/plugins", 405, "this path takes GET"},
		{"PUT", "/volumes/x?version=1", 501, "cluster volumes are not there"},
	} {
		for _, version := range []string{"", "/v1.25"} {
			if status, body := a.ask(tc.method, version+tc.path, ""); status != tc.status || !strings.Contains(body, tc.word) {
				t.Errorf("%s %s%s = %d %s, want %d and %q", tc.method, version, tc.path, status, body, tc.status, tc.word)
			}
		}
	}
	for _, path := range []string{"/v1.24/plugins", "/v1.24/containers/web/checkpoints", "/v1.24/secrets", "/v1.29/configs"} {
		if status, body := a.ask("GET", path, ""); status != 404 || body != "{\"message\":\"page not found\"}\n" {
			t.Errorf("GET %s = %d %s, want 404 in words", path, status, body)
		}
	}
	for _, path := range []string{"/v1.25/secrets", "/v1.25/secrets/x", "/v1.30/configs", "/configs/x", "/services/x/logs", "/tasks/x/logs"} {
		if status, body := a.ask("GET", path, ""); status != 406 || !strings.Contains(body, "not part of a swarm") {
			t.Errorf("GET %s = %d %s, want 406 in words", path, status, body)
		}
	}
	if calls := a.containers.said(); calls != "" {
		t.Errorf("the engine was asked: %s", calls)
	}
}
