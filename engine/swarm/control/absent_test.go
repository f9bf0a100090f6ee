package control

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"moss/engine/fault"
)

// TestAbsent: a manager has no secrets and configs, and says so where one is asked for by name, or made.
func TestAbsent(t *testing.T) {
	manager, outside := newAPI(&fakeMember{}), newAPI(&fakeMember{err: fault.NotAcceptable("This node is not part of a swarm.")})
	for _, tc := range []struct {
		call   string
		status int
		word   string
	}{
		{"GET /v1.25/secrets", 200, "[]\n"},
		{"GET /v1.30/configs", 200, "[]\n"},
		{"GET /v1.51/secrets/x", 404, "secret x not found: secrets are not supported"},
		{"DELETE /v1.51/secrets/x", 404, "secret x not found: secrets are not supported"},
		{"POST /v1.51/secrets/x/update?version=1", 404, "secret x not found: secrets are not supported"},
		{"POST /v1.51/secrets/create", 501, "secrets are not supported"},
		{"GET /v1.51/configs/x", 404, "config x not found: configs are not supported"},
		{"POST /v1.51/configs/create", 501, "configs are not supported"},
		{"GET /v1.51/services/x/logs?stdout=1", 501, "logs of services and tasks are not supported"},
		{"GET /v1.51/tasks/x/logs?stdout=1", 501, "logs of services and tasks are not supported"},
		{"GET /v1.24/secrets", 404, "page not found"},
		{"GET /v1.29/configs", 404, "page not found"},
	} {
		method, path, _ := strings.Cut(tc.call, " ")
		w := httptest.NewRecorder()
		manager.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.word) {
			t.Errorf("%s = %d %s, want %d and %q", tc.call, w.Code, w.Body, tc.status, tc.word)
		}
		if tc.word == "page not found" {
			continue
		}
		w = httptest.NewRecorder()
		outside.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
		if w.Code != http.StatusNotAcceptable || !strings.Contains(w.Body.String(), "not part of a swarm") {
			t.Errorf("%s without a swarm = %d %s, want 406 in words", tc.call, w.Code, w.Body)
		}
	}
}
