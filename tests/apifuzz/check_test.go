package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	engine := func(contentType string) http.Header {
		return http.Header{"Server": {"moss"}, "Api-Version": {"1.24"}, "Ostype": {"linux"}, "X-Request-Id": {"1"}, "Content-Type": {contentType}}
	}
	const plain, jsonType = "text/plain; charset=utf-8", "application/json"
	start := &call{method: "POST", route: "POST /containers/:id/start", version: "1.24", path: "/containers/a/start"}
	older := &call{method: "POST", route: "POST /containers/:id/start", version: "1.20", path: "/containers/a/start"}
	list := &call{method: "GET", route: "GET /containers/json", path: "/containers/json"}
	resize := &call{method: "POST", route: "POST /containers/:id/resize", path: "/containers/a/resize"}
	attach := &call{method: "POST", route: attachRoute, path: "/containers/a/attach"}
	kind := func(h http.Header, kind string) http.Header {
		h.Set("X-Fault-Kind", kind)
		return h
	}
	stray := &call{method: "GET", path: "/nope"}
	for _, tc := range []struct {
		name  string
		call  *call
		in    answer
		wrong string // a part of what is found; empty: nothing
	}{
		{"right", start, answer{status: done, header: engine("")}, ""},
		{"refused", start, answer{status: missing, header: engine(jsonType), body: []byte(`{"message":"no"}`)}, ""},
		{"refused, older", older, answer{status: missing, header: engine(plain), body: []byte("no\n")}, ""},
		{"plain at 1.24", start, answer{status: missing, header: engine(plain), body: []byte("no\n")}, "an error as"},
		{"JSON at 1.20", older, answer{status: missing, header: engine(jsonType), body: []byte(`{"message":"no"}`)}, "an error of 1.20"},
		{"another field", start, answer{status: missing, header: engine(jsonType), body: []byte(`{"message":"no","x":1}`)}, "no {message}"},
		{"charset", start, answer{status: missing, header: engine(jsonType + "; charset=utf-8"), body: []byte(`{"message":"no"}`)}, "an error as"},
		{"500", start, answer{status: broken, header: engine(jsonType), body: []byte(`{"message":"no"}`)}, "unexplained"},
		{"500 of a resize", resize, answer{status: broken, header: engine(jsonType), body: []byte(`{"message":"cannot resize container a"}`)}, ""},
		{"500 of a wrong request", start, answer{status: broken, header: kind(engine(jsonType), "invalid"), body: []byte(`{"message":"no"}`)}, ""},
		{"500 where there is 400", list, answer{status: broken, header: kind(engine(jsonType), "invalid"), body: []byte(`{"message":"no"}`)}, "unexplained"},
		{"500 of the engine", start, answer{status: broken, header: kind(engine(jsonType), "internal"), body: []byte(`{"message":"no"}`)}, "unexplained"},
		{"attach", attach, answer{status: missing, header: kind(engine("application/vnd.engine.raw-stream"), "not-found"), body: []byte("no\n")}, ""},
		{"attach as JSON", attach, answer{status: missing, header: kind(engine(jsonType), "not-found"), body: []byte(`{"message":"no"}`)}, "a refused attach"},
		{"not promised", start, answer{status: http.StatusTeapot, header: engine(jsonType), body: []byte(`{"message":"no"}`)}, "not among"},
		{"stack", start, answer{status: bad, header: engine(jsonType), body: []byte(`{"message":"runtime error: x"}`)}, "inside"},
		{"Go's words", start, answer{status: bad, header: engine(jsonType), body: []byte(`{"message":"json: cannot unmarshal x"}`)}, "inside"},
		{"no request id", start, answer{status: done, header: http.Header{"Server": {"moss"}, "Api-Version": {"1"}, "Ostype": {"l"}}}, "X-Request-Id"},
		{"body with 204", start, answer{status: done, header: engine(""), size: 3}, "with a body"},
		{"no JSON", list, answer{status: ok, header: engine(jsonType), body: []byte(`[}`), size: 2}, "no JSON"},
		{"JSON", list, answer{status: ok, header: engine(jsonType), body: []byte("[]\n"), size: 3}, ""},
		{"a hang", list, answer{err: errors.New("timeout"), overdue: true}, "a hang"},
		{"broken off", list, answer{status: ok, err: errors.New("EOF")}, "EOF"},
		{"hung up", list, answer{cut: true}, ""},
		{"the library's", stray, answer{status: 431, header: http.Header{"Content-Type": {"text/plain"}}, body: []byte("too long")}, ""},
	} {
		got := newTable().judgeAnswer(tc.call, &tc.in)
		if (got == "") != (tc.wrong == "") || !strings.Contains(got, tc.wrong) {
			t.Errorf("%s: %q, want %q in it", tc.name, got, tc.wrong)
		}
	}
}

// TestRoutesAreThere: what the acts call by name is in the table, and what is removed by each kind too.
func TestRoutesAreThere(t *testing.T) {
	table := newTable()
	for _, name := range registryRoutes {
		if table.byName[name] == nil {
			t.Errorf("no route %s", name)
		}
	}
	for kind, how := range removals {
		if table.byName[how.route] == nil {
			t.Errorf("no route %s for a %s", how.route, kind)
		}
	}
	for path, want := range map[string]bool{"/containers/a/json": true, "/containers/json": true, "/containers/a": false, "/nope": false} {
		if got := table.hasRouteAt(http.MethodGet, path); got != want {
			t.Errorf("answers(GET, %s) = %t, want %t", path, got, want)
		}
	}
}

func TestLeaks(t *testing.T) {
	before := &footprint{files: 20, goroutines: 10, rss: 1000, mounts: 3, folders: map[string]int{"tasks": 0}}
	now := &footprint{files: 20 + moreFiles, goroutines: 10 + moreGoroutines, rss: 1000 + moreRSS, mounts: 3, folders: map[string]int{"tasks": 0}}
	if got := now.leaksSince(before); len(got) != 0 {
		t.Errorf("leaks %q, want none", got)
	}
	now = &footprint{files: 21 + moreFiles, goroutines: 11 + moreGoroutines, rss: 1001 + moreRSS, mounts: 4, shims: 1, folders: map[string]int{"tasks": 1}}
	if got := now.leaksSince(before); len(got) != 6 {
		t.Errorf("leaks %q, want all six", got)
	}
}
