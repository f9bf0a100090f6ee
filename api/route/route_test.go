package route_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"moss/api/apiver"
	"moss/api/route"
	"moss/engine/fault"
)

func serve(t *testing.T, log io.Writer, routes ...route.Route) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(route.New(routes, route.Options{Version: "1.2.3", Log: zerolog.New(zerolog.SyncWriter(log))}))
	t.Cleanup(server.Close)
	return server
}

type answer struct {
	status int
	header http.Header
	body   string
}

func ask(t *testing.T, server *httptest.Server, method, path, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // It was read whole.
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(raw)}
}

func echo(c *route.Call) error {
	return c.JSON(http.StatusOK, fmt.Appendf(nil, `"%s %s"`, c.Version(), c.Param("name")))
}

func TestRoutes(t *testing.T) {
	since20, until19 := apiver.Range{Since: apiver.New(1, 20)}, apiver.Range{Until: apiver.New(1, 19)}
	server := serve(t, io.Discard,
		route.Route{Method: "GET", Path: "/images/:name/json", Do: echo},
		route.Route{Method: "GET", Path: "/images/json", Do: echo},
		route.Route{Method: "DELETE", Path: "/images/:name", Do: echo},
		route.Route{Method: "DELETE", Path: "/containers/:name", Do: echo},
		route.Route{Method: "GET", Path: "/new", Versions: since20, Do: echo},
		route.Route{Method: "GET", Path: "/both", Versions: since20, Do: echo},
		route.Route{Method: "GET", Path: "/both", Versions: until19, Do: func(c *route.Call) error { return c.JSON(200, []byte("19")) }},
		route.Route{Method: "POST", Path: "/later/:name"},
		route.Route{Method: "POST", Path: "/gone", Do: func(c *route.Call) error { return c.NoContent(nil) }},
		route.Route{Method: "POST", Path: "/same", Do: func(c *route.Call) error { return c.NoContent(fault.NotModified("x")) }},
		route.Route{Method: "POST", Path: "/empty", Do: func(c *route.Call) error { return c.Empty(nil) }},
		route.Route{Method: "GET", Path: "/fails", Do: func(*route.Call) error { return fmt.Errorf("x: %w", fault.Conflict("taken")) }},
	)
	seen := map[string]bool{}
	wrongMethod := func(allowed string) string {
		return "{\"message\":\"method not allowed: this path takes " + allowed + "\"}\n"
	}
	const tooNew = `{"message":"client is newer than server (client API version: 1.52, server API version: 1.51): client version 1.52 is too ` +
		`new. Maximum supported API version is 1.51. This engine serves 1.18 to 1.51: set DOCKER_API_VERSION=1.51 for clients that can speak ` +
		"older versions\"}\n"
	const notFound = "{\"message\":\"page not found\"}\n"
	for _, tc := range []struct {
		method, path, want string
		status             int
	}{
		{"GET", "/images/json", "\"1.51 \"\n", 200},
		{"GET", "/v1.19/images/json", "\"1.19 \"\n", 200},
		{"GET", "/v1.24/images/busybox/json", "\"1.24 busybox\"\n", 200},
		{"GET", "/v1.24/images/127.0.0.1:5000/a/b:t/json", "\"1.24 127.0.0.1:5000/a/b:t\"\n", 200},
		{"GET", "/images/a%2Fb/json", "\"1.51 a/b\"\n", 200},
		{"GET", "/images/a+b%2Bc/json", "\"1.51 a+b+c\"\n", 200},
		{"GET", "/images//x/json", "\"1.51 x\"\n", 200},
		{"GET", "/images/%2Fx/json", "\"1.51 x\"\n", 200},
		{"DELETE", "/images/a/b@sha256:00", "\"1.51 a/b@sha256:00\"\n", 200},
		{"GET", "/v1.20/new", "\"1.20 \"\n", 200},
		{"GET", "/v1.19/new", "page not found\n", 404},
		{"GET", "/v1.20/both", "\"1.20 \"\n", 200},
		{"GET", "/v1.19/both", "19\n", 200},
		{"POST", "/v1.24/later/x", "{\"message\":\"moss does not implement POST /later/:name yet\"}\n", 501},
		{"POST", "/v1.18/later/x", "moss does not implement POST /later/:name yet\n", 501},
		{"GET", "/nothing", notFound, 404},
		{"GET", "/v1.23/nothing", "page not found\n", 404},
		{"POST", "/images/json", wrongMethod("DELETE, GET, OPTIONS"), 405},
		{"GET", "/v1.19/gone", "method not allowed: this path takes POST, OPTIONS\n", 405},
		{"HEAD", "/images/json", "", 405},
		{"BREW", "/new", wrongMethod("GET, OPTIONS"), 405},
		{"POST", "/v1.19/new", "page not found\n", 404},
		{"GET", "/images/a/b", wrongMethod("DELETE, OPTIONS"), 405},
		{"POST", "/images/a/b/c/json", wrongMethod("DELETE, GET, OPTIONS"), 405},
		{"GET", "/later/a/b", notFound, 404},
		{"GET", "/containers/a", wrongMethod("DELETE, OPTIONS"), 405},
		{"GET", "/containers/a/b", notFound, 404},
		{"OPTIONS", "/v1.52/images/json", tooNew, 400},
		{"OPTIONS", "/nothing", "", 200},
		{"GET", "/", notFound, 404},
		{"OPTIONS", "/images/json", "", 200},
		{"POST", "/gone", "", 204},
		{"POST", "/same", "", 304},
		{"POST", "/empty", "", 200},
		{"GET", "/fails", "{\"message\":\"x: taken\"}\n", 409},
		{"GET", "/v1.23/fails", "x: taken\n", 409},
		{"GET", "/fails?a=%zz", "{\"message\":\"malformed query: invalid URL escape \\\"%zz\\\"\"}\n", 400},
	} {
		got := ask(t, server, tc.method, tc.path, "")
		if got.status != tc.status || got.body != tc.want {
			t.Errorf("%s %s = %d %q, want %d %q", tc.method, tc.path, got.status, got.body, tc.status, tc.want)
		}
		for key, want := range map[string]string{
			"Server": "moss/1.2.3 (linux)", "Api-Version": "1.51", "Ostype": "linux", "Docker-Experimental": "false",
			"Access-Control-Allow-Origin": "",
		} {
			if v := got.header.Get(key); v != want {
				t.Errorf("%s %s: %s = %q, want %q", tc.method, tc.path, key, v, want)
			}
		}
		id := got.header.Get("X-Request-Id")
		if len(id) != 16 || seen[id] {
			t.Errorf("%s %s: X-Request-Id = %q, want a new one", tc.method, tc.path, id)
		}
		seen[id] = true
		if kind := got.header.Get("Content-Type"); tc.status >= 400 && kind != "application/json" && kind != "text/plain; charset=utf-8" {
			t.Errorf("%s %s: Content-Type = %q", tc.method, tc.path, kind)
		}
		if allowed := got.header.Get("Allow"); (tc.status == 405) != (allowed != "") && tc.method != "OPTIONS" ||
			tc.status == 405 && tc.method != "HEAD" && !strings.Contains(got.body, allowed) {
			t.Errorf("%s %s = %d with Allow %q", tc.method, tc.path, tc.status, allowed)
		}
	}
	if got := ask(t, server, "GET", "/v1.40/info", "").header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type of an error = %q, want exactly application/json", got)
	}
}

// TestConnectionStays: no answer ends its connection, or clients would have to connect again for each.
func TestConnectionStays(t *testing.T) {
	api := route.New([]route.Route{{Method: "GET", Path: "/x", Do: echo}, {Method: "POST", Path: "/x", Do: echoNothing}}, route.Options{Version: "1", Log: zerolog.Nop()})
	server := httptest.NewServer(api)
	defer server.Close()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it ends with the test
	answers := bufio.NewReader(c)
	for _, call := range []string{
		"GET /x", "GET /nothing", "HEAD /x", "PUT /x", "POST /x", "OPTIONS /x", "GET /v1.99/x", "GET /x?a=%zz", "HEAD /nothing", "GET /v1.20/nothing", "POST /x",
	} {
		method, path, _ := strings.Cut(call, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err == nil {
			err = req.Write(c)
		}
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		resp, err := http.ReadResponse(answers, req)
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Close {
			t.Errorf("%s: %v, and the connection ends: %t", call, err, resp.Close)
		}
		_ = resp.Body.Close()
	}
}

func TestCORS(t *testing.T) {
	for _, tc := range []struct{ cors, origin, vary string }{
		{"*", "*", ""},
		{"https://a.example", "https://a.example", "Origin"},
		{"", "", ""},
	} {
		api := route.New([]route.Route{{Method: "GET", Path: "/info", Do: echoNothing}}, route.Options{Version: "1", CORS: tc.cors, Log: zerolog.Nop()})
		server := httptest.NewServer(api)
		defer server.Close()
		for _, path := range []string{"/v1.24/info", "/anything", "/v1.24/info?x=1"} {
			got := ask(t, server, http.MethodOptions, path, "")
			if got.status != 200 || got.body != "" || got.header.Get("Access-Control-Allow-Origin") != tc.origin || got.header.Get("Vary") != tc.vary {
				t.Errorf("OPTIONS %s with CORS %q = %d %q, %v, want 200 and the headers", path, tc.cors, got.status, got.body, got.header)
			}
			if want := strings.Contains(path, "/info"); want != (got.header.Get("Allow") == "GET, OPTIONS") {
				t.Errorf("OPTIONS %s: Allow = %q", path, got.header.Get("Allow"))
			}
		}
		for _, path := range []string{"/info", "/nothing", "/v1.99/info"} {
			if got := ask(t, server, http.MethodGet, path, ""); got.header.Get("Access-Control-Allow-Origin") != tc.origin {
				t.Errorf("GET %s with CORS %q: %v", path, tc.cors, got.header)
			}
		}
	}
}

func echoNothing(c *route.Call) error { return c.NoContent(nil) }

// TestConfiguredVersions: what an engine is told to serve is all that it says and serves.
func TestConfiguredVersions(t *testing.T) {
	api := route.New([]route.Route{{Method: "GET", Path: "/x", Do: echo}},
		route.Options{Version: "1", Serve: apiver.Range{Since: apiver.New(1, 20), Until: apiver.New(1, 22)}, Log: zerolog.Nop()})
	server := httptest.NewServer(api)
	defer server.Close()
	for _, tc := range []struct {
		path, want string
		status     int
	}{
		{"/x", `"1.22 "`, 200},
		{"/v1.20/x", `"1.20 "`, 200},
		{"/v1.24/x", `{"message":"client is newer than server (client API version: 1.24, server API version: 1.22)`, 400},
		{"/v1.23/x", "client is newer than server", 400},
		{"/v1.19/x", "client version 1.19 is too old. Minimum supported API version is 1.20", 400},
		{"/nothing", "page not found", 404},
	} {
		got := ask(t, server, "GET", tc.path, "")
		if got.status != tc.status || !strings.HasPrefix(got.body, tc.want) || got.header.Get("Api-Version") != "1.22" {
			t.Errorf("GET %s = %d %q, Api-Version %s, want %d %q and 1.22", tc.path, got.status, got.body, got.header.Get("Api-Version"), tc.status, tc.want)
		}
	}
}

// TestRequestID: a client's own id is taken if it can stand in a header and in the log, and every line about a request has it.
func TestRequestID(t *testing.T) {
	var log bytes.Buffer
	server := serve(t, &log,
		route.Route{Method: "GET", Path: "/logs", Do: func(c *route.Call) error {
			c.Log().Info().Msg("by the call")
			zerolog.Ctx(c.Ctx()).Info().Msg("by the context")
			return errors.New("torn")
		}},
	)
	for _, tc := range []struct {
		id    string
		taken bool
	}{
		{"a", true},
		{"A-z_0.9", true},
		{strings.Repeat("x", 64), true},
		{strings.Repeat("x", 65), false},
		{"", false},
		{"a b", false},
		{"a\tb", false},
		{"\u00e4", false},
		{`a"b`, false},
	} {
		log.Reset()
		got := ask(t, server, "GET", "/logs", "", "X-Request-Id", tc.id)
		id := got.header.Get("X-Request-Id")
		if (id == tc.id) != tc.taken || id == "" {
			t.Errorf("with X-Request-Id %q the answer's is %q, want it taken: %v", tc.id, id, tc.taken)
		}
		for _, line := range []string{"by the call", "by the context", "request failed", "answered"} {
			if !strings.Contains(log.String(), line) {
				t.Errorf("no line %q in %s", line, &log)
			}
		}
		for line := range strings.Lines(log.String()) {
			if !strings.Contains(line, `"request":"`+id+`"`) {
				t.Errorf("a line without the id %q: %s", id, line)
			}
		}
	}
	log.Reset()
	ask(t, server, "GET", "/"+strings.Repeat("x", 5000), "")
	if !strings.Contains(log.String(), `xxx..."`) || log.Len() > 1000 {
		t.Errorf("the line about a long path has %d bytes: %.400s", log.Len(), &log)
	}
	log.Reset()
	ask(t, server, "GET", "/v1.20/nothing?x=secret", "")
	for _, want := range []string{`"method":"GET"`, `"path":"/v1.20/nothing"`, `"version":"1.20"`, `"status":404`, `"bytes":15`, `"took":`} {
		if !strings.Contains(log.String(), want) || strings.Contains(log.String(), "secret") {
			t.Errorf("the line of an answer is %s, want %s and no query", &log, want)
		}
	}
}

// TestQuietLog: unless asked for by the level, what went well is not logged.
func TestQuietLog(t *testing.T) {
	var log bytes.Buffer
	api := route.New([]route.Route{{Method: "GET", Path: "/x", Do: echoNothing}}, route.Options{Version: "1", Log: zerolog.New(&log).Level(zerolog.InfoLevel)})
	server := httptest.NewServer(api)
	defer server.Close()
	ask(t, server, "GET", "/x", "")
	ask(t, server, "GET", "/y", "")
	if log.Len() > 0 {
		t.Errorf("logged at level info: %s", &log)
	}
}

// TestRefuse: what must not reach a route is answered like everything else.
func TestRefuse(t *testing.T) {
	api := route.New(nil, route.Options{Version: "1.2.3", Log: zerolog.Nop()})
	for _, tc := range []struct{ path, body string }{
		{"/info", "{\"message\":\"no entry\"}\n"},
		{"/v1.20/info", "no entry\n"},
		{"/v9.9/info", "{\"message\":\"no entry\"}\n"},
	} {
		w := httptest.NewRecorder()
		api.Refuse(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, tc.path, http.NoBody), fault.Forbidden("no entry"))
		if w.Code != 403 || w.Body.String() != tc.body || w.Header().Get("X-Request-Id") == "" || w.Header().Get("Server") != "moss/1.2.3 (linux)" {
			t.Errorf("%s refused = %d %q, %v, want 403 %q", tc.path, w.Code, w.Body, w.Header(), tc.body)
		}
	}
}

func TestPanic(t *testing.T) {
	var log bytes.Buffer
	server := serve(t, &log,
		route.Route{Method: "GET", Path: "/early", Do: func(*route.Call) error { panic("boom") }},
		route.Route{Method: "GET", Path: "/late", Do: func(c *route.Call) error {
			if _, err := c.Writer().Write([]byte("begun")); err != nil {
				return err
			}
			panic("boom")
		}},
		route.Route{Method: "GET", Path: "/broken", Do: func(c *route.Call) error {
			if _, err := c.Writer().Write([]byte("begun")); err != nil {
				return err
			}
			return errors.New("torn")
		}},
	)
	if got := ask(t, server, "GET", "/early", ""); got.status != 500 || strings.Contains(got.body, "boom") ||
		!strings.Contains(got.body, "internal error") || !strings.Contains(got.body, got.header.Get("X-Request-Id")) {
		t.Errorf("panic = %d %q, want 500 with the request's id and nothing of the panic", got.status, got.body)
	}
	if !strings.Contains(log.String(), "boom") || !strings.Contains(log.String(), "route_test.go") {
		t.Errorf("the log has no stack of the panic: %s", &log)
	}
	for _, path := range []string{"/late", "/broken"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			continue // broken off before the head was flushed
		}
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%s: the answer looks whole, want it broken off", path)
		}
		resp.Body.Close() //nolint:errcheck // It is broken.
	}
	if got := ask(t, server, "GET", "/early", ""); got.status != 500 {
		t.Errorf("after the panics = %d, want the server alive", got.status)
	}
}

func TestCall(t *testing.T) {
	var seen string
	server := serve(t, io.Discard, route.Route{Method: "POST", Path: "/q", Do: func(c *route.Call) error {
		n, err := c.Int("n", 7)
		if err != nil {
			return err
		}
		body, err := c.JSONBody()
		if err != nil {
			return err
		}
		seen = fmt.Sprintf("%v %d %s %v %q", c.Bool("b"), n, c.Text("t"), c.Has("t"), body)
		return c.NoContent(nil)
	}})
	for _, tc := range []struct {
		query, body, contentType, want string
		status                         int
	}{
		{"", "", "", `false 7  false ""`, 204},
		{"b=1&n=-3&t=x", "{}", "application/json", `true -3 x true "{}"`, 204},
		{"b=True", "{}", "application/json; charset=utf-8", `true 7  false "{}"`, 204},
		{"b=0", "", "", `false 7  false ""`, 204},
		{"b=False", "", "", `false 7  false ""`, 204},
		{"b=none", "", "", `false 7  false ""`, 204},
		{"b=no", "", "", `false 7  false ""`, 204},
		{"b=anything", "", "", `true 7  false ""`, 204},
		{"b=", "", "", `false 7  false ""`, 204},
		{"n=x", "", "", `invalid value for n: got \"x\", want an integer`, 400},
		{"n=99999999999999999999", "", "", `want an integer`, 400},
		{"", "{}", "text/plain", `must be 'application/json'`, 400},
		{"", "{}", "", `must be 'application/json'`, 400},
		{"", strings.Repeat(" ", route.MaxBody+1), "application/json", "the body is longer than 8388608 bytes", 400},
	} {
		seen = ""
		got := ask(t, server, "POST", "/q?"+tc.query, tc.body, "Content-Type", tc.contentType)
		if seen == "" {
			seen = got.body
		}
		if got.status != tc.status || !strings.Contains(seen, tc.want) {
			t.Errorf("?%s with %.20q (%s) = %d %q, want %d %q", tc.query, tc.body, tc.contentType, got.status, seen, tc.status, tc.want)
		}
	}
}
