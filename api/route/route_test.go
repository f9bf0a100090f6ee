package route_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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
		route.Route{Method: "GET", Path: "/new", Versions: since20, Do: echo},
		route.Route{Method: "GET", Path: "/both", Versions: since20, Do: echo},
		route.Route{Method: "GET", Path: "/both", Versions: until19, Do: func(c *route.Call) error { return c.JSON(200, []byte("19")) }},
		route.Route{Method: "POST", Path: "/later/:name"},
		route.Route{Method: "POST", Path: "/gone", Do: func(c *route.Call) error { return c.NoContent(nil) }},
		route.Route{Method: "POST", Path: "/same", Do: func(c *route.Call) error { return c.NoContent(fault.NotModified("x")) }},
		route.Route{Method: "POST", Path: "/empty", Do: func(c *route.Call) error { return c.Empty(nil) }},
		route.Route{Method: "GET", Path: "/fails", Do: func(*route.Call) error { return fmt.Errorf("x: %w", fault.Conflict("taken")) }},
	)
	const notFound = "{\"message\":\"page not found\"}\n"
	for _, tc := range []struct {
		method, path, want string
		status             int
	}{
		{"GET", "/images/json", "\"1.24 \"\n", 200},
		{"GET", "/v1.19/images/json", "\"1.19 \"\n", 200},
		{"GET", "/v1.24/images/busybox/json", "\"1.24 busybox\"\n", 200},
		{"GET", "/v1.24/images/127.0.0.1:5000/a/b:t/json", "\"1.24 127.0.0.1:5000/a/b:t\"\n", 200},
		{"GET", "/images/a%2Fb/json", "\"1.24 a/b\"\n", 200},
		{"GET", "/images/a+b%2Bc/json", "\"1.24 a+b+c\"\n", 200},
		{"GET", "/images//x/json", "\"1.24 x\"\n", 200},
		{"GET", "/images/%2Fx/json", "\"1.24 x\"\n", 200},
		{"DELETE", "/images/a/b@sha256:00", "\"1.24 a/b@sha256:00\"\n", 200},
		{"GET", "/v1.20/new", "\"1.20 \"\n", 200},
		{"GET", "/v1.19/new", "page not found\n", 404},
		{"GET", "/v1.20/both", "\"1.20 \"\n", 200},
		{"GET", "/v1.19/both", "19\n", 200},
		{"POST", "/v1.24/later/x", "{\"message\":\"moss does not implement POST /later/:name yet\"}\n", 501},
		{"POST", "/v1.18/later/x", "moss does not implement POST /later/:name yet\n", 501},
		{"GET", "/nothing", notFound, 404},
		{"GET", "/v1.23/nothing", "page not found\n", 404},
		{"POST", "/images/json", notFound, 404},
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
			"Server": "moss/1.2.3 (linux)", "Api-Version": "1.24", "Ostype": "linux", "Docker-Experimental": "false",
			"Access-Control-Allow-Origin": "",
		} {
			if v := got.header.Get(key); v != want {
				t.Errorf("%s %s: %s = %q, want %q", tc.method, tc.path, key, v, want)
			}
		}
	}
	if got := ask(t, server, "GET", "/v1.40/info", "").header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type of an error = %q, want exactly application/json", got)
	}
}

func TestCORS(t *testing.T) {
	server := httptest.NewServer(route.New(nil, route.Options{Version: "1", CORS: "*", Log: zerolog.Nop()}))
	defer server.Close()
	got := ask(t, server, http.MethodOptions, "/v1.24/anything", "")
	if got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("OPTIONS with CORS = %d, %v, want 200 and the headers", got.status, got.header)
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
	if got := ask(t, server, "GET", "/early", ""); got.status != 500 || !strings.Contains(got.body, "boom") {
		t.Errorf("panic = %d %q, want 500 with its text", got.status, got.body)
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
