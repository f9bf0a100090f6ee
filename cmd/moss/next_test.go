package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"moss/api/client/clienttest"
)

// TestStartWaitsForTheNextEngine: one that is being stopped refuses starts until it has ended.
func TestStartWaitsForTheNextEngine(t *testing.T) {
	for _, tc := range []struct {
		args, refusal string
		status        int
		starts        int32
		code          int
	}{
		{"run -d box", "the engine is shutting down", http.StatusServiceUnavailable, 3, 0},
		{"start web", "the engine is ending, or being replaced: ask again", http.StatusServiceUnavailable, 3, 0},
		{"start web", "log driver journald: no journal listens", http.StatusServiceUnavailable, 1, exitFailed},
		{"run -d box", "the engine is shutting down", http.StatusInternalServerError, 1, exitEngine},
	} {
		engine := clienttest.New(t)
		var starts atomic.Int32
		start := func(w http.ResponseWriter, _ *http.Request) {
			if starts.Add(1) < 3 {
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(`{"message":"` + tc.refusal + `"}`))
				return
			}
			w.WriteHeader(http.StatusNoContent)
		}
		engine.Override["POST /containers/"+clienttest.ID+"/start"] = start
		engine.Override["POST /containers/web/start"] = start
		_, stderr, code := moss(t, engine, "", strings.Fields(tc.args)...)
		if starts.Load() != tc.starts || code != tc.code {
			t.Errorf("moss %s, refused with %d %q: %d starts, exit code %d, %q, want %d starts and %d",
				tc.args, tc.status, tc.refusal, starts.Load(), code, stderr, tc.starts, tc.code)
		}
	}
}
