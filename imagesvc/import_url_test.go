package imagesvc

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
)

// site serves archives and what is none.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	plain := rootfs(t, strings.Repeat("hello", 50_000))
	mux := http.NewServeMux()
	send := func(raw []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
			_, _ = w.Write(raw)
		}
	}
	mux.HandleFunc("/a.tar", send(plain))
	mux.HandleFunc("/a.tar.gz", send(compressed(t, plain, toGzip)))
	mux.HandleFunc("/unsized", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(plain[:100])
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(plain[100:])
	})
	mux.HandleFunc("/agent", func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); r.UserAgent() != "moss/test" || user != "me" || password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(plain)
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(plain)))
		_, _ = w.Write(plain[:100_000])
	})
	mux.HandleFunc("/text", send([]byte("hello")))
	mux.HandleFunc("/gone", http.NotFound)
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	mux.HandleFunc("/once", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/a.tar", http.StatusFound) })
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

func TestImportURL(t *testing.T) {
	s, _, events := newService(t, Limits{})
	srv := site(t)
	host := strings.TrimPrefix(srv.URL, "http://")
	for _, tc := range []struct{ name, source, comment string }{
		{"plain", srv.URL + "/a.tar", "Imported from " + srv.URL + "/a.tar"},
		{"gzip", srv.URL + "/a.tar.gz", "Imported from " + srv.URL + "/a.tar.gz"},
		{"no scheme", host + "/a.tar", "Imported from " + srv.URL + "/a.tar"},
		{"no size", srv.URL + "/unsized", "Imported from " + srv.URL + "/unsized"},
		{"redirect", srv.URL + "/once", "Imported from " + srv.URL + "/once"},
		{"password", "http://me:secret@" + host + "/agent", "Imported from http://me:xxxxx@" + host + "/agent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var told []image.Progress
			id, err := s.Import(t.Context(), nil, image.ImportOptions{Source: tc.source, Repo: "a"}, func(p image.Progress) { told = append(told, p) })
			if err != nil {
				t.Fatal(err)
			}
			img, err := s.Get(t.Context(), "a")
			if err != nil || img.ID != id || img.Comment != tc.comment {
				t.Errorf("Get = %+v, %v, want %s with the comment %q", img, err, id, tc.comment)
			}
			if len(told) < 3 || told[0].Status != "Downloading from "+strings.TrimPrefix(tc.comment, "Imported from ") || told[len(told)-1].Status != id {
				t.Fatalf("progress = %+v", told)
			}
			last := told[len(told)-2]
			if last.Status != "Downloading" || last.Current == 0 || (last.Total != last.Current) == (tc.name != "no size" && tc.name != "password") {
				t.Errorf("the last progress = %+v", last)
			}
			if got := events.take(); got != "tag,import" {
				t.Errorf("events = %s", got)
			}
		})
	}
	if _, err := s.Import(t.Context(), nil, image.ImportOptions{Source: srv.URL + "/a.tar", Message: "mine"}, nil); err != nil {
		t.Fatal(err)
	}
	if list, err := s.List(t.Context(), image.ListOptions{}); err != nil || list[0].Comment != "mine" {
		t.Errorf("the newest image = %+v, %v, want the message as comment", list[0], err)
	}
}

func TestImportURLFails(t *testing.T) {
	s, st, events := newService(t, Limits{})
	srv := site(t)
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, tc := range []struct {
		name, source, want string
		kind               fault.Constructor
	}{
		{"scheme", "ftp://host/x", "downloads come from http:// or https://, not from ftp://", fault.Invalid},
		{"file", "file:///etc/passwd", "downloads come from", fault.Invalid},
		{"no host", "http:///x", "has no host", fault.Invalid},
		{"bad", "http://me:secret@h:x/y", "invalid URL: ", fault.Invalid},
		{"long", "http://h/" + strings.Repeat("x", 8<<10), "the URL has ", fault.Invalid},
		{"nobody listens", closed.URL + "/a.tar", "connection refused", fault.Internal},
		{"not found", srv.URL + "/gone", "answers 404 Not Found", fault.NotFound},
		{"refused", "http://me:other@" + strings.TrimPrefix(srv.URL, "http://") + "/agent", "answers 401 Unauthorized", fault.Forbidden},
		{"server's trouble", srv.URL + "/broken", "answers 502 Bad Gateway", fault.Internal},
		{"redirects without end", srv.URL + "/loop", "more than 10 redirects", fault.Invalid},
		{"redirect to a file", srv.URL + "/file", "not from file://", fault.Invalid},
		{"cut", srv.URL + "/cut", "unexpected EOF", fault.Invalid},
		{"text", srv.URL + "/text", "", fault.Invalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := s.Import(t.Context(), nil, image.ImportOptions{Source: tc.source}, nil)
			if !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "other@") {
				t.Errorf("Import = %v, want %q", err, tc.want)
			}
			nothingLeft(t, st)
		})
	}
	if got := events.take(); got != "" {
		t.Errorf("events = %s", got)
	}
}

func TestImportURLCancelled(t *testing.T) {
	s, st, _ := newService(t, Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(rootfs(t, strings.Repeat("x", 100_000))[:50_000])
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	}))
	defer srv.Close()
	if _, err := s.Import(ctx, nil, image.ImportOptions{Source: srv.URL}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Import = %v, want cancelled", err)
	}
	nothingLeft(t, st)
}
