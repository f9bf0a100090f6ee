package server

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestGuard(t *testing.T) {
	const own = "engine.example:2376"
	for _, tc := range []struct {
		name, origin, path, host, page string
		unix, secure, upgrade, refused bool
	}{
		{name: "no page", path: "/info", host: own},
		{name: "no host", path: "/info", host: ""},
		{name: "a name that was rebound", path: "/info", host: "evil.example:2376", refused: true},
		{name: "a name in other letters", path: "/info", host: "ENGINE.example"},
		{name: "an address of the certificate", path: "/info", host: "[2001:db8::1]:2376"},
		{name: "another address", path: "/info", host: "[2001:db8::2]:2376", refused: true},
		{name: "any host on a unix socket", path: "/info", host: "anything", unix: true},
		{name: "another page", path: "/info", host: own, page: "https://evil.example", refused: true},
		{name: "another page on a unix socket", path: "/info", host: "x", page: "https://evil.example", unix: true},
		{name: "attach on a unix socket", path: "/v1.24/containers/x/attach", host: "x", page: "https://evil.example", unix: true, refused: true},
		{name: "attach, another slash", path: "/v1.24/containers/x/attach/", host: "x", page: "https://evil.example", unix: true, refused: true},
		{name: "exec with a version", path: "/v1.24/exec/x/start", host: "x", page: "https://evil.example", unix: true, refused: true},
		{name: "exec without one", path: "/exec/x/start", host: "x", page: "https://evil.example", unix: true, refused: true},
		{name: "an upgrade", path: "/info", host: "x", page: "https://evil.example", unix: true, upgrade: true, refused: true},
		{name: "all pages", origin: "*", path: "/exec/x/start", host: own, page: "https://evil.example"},
		{name: "all pages, a name that was rebound", origin: "*", path: "/info", host: "evil.example", refused: true},
		{name: "the page", origin: "https://a.example", path: "/exec/x/start", host: own, page: "https://A.example"},
		{name: "not the page", origin: "https://a.example", path: "/info", host: own, page: "http://a.example", refused: true},
		{name: "the engine's own page", path: "/info", host: own, page: "https://" + own, secure: true},
		{name: "its own page without TLS", path: "/info", host: own, page: "http://" + own, secure: true, refused: true},
		{name: "another port", path: "/info", host: own, page: "https://engine.example", refused: true},
		{name: "no origin to speak of", path: "/info", host: own, page: "null", refused: true},
	} {
		g := &guard{origin: tc.origin, certified: func(name string) bool {
			return strings.EqualFold(name, "engine.example") || name == "2001:db8::1"
		}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, tc.path, http.NoBody)
		r.Host, r.TLS = tc.host, nil
		if !tc.unix {
			r = r.WithContext(context.WithValue(r.Context(), overTCP{}, true))
		}
		if tc.secure {
			r.TLS = &tls.ConnectionState{}
		}
		if tc.page != "" {
			r.Header.Set("Origin", tc.page)
		}
		if tc.upgrade {
			r.Header.Set("Upgrade", "tcp")
		}
		if err := g.checkRequest(r); fault.Is(err, fault.Forbidden) != tc.refused || (err != nil) != tc.refused {
			t.Errorf("%s: check = %v, want it refused: %v", tc.name, err, tc.refused)
		}
	}
}
