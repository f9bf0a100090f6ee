package download

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/fault"
)

const text = "what was asked for"

// site serves a file and what is none.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Agent", r.UserAgent())
		_, _ = io.WriteString(w, text)
	})
	mux.HandleFunc("/gone", http.NotFound)
	mux.HandleFunc("/refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	mux.HandleFunc("/once", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/file", http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/local", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

func open(t *testing.T, text string, opt Options) (*Body, error) {
	t.Helper()
	u, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return Open(t.Context(), u, opt)
}

func TestOpen(t *testing.T) {
	srv := site(t)
	for _, tc := range []struct{ name, url, where string }{
		{"plain", srv.URL + "/file", "/file"},
		{"no scheme", strings.TrimPrefix(srv.URL, "http://") + "/file", "/file"},
		{"redirect", srv.URL + "/once", "/file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var told []int64
			b, err := open(t, tc.url, Options{UserAgent: "me/1", Progress: func(current, total int64) { told = append(told, current, total) }})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(b)
			if err = errors.Join(err, b.Close()); err != nil || string(got) != text {
				t.Errorf("the body is %q, %v, want %q", got, err, text)
			}
			if b.URL.Path != tc.where || b.Size != int64(len(text)) || b.Header.Get("X-Agent") != "me/1" {
				t.Errorf("Open = %s with %d bytes for %q", b.URL, b.Size, b.Header.Get("X-Agent"))
			}
			if n := int64(len(text)); len(told) < 2 || !slices.Equal(told[len(told)-2:], []int64{n, n}) {
				t.Errorf("progress = %d, want %d of as many at the end", told, n)
			}
		})
	}
}

func TestOpenFails(t *testing.T) {
	srv := site(t)
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, tc := range []struct {
		name, url, want string
		kind            fault.Constructor
	}{
		{"nobody listens", closed.URL + "/", "connection refused", fault.Internal},
		{"password", strings.Replace(closed.URL, "http://", "http://me:secret@", 1), "connection refused", fault.Internal},
		{"not found", srv.URL + "/gone", "download the file: " + srv.URL + "/gone answers 404 Not Found", fault.NotFound},
		{"refused", srv.URL + "/refused", "answers 403 Forbidden", fault.Forbidden},
		{"server's trouble", srv.URL + "/broken", "answers 502 Bad Gateway", fault.Internal},
		{"redirects without end", srv.URL + "/loop", "more than 10 redirects", fault.Invalid},
		{"redirect to a file", srv.URL + "/local", "not from file://", fault.Invalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := open(t, tc.url, Options{})
			if !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("Open = %v, want %q", err, tc.want)
			}
		})
	}
}

// silent is a body that brings something and then nothing more.
type silent struct {
	ctx  context.Context //nolint:containedctx // that of the request, which ends its body
	data io.Reader
}

func (s *silent) Read(p []byte) (int, error) {
	if n, err := s.data.Read(p); n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func (s *silent) Close() error { return nil }

// TestDownloadStalls has a server fall silent, and a client take its time.
func TestDownloadStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		d := newBody(ctx, cancel, &http.Response{ContentLength: 3, Body: &silent{ctx, strings.NewReader("abc")}}, &url.URL{Host: "h"}, Options{})
		buf := make([]byte, 3)
		time.Sleep(2 * stall) // who reads is slow, not the server
		if n, err := d.Read(buf); n != 3 || err != nil {
			t.Fatalf("Read = %d, %v", n, err)
		}
		before := time.Now()
		_, err := d.Read(buf)
		if took := time.Since(before); took != stall || err == nil || !strings.Contains(err.Error(), "h sent nothing for 1m0s") {
			t.Errorf("Read of a silent server = %v after %v", err, took)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"h/x", "http://h:1/x", "https://me:x@[::1]/", "://", "file:///x", "http://%zz"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := Parse(text)
		if err != nil && !fault.Is(err, fault.Invalid) || err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "") {
			t.Errorf("Parse(%q) = %v, %v", text, u, err)
		}
	})
}
