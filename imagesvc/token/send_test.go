package token

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestBusyServers(t *testing.T) {
	for _, tc := range []struct {
		name     string
		status   int
		after    string // Retry-After; "date" is one ten seconds ahead
		times    int    // that it answers so
		requests int
		waited   time.Duration
		err      string // empty: a token
	}{
		{"500 once", 500, "", 1, 2, firstPause, ""},
		{"503 twice", 503, "", 2, 3, 5 * firstPause, ""},
		{"502 for ever", 502, "", 9, 3, 5 * firstPause, "status 502"},
		{"503 names a time", 503, "7", 1, 2, 7 * time.Second, ""},
		{"429", 429, "", 2, 3, 3 * busyPause, ""},
		{"429 names a time", 429, "3", 2, 3, 6 * time.Second, ""},
		{"429 names a date", 429, "date", 1, 2, 10 * time.Second, ""},
		{"429 names a past date", 429, "Fri, 01 Jan 1999 00:00:00 GMT", 1, 2, 0, ""},
		{"429 for ever", 429, "1", 9, 3, 2 * time.Second, "too many requests: try again in 1s"},
		{"429 for long", 429, "3600", 9, 1, 0, "too many requests: try again in 1h0m0s"},
		{"429 without sense", 429, "-1", 9, 3, 3 * busyPause, "too many requests"},
		{"418", 418, "", 9, 1, 0, "status 418"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				after := tc.after
				if after == "date" {
					after = time.Now().Add(10 * time.Second).UTC().Format(http.TimeFormat)
				}
				n, start := 0, time.Now()
				s := &server{answer: func(w http.ResponseWriter, r *http.Request) {
					if n++; n > tc.times {
						gives(w, 200, object{"token": "t"})
						return
					}
					if after != "" {
						w.Header().Set("Retry-After", after)
					}
					gives(w, tc.status, nil)
				}}
				_, err := New().Token(t.Context(), request(s, ann, ""))
				if (err == nil) != (tc.err == "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
					t.Errorf("Token: %v, want %q", err, tc.err)
				}
				if tc.status == 429 && err != nil && !fault.Is(err, fault.Unavailable) {
					t.Errorf("Token: %v, want unavailable", err)
				}
				if waited := time.Since(start); n != tc.requests || waited != tc.waited {
					t.Errorf("%d requests in %s, want %d in %s", n, waited, tc.requests, tc.waited)
				}
			})
		})
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "15")
			gives(w, 429, nil)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := New().Token(ctx, request(s, ann, ""))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %s: %v, want the context's end", time.Since(start), err)
		}
	})
}

func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		start := time.Now()
		_, err := New().Token(t.Context(), request(s, ann, ""))
		if !fault.Is(err, fault.Unavailable) || errors.Is(err, context.DeadlineExceeded) || time.Since(start) != onceAtMost {
			t.Errorf("after %s: %v, want unavailable after %s", time.Since(start), err, onceAtMost)
		}
	})
}

func TestRedirects(t *testing.T) {
	const elsewhere = "https://evil.example/token"
	for _, tc := range []struct {
		name  string
		auth  image.RegistryAuth
		post  int // status of the POST form, if that is asked
		to    string
		posts int // requests
		gets  int
		ok    bool
	}{
		{"a form is not sent on", ann, 307, elsewhere, 1, 0, false},
		{"nor to the same server", ann, 308, "https://auth.example/new", 1, 0, false},
		{"nor made a GET", identity, 302, elsewhere, 1, 0, false},
		{"a password stays with its server", ann, 404, elsewhere, 1, 1, false},
		{"which may have another path", ann, 404, "https://auth.example/new", 1, 2, true},
		{"but not another scheme", ann, 404, "http://auth.example/new", 1, 1, false},
		{"nobody may be sent on", nobody, 0, elsewhere, 0, 2, true},
		{"but not out of TLS", nobody, 0, "http://evil.example/token", 0, 1, false},
		{"nor for ever", nobody, 0, realm, 0, 6, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &server{answer: func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && tc.post == 404 {
					gives(w, 404, nil)
					return
				}
				if r.URL.String() != tc.to && r.URL.Host+r.URL.Path == "auth.example/token" || tc.to == realm {
					w.Header().Set("Location", tc.to)
					gives(w, max(tc.post%404, 302), nil)
					return
				}
				gives(w, 200, object{"token": "t"})
			}}
			_, err := New().Token(t.Context(), request(s, tc.auth, ""))
			if (err == nil) != tc.ok || (err != nil && !strings.Contains(err.Error(), "sends us elsewhere")) {
				t.Errorf("Token: %v", err)
			}
			count := map[string]int{}
			for _, r := range s.requests() {
				count[r.method]++
				if strings.Contains(r.url, "evil") && (r.basic != "" || len(r.params.Encode()) > 200) {
					t.Errorf("another server got %+v", r)
				}
			}
			if count["POST"] != tc.posts || count["GET"] != tc.gets {
				t.Errorf("requests: %v; want %d POST and %d GET", count, tc.posts, tc.gets)
			}
		})
	}
}

func TestRealms(t *testing.T) {
	for _, tc := range []struct {
		name, registry, realm string
		insecure, ok          bool
	}{
		{"https", "reg.example", "https://auth.example/t", false, true},
		{"http", "reg.example", "http://auth.example/t", false, false},
		{"http to this machine", "reg.example", "http://127.0.0.1/t", false, false},
		{"http of an insecure registry", "reg.example", "http://auth.example/t", true, true},
		{"http of a registry here", "127.0.0.1:5000", "http://auth.example/t", false, true},
		{"here by IPv6", "[::1]:5000", "http://auth.example/t", false, true},
		{"here by name", "localhost", "http://auth.example/t", false, true},
		{"not here by name", "localhost.example", "http://auth.example/t", false, false},
		{"capitals", "reg.example", "HTTPS://AUTH.example/t", false, true},
		{"none", "reg.example", "", false, false},
		{"no host", "reg.example", "https:///t", false, false},
		{"a path", "reg.example", "/token", false, false},
		{"another scheme", "reg.example", "file:///etc/passwd", true, false},
		{"a user", "reg.example", "https://u:p@auth.example/t", false, false},
		{"no address", "reg.example", "https://a b\x00/\n", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &server{answer: numbered(300)}
			r := request(s, ann, "")
			r.Registry, r.Insecure, r.Challenge.Params["realm"] = tc.registry, tc.insecure, tc.realm
			_, err := New().Token(t.Context(), r)
			if (err == nil) != tc.ok || (err != nil && !fault.Is(err, fault.Invalid)) {
				t.Errorf("Token: %v", err)
			}
			if got := s.requests(); len(got) > 0 != tc.ok {
				t.Errorf("requests: %+v", got)
			}
		})
	}
}
