package registry_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/registry"
)

func TestPullErrors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		kind   fault.Constructor
		want   string // HOST stands for the registry
	}{
		{
			"denied", func(w http.ResponseWriter) { refuse(w, 403, "DENIED", "requested access to the resource is denied") }, fault.NotFound,
			"pull access denied for HOST/a/b, repository does not exist or may require a login: denied: requested access to the resource is denied",
		},
		{
			"unauthorized", func(w http.ResponseWriter) { refuse(w, 401, "UNAUTHORIZED", "authentication required") }, fault.NotFound,
			"pull access denied for HOST/a/b, repository does not exist or may require a login: unauthorized: authentication required",
		},
		{
			"forbidden without words", func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, fault.NotFound,
			"pull access denied for HOST/a/b, repository does not exist or may require a login: denied",
		},
		{
			"unknown tag", func(w http.ResponseWriter) { refuse(w, 404, "MANIFEST_UNKNOWN", "manifest unknown") }, fault.NotFound,
			"manifest for HOST/a/b:v not found: manifest unknown",
		},
		{
			"not found without words", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, fault.NotFound,
			"manifest for HOST/a/b:v not found: manifest unknown",
		},
		{
			"unknown repository", func(w http.ResponseWriter) { refuse(w, 404, "NAME_UNKNOWN", "repository name not known to registry") }, fault.NotFound,
			"repository HOST/a/b not found: name unknown: repository name not known to registry",
		},
		{"too many requests", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3600")
			refuse(w, 429, "TOOMANYREQUESTS", "You have reached your pull rate limit.")
		}, fault.Unavailable, "registry HOST: toomanyrequests: You have reached your pull rate limit. (the registry wants to be left alone for 1h0m0s)"},
		{"too many requests for now", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "0")
			refuse(w, 429, "TOOMANYREQUESTS", "slow down")
		}, fault.Unavailable, "registry HOST: toomanyrequests: slow down (the registry wants to be left alone for 0s)"},
		{"server error", func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, fault.Internal, "registry HOST: the registry answered 503 Service Unavailable"},
		{"control characters", func(w http.ResponseWriter) { refuse(w, 400, "\x1b[1mX", "a\x1b[2J\nb") }, fault.Internal, "registry HOST: [1mx: a[2J b"},
		{"endless words", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, fault.Internal, "registry HOST: the registry answered 400 Bad Request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/v2/" {
					return false
				}
				tc.answer(w)
				return true
			}
			_, err := newClient(t, registry.Config{}).Source(t.Context(), parse(t, s.host+"/a/b:v"), image.RegistryAuth{})
			want := strings.ReplaceAll(tc.want, "HOST", s.host)
			if !fault.Is(err, tc.kind) || err.Error() != want {
				t.Errorf("got  %v (kind %d)\nwant %s", err, fault.KindOf(err), want)
			}
		})
	}
}

// TestTooManyRequestsOnce waits for as long as the registry says and goes on.
func TestTooManyRequestsOnce(t *testing.T) {
	s := newServer(t)
	s.put("a/b", "v", nil)
	first := true
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/") || !first {
			return false
		}
		first = false
		w.Header().Set("Retry-After", "1")
		refuse(w, 429, "TOOMANYREQUESTS", "slow down")
		return true
	}
	began := time.Now()
	open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{})
	if waited := time.Since(began); waited < 900*time.Millisecond {
		t.Errorf("went on after %s, want a second", waited)
	}
}

func TestManifestBounds(t *testing.T) {
	s := newServer(t)
	s.manifests["a/b:huge"] = make([]byte, 4<<20+1)
	raw, _ := s.put("a/b", "v", nil)
	c := newClient(t, registry.Config{})
	_, err := c.Source(t.Context(), parse(t, s.host+"/a/b:huge"), image.RegistryAuth{})
	if err == nil || !strings.Contains(err.Error(), "more than 4 MiB") {
		t.Errorf("a manifest of more than 4 MiB: %v", err)
	}
	src := open(t, c, s.host+"/a/b:v", image.RegistryAuth{})
	got, kind, err := src.Manifest(t.Context(), digest.FromBytes(raw))
	if err != nil || !bytes.Equal(got, raw) || kind != manifestType {
		t.Errorf("by its digest: %q, %q, %v", got, kind, err)
	}
	other := digest.FromString("other")
	s.manifests["a/b:"+other.String()] = raw
	if _, _, err := src.Manifest(t.Context(), other); err == nil || !strings.Contains(err.Error(), "manifest verification failed") {
		t.Errorf("a manifest with another digest: %v", err)
	}
	if _, err := c.Source(t.Context(), parse(t, s.host+"/a/b@"+other.String()), image.RegistryAuth{}); err == nil || !strings.Contains(err.Error(), "manifest verification failed") {
		t.Errorf("opened by another digest: %v", err)
	}
	if _, _, err := src.Manifest(t.Context(), "sha256:../x"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a digest that is none: %v, want an Invalid", err)
	}
}

// TestServerFailsOnce asks again when it was the server's fault.
func TestServerFailsOnce(t *testing.T) {
	s := newServer(t)
	s.put("a/b", "v", nil)
	failures := 2
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/") || failures == 0 {
			return false
		}
		failures--
		w.WriteHeader(http.StatusBadGateway)
		return true
	}
	open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{})
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, registry.Config{})
	_, err = c.Source(t.Context(), parse(t, host+"/a/b:v"), image.RegistryAuth{})
	if !fault.Is(err, fault.Internal) || !strings.HasPrefix(err.Error(), "registry "+host+" cannot be reached: ") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("Source: %v, want the registry's name and the cause", err)
	}
	if _, err := c.Destination(t.Context(), parse(t, host+"/a/b:v"), image.RegistryAuth{}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("Destination: %v, want the cause", err)
	}
	if _, err := c.Tags(t.Context(), parse(t, host+"/a/b"), image.RegistryAuth{}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("Tags: %v, want the cause", err)
	}
}

func TestTags(t *testing.T) {
	s := newServer(t)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			return false
		}
		switch r.URL.Query().Get("last") {
		case "":
			w.Header().Set("Link", `<http://elsewhere.example/v2/a/b/tags/list?last=v1&n=2>; rel="next"`)
			_, _ = fmt.Fprint(w, `{"tags": ["v1", "", null, "../x", "sha256:00"]}`)
		case "v1":
			_, _ = fmt.Fprint(w, `{"tags": ["v2"]}`)
		}
		return true
	}
	tags, err := newClient(t, registry.Config{}).Tags(t.Context(), parse(t, s.host+"/a/b"), image.RegistryAuth{})
	if err != nil || strings.Join(tags, " ") != "v1 v2" {
		t.Errorf("got %q, %v, want v1 and v2", tags, err)
	}
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/tags/list") {
			w.Header().Set("Link", "<"+r.URL.String()+">")
			_, _ = fmt.Fprint(w, `{"tags": []}`)
			return true
		}
		return false
	}
	if _, err := newClient(t, registry.Config{}).Tags(t.Context(), parse(t, s.host+"/a/b"), image.RegistryAuth{}); err == nil || !strings.Contains(err.Error(), "no end") {
		t.Errorf("a list without an end: %v", err)
	}
}
