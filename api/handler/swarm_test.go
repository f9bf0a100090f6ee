package handler_test

import (
	"strings"
	"testing"

	"moss/api/handler"
)

func TestNotInSwarm(t *testing.T) {
	a := newAPI(t)
	refused := 0
	for _, r := range handler.New(handler.Services{}).Routes() {
		noun, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
		switch noun {
		case "services", "tasks", "nodes", "swarm":
		default:
			continue
		}
		const want, words = 406, "This node is not part of a swarm"
		refused++
		path := strings.ReplaceAll(r.Path, ":id", "x")
		status, body := a.ask(r.Method, "/v1.24"+path, "")
		message, _ := field(t, body, "message").(string)
		if status != want || !strings.HasPrefix(message, words) {
			t.Errorf("%s %s = %d %q, want %d %q", r.Method, r.Path, status, body, want, words)
		}
		if status, body := a.ask(r.Method, "/v1.23"+path, ""); status != 404 {
			t.Errorf("%s %s at 1.23 = %d %q, want 404", r.Method, r.Path, status, body)
		}
	}
	if refused != 18 {
		t.Errorf("%d endpoints refuse, want 18", refused)
	}
}
