package registry_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/registry"
)

const indexAnswer = `{"results": [
	{"name": "busybox", "description": "small\u001b[2J", "star_count": 300, "is_official": true, "is_automated": false},
	{"name": "u/busybox", "description": "", "star_count": 7, "is_official": false, "is_automated": true},
	{"name": "v/busybox", "star_count": 0}
]}`

// indexed makes a server answer searches as docker.io's index does.
func (s *server) indexed() {
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/search" {
			return false
		}
		_, _ = fmt.Fprint(w, indexAnswer)
		return true
	}
}

func TestSearch(t *testing.T) {
	all := []string{"busybox", "u/busybox", "v/busybox"}
	s := newServer(t)
	s.indexed()
	c := newClient(t, registry.Config{})
	for _, tc := range []struct {
		name  string
		limit int
		want  []string
	}{
		{"all", 0, all},
		{"limit", 2, all[:2]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, err := c.Search(t.Context(), image.SearchOptions{Term: s.host + "/busybox", Limit: tc.limit})
			if err != nil {
				t.Fatal(err)
			}
			names := make([]string, 0, len(found))
			for _, r := range found {
				names = append(names, r.Name)
			}
			if !slices.Equal(names, tc.want) {
				t.Errorf("got %q, want %q", names, tc.want)
			}
		})
	}
	found, err := c.Search(t.Context(), image.SearchOptions{Term: s.host + "/busybox", Auth: image.RegistryAuth{Username: "u", Password: "p"}})
	if want := (image.SearchResult{Name: "busybox", Description: "small[2J", Official: true, Stars: 300}); err != nil || found[0] != want {
		t.Errorf("got %+v, %v, want %+v", found, err, want)
	}
	seen := s.seen("/v1/search")
	if q := seen[0].URL.RawQuery; q != "n=25&q=busybox" {
		t.Errorf("asked with %q", q)
	}
	if got := seen[len(seen)-1].Header.Get("Authorization"); got != "Basic dTpw" {
		t.Errorf("Authorization %q, want the credentials", got)
	}
}

func TestSearchRefuses(t *testing.T) {
	c := newClient(t, registry.Config{})
	for _, tc := range []struct {
		name string
		opts image.SearchOptions
		want string
	}{
		{"no term", image.SearchOptions{}, "search term"},
		{"host only", image.SearchOptions{Term: "127.0.0.1:1/"}, "search term"},
		{"bad host", image.SearchOptions{Term: "a@b.c/x"}, "host"},
		{"limit", image.SearchOptions{Term: "x", Limit: 101}, "Limit 101 is outside the range of [1, 100]"},
		{"negative limit", image.SearchOptions{Term: "x", Limit: -1}, "Limit -1"},
	} {
		if _, err := c.Search(t.Context(), tc.opts); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want an Invalid with %q", tc.name, err, tc.want)
		}
	}
}

// TestSearchHub looks docker.io's index up under its own name.
func TestSearchHub(t *testing.T) {
	ca := newAuthority(t)
	s := newTLSServer(t, ca, "index.docker.io", nil)
	s.indexed()
	w := newWorld(t, map[string]*server{"index.docker.io:443": s})
	c := newClient(t, registry.Config{Proxy: w.proxy, CertDirs: []string{trust(t, "docker.io", map[string][]byte{"ca.crt": ca.pem})}})
	for _, term := range []string{"busybox", "library/busybox", "docker.io/busybox"} {
		found, err := c.Search(t.Context(), image.SearchOptions{Term: term})
		if err != nil || len(found) != 3 {
			t.Errorf("%s: %+v, %v, want three", term, found, err)
		}
	}
	for _, r := range s.seen("/v1/search") {
		if q := r.URL.Query().Get("q"); q != "busybox" {
			t.Errorf("searched for %q", q)
		}
	}
	s.before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "600")
		refuse(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "slow down")
		return true
	}
	if _, err := c.Search(t.Context(), image.SearchOptions{Term: "busybox"}); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "10m0s") {
		t.Errorf("too many requests: %v, want an Unavailable with the time to wait", err)
	}
}

// TestSearchCatalog has a registry without an index.
func TestSearchCatalog(t *testing.T) {
	s := newServer(t)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v2/_catalog" {
			return false
		}
		names := []string{"a/one", "one-more", "other"}
		if r.URL.Query().Get("last") != "" {
			names = []string{"one"}
		} else {
			w.Header().Set("Link", `</v2/_catalog?last=other>; rel="next"`)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"repositories": names})
		return true
	}
	c := newClient(t, registry.Config{})
	found, err := c.Search(t.Context(), image.SearchOptions{Term: s.host + "/one"})
	names := make([]string, 0, len(found))
	for _, r := range found {
		names = append(names, r.Name)
	}
	if err != nil || !slices.Equal(names, []string{"one", "a/one", "one-more"}) {
		t.Errorf("got %q, %v, want the one of that name first", names, err)
	}
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			return false
		}
		refuse(w, http.StatusForbidden, "DENIED", "no catalog for you")
		return true
	}
	_, err = c.Search(t.Context(), image.SearchOptions{Term: s.host + "/one"})
	if !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "denied: no catalog for you") {
		t.Errorf("got %v, want a NotFound in the registry's words", err)
	}
}
