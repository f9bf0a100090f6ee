package handler_test

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"moss/api/handler"
	"moss/engine/fault"
	"moss/engine/swarm/status"
)

func TestPing(t *testing.T) {
	a := newAPI(t)
	for _, path := range []string{"/_ping", "/v1.18/_ping", "/v1.24/_ping"} {
		for _, method := range []string{"GET", "HEAD"} {
			resp := a.open(method, path, "") //nolint:bodyclose // The cleanup of open does.
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			want := "OK"
			if method == "HEAD" {
				want = ""
			}
			if resp.StatusCode != http.StatusOK || string(body) != want || resp.ContentLength != 2 {
				t.Errorf("%s %s = %d %q (length %d), want 200 %q", method, path, resp.StatusCode, body, resp.ContentLength, want)
			}
			// What clients parse of it.
			if !regexp.MustCompile(`^(?:(.+)/(.+?))\((.+)\).*$`).MatchString(resp.Header.Get("Server")) || resp.Header.Get("Api-Version") != "1.51" ||
				!strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") || !strings.Contains(resp.Header.Get("Cache-Control"), "no-cache") {
				t.Errorf("%s %s: headers %v", method, path, resp.Header)
			}
		}
	}
}

// TestPingOfNode: what a ping says of this node's part in a swarm.
func TestPingOfNode(t *testing.T) {
	for want, node := range map[string]status.Node{
		"inactive": {State: status.Inactive}, "pending": {State: status.Pending}, "error": {State: status.Failed}, "locked": {State: status.Locked},
		"active/worker": {State: status.Active}, "active/manager": {State: status.Active, ControlAvailable: true},
	} {
		a := newAPIIn(t, &cluster{node: node})
		resp := a.open("HEAD", "/_ping", "") //nolint:bodyclose // The cleanup of open does.
		if got := resp.Header.Get("Swarm"); got != want {
			t.Errorf("of %+v: %q, want %q", node, got, want)
		}
	}
}

func TestInfoAndVersion(t *testing.T) {
	a := newAPI(t)
	if status, body := a.ask("GET", "/v1.18/info", ""); status != 200 || field(t, body, "Debug") != false || field(t, body, "Containers") != 2.0 {
		t.Errorf("info at 1.18 = %d %q", status, body)
	}
	if _, body := a.ask("GET", "/info", ""); field(t, body, "Debug") != false || field(t, body, "Swarm", "LocalNodeState") != "inactive" {
		t.Errorf("info = %q", body)
	}
	if status, body := a.ask("GET", "/v1.20/version", ""); status != 200 || field(t, body, "ApiVersion") != "1.51" || field(t, body, "Version") != "1.2.3" {
		t.Errorf("version = %d %q", status, body)
	}
	a.about.err = errors.New("no /proc")
	if status, body := a.ask("GET", "/info", ""); status != 500 || !strings.Contains(body, "no /proc") {
		t.Errorf("info that fails = %d %q, want 500", status, body)
	}
}

// TestEveryRoute asks each endpoint of the documents at the ends of its range: it is there, or says that it is not yet.
func TestEveryRoute(t *testing.T) {
	a := newAPI(t)
	a.containers.record = nil
	a.containers.err, a.images.err = fault.NotFound("none"), fault.NotFound("none")
	routes := handler.New(handler.Services{}).Routes()
	if len(routes) != 114 {
		t.Errorf("%d routes, want the 76 of the documents and of the swarm's clients, 11 of later ones, one of moss alone, and 26 that "+
			"refuse what there is not", len(routes))
	}
	for _, r := range routes {
		path := strings.NewReplacer(":id", "x", ":name", "x", ":checkpoint", "x").Replace(r.Path)
		if r.Do == nil {
			status, body := a.ask(r.Method, "/v1.24"+path, "")
			if want := "moss does not implement " + r.Method + " " + r.Path + " yet"; status != 501 || r.Method != http.MethodHead && !strings.Contains(body, want) {
				t.Errorf("%s %s = %d %q, want 501 with %q", r.Method, path, status, body, want)
			}
		}
		if r.Versions.Since != 0 {
			before := r.Versions.Since - 1
			if status, body := a.ask(r.Method, "/v"+before.String()+path, ""); status != 404 || r.Method != http.MethodHead && !strings.Contains(body, "page not found") {
				t.Errorf("%s %s at %v = %d %q, want 404 page not found", r.Method, path, before, status, body)
			}
		}
	}
}

func TestVersions(t *testing.T) {
	a := newAPI(t)
	for path, want := range map[string]string{
		"/v1.52/info": "client is newer than server (client API version: 1.52, server API version: 1.51)",
		"/v1.17/info": "client version 1.17 is too old. Minimum supported API version is 1.18",
	} {
		if status, body := a.ask("GET", path, ""); status != 400 || !strings.Contains(body, want) || !strings.Contains(body, "DOCKER_API_VERSION=1.51") {
			t.Errorf("%s = %d %q, want 400 with %q and the hint", path, status, body, want)
		}
	}
}
