package profile_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"moss/api/profile"
	"moss/engine/fault"
)

// refused is the status of a refusal of kind 0.
const refused = 900

// serve gives profiles out until the test ends, and returns their address.
func serve(t *testing.T, on, owner bool) string {
	t.Helper()
	server := httptest.NewServer(profile.New(profile.Options{
		On: on, Log: zerolog.Nop(), Owner: func(*http.Request) bool { return owner },
		Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "next") }),
		Refuse: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), refused+int(fault.KindOf(err)))
		},
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// ask sends a request and returns the status and the body.
func ask(ctx context.Context, t *testing.T, method, url string) (status int, body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close() //nolint:errcheck // It was read.
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// get is ask for what must be answered.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	status, body, err := ask(t.Context(), t, http.MethodGet, url)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	return status, body
}

// unpack returns the content of a profile.
func unpack(t *testing.T, body string) string {
	t.Helper()
	reader, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%.40q is no profile: %v", body, err)
	}
	raw, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestWhoGetsProfiles(t *testing.T) {
	for _, tc := range []struct {
		name      string
		on, owner bool
		method    string
		path      string
		status    int
		says      string
	}{
		{"off", false, true, "GET", "/debug/pprof/heap", refused + int(fault.KindNotFound), "debug-profiles"},
		{"off, index", false, true, "GET", "/debug/pprof", refused + int(fault.KindNotFound), "debug-profiles"},
		{"somebody else", true, false, "GET", "/debug/pprof/heap", refused + int(fault.KindForbidden), "own user"},
		{"somebody else, index", true, false, "GET", "/debug/pprof/", refused + int(fault.KindForbidden), "own user"},
		{"somebody else, trace", true, false, "GET", "/debug/pprof/trace", refused + int(fault.KindForbidden), "own user"},
		{"owner, index", true, true, "GET", "/debug/pprof/", 200, "goroutine\t"},
		{"owner, index without a slash", true, true, "GET", "/debug/pprof", 200, "\ntrace\n"},
		{"owner, text", true, true, "GET", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile: total"},
		{"owner, command line", true, true, "GET", "/debug/pprof/cmdline", 200, "profile.test"},
		{"no profile", true, true, "GET", "/debug/pprof/nonsense", refused + int(fault.KindNotFound), "nonsense"},
		{"another path", true, false, "GET", "/version", 200, "next"},
		{"a longer name", true, false, "GET", "/debug/pprofs", 200, "next"},
		{"with a version", true, false, "GET", "/v1.24/debug/pprof/heap", 200, "next"},
		{"another method", true, true, "POST", "/debug/pprof/heap", 200, "next"},
	} {
		status, body, err := ask(t.Context(), t, tc.method, serve(t, tc.on, tc.owner)+tc.path)
		if err != nil || status != tc.status || !strings.Contains(body, tc.says) {
			t.Errorf("%s: %s %s = %d %.200q, %v, want %d with %q", tc.name, tc.method, tc.path, status, body, err, tc.status, tc.says)
		}
	}
}

func TestProfiles(t *testing.T) {
	url := serve(t, true, true) + "/debug/pprof/"
	for path, holds := range map[string]string{
		"heap": "inuse_space", "heap?gc=1": "inuse_space", "allocs": "alloc_space", "goroutine": "TestProfiles", "threadcreate": "threadcreate",
		"profile?seconds=0.1": "cpu", "block?seconds=0.1": "contentions", "mutex?seconds=0.1": "contentions",
	} {
		status, body := get(t, url+path)
		if status != http.StatusOK {
			t.Errorf("%s = %d %q, want 200", path, status, body)
			continue
		}
		if content := unpack(t, body); !strings.Contains(content, holds) {
			t.Errorf("%s lacks %q", path, holds)
		}
	}
	status, body := get(t, url+"trace?seconds=0.1")
	if status != http.StatusOK || !strings.HasPrefix(body, "go 1.") || !bytes.Contains([]byte(body)[:16], []byte(" trace\x00")) {
		t.Errorf("trace = %d, begins with %.16q, want the head of a trace", status, body)
	}
}

func TestSpan(t *testing.T) {
	url := serve(t, true, true) + "/debug/pprof/"
	for _, path := range []string{
		"profile?seconds=301", "profile?seconds=0", "profile?seconds=-1", "profile?seconds=NaN", "profile?seconds=x", "trace?seconds=1e9",
		"block?seconds=Inf", "heap?seconds=1", "goroutine?debug=x", "goroutine?debug=-1", "heap?seconds=%zz",
	} {
		if status, body := get(t, url+path); status != refused+int(fault.KindInvalid) {
			t.Errorf("%s = %d %.80q, want an Invalid", path, status, body)
		}
	}
}

// TestSampling looks that waiting is counted while it is asked for, and that nothing is counted after that.
func TestSampling(t *testing.T) {
	url := serve(t, true, true) + "/debug/pprof/"
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !over.Load() {
			waitForTimer()
		}
	}()
	_, body := get(t, url+"block?seconds=0.3")
	over.Store(true)
	<-done
	if !strings.Contains(unpack(t, body), "waitForTimer") {
		t.Error("the profile of waiting lacks the function that waits")
	}
	if status, _ := get(t, url+"mutex?seconds=0.05"); status != http.StatusOK {
		t.Errorf("mutex = %d, want 200", status)
	}
	if rate := runtime.SetMutexProfileFraction(-1); rate != 0 {
		t.Errorf("mutexes are sampled with the rate %d afterwards, want 0", rate)
	}
}

// waitForTimer waits for another goroutine.
//
//go:noinline
func waitForTimer() {
	wake := make(chan struct{})
	time.AfterFunc(time.Millisecond, func() { close(wake) })
	<-wake
}

// TestOneAtATime measures until the client leaves: meanwhile another client is refused, and then it is served.
func TestOneAtATime(t *testing.T) {
	for _, kind := range []string{"profile", "trace", "block", "mutex"} {
		t.Run(kind, func(t *testing.T) {
			url := serve(t, true, true) + "/debug/pprof/" + kind
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			first := make(chan error, 1)
			go func() {
				for { // until it is not the short one that is under way
					status, _, err := ask(ctx, t, http.MethodGet, url+"?seconds=300")
					if status != refused+int(fault.KindConflict) {
						first <- err
						return
					}
				}
			}()
			answerIs(t, url, refused+int(fault.KindConflict))
			leave()
			if err := <-first; !errors.Is(err, context.Canceled) {
				t.Errorf("the first = %v, want its cancellation", err)
			}
			answerIs(t, url, http.StatusOK)
		})
	}
}

// answerIs waits until short measurements are answered with a status.
func answerIs(t *testing.T, url string, want int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		got, body := get(t, url+"?seconds=0.02")
		if got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s = %d %.200q, want %d", url, got, body, want)
		}
	}
}
