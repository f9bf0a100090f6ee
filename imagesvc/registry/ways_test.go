package registry_test

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/registry"
	"moss/storage"
)

func TestRedirects(t *testing.T) {
	ca := newAuthority(t)
	auth := image.RegistryAuth{RegistryToken: "secret"}
	const host = "reg.example:5000"
	for _, tc := range []struct {
		name string
		to   string
		want string // part of the error
		seen string // Authorization at the other server
	}{
		{name: "another host", to: "https://storage.example"},
		{name: "another port", to: "https://reg.example:5001"},
		{name: "without TLS", to: "http://storage.example", want: "refused to go on without TLS at storage.example"},
		{name: "same host without TLS", to: "http://reg.example:5000", want: "refused to go on without TLS"},
		{name: "this machine", to: "https://127.0.0.1:1", want: "refused to be led to 127.0.0.1:1"},
		{name: "this machine by name", to: "https://localhost:1", want: "refused to be led to localhost:1"},
		{name: "a private network", to: "https://10.1.2.3", want: "refused to be led to 10.1.2.3 in a private network"},
		{name: "a private network of IPv6", to: "https://[fd00::1]", want: "refused to be led to [fd00::1]"},
		{name: "this machine as IPv6", to: "https://[::ffff:127.0.0.1]:1", want: "refused to be led to [::ffff:127.0.0.1]:1"},
		{name: "metadata", to: "https://169.254.169.254", want: "refused to be led to 169.254.169.254"},
		{name: "a file", to: "file:///etc/passwd", want: "refused to go on without TLS"},
		{name: "itself", to: "https://" + host, want: "redirected too often"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, elsewhere := newTLSServer(t, ca, "reg.example", nil), newTLSServer(t, ca, "storage.example", nil)
			same := newTLSServer(t, ca, "reg.example", nil)
			layer := noise(1000)
			_, blob := s.put("a/b", "v", layer)
			elsewhere.put("a/b", "v", layer)
			same.put("a/b", "v", layer)
			w := newWorld(t, map[string]*server{
				host: s, "storage.example:443": elsewhere, "storage.example": elsewhere, "reg.example:5001": same,
			})
			s.before = func(res http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/blobs/") {
					return false
				}
				http.Redirect(res, r, tc.to+r.URL.Path+"?signature=hush", http.StatusTemporaryRedirect)
				return true
			}
			dirs := []string{trust(t, host, map[string][]byte{"ca.crt": ca.pem})}
			src := open(t, newClient(t, registry.Config{CertDirs: dirs, Proxy: w.proxy}), host+"/a/b:v", auth)
			_, err := readBlob(t, src, blob)
			if (tc.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err != nil && (strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "secret")) {
				t.Errorf("a secret in %v", err)
			}
			if got := s.seen("/blobs/")[0].Header.Get("Authorization"); got != "Bearer secret" {
				t.Errorf("the registry got %q, want the token", got)
			}
			for _, r := range append(elsewhere.seen("/"), same.seen("/")...) {
				if got := r.Header.Get("Authorization"); got != "" {
					t.Errorf("%s got %q", r.Host, got)
				}
			}
			if tc.want == "" && len(elsewhere.seen("/blobs/"))+len(same.seen("/blobs/")) != 1 {
				t.Error("the redirect was not followed")
			}
		})
	}
}

// TestRedirectsOnLoopback has registries of this machine lead to other servers on it, with a proxy for none of them.
func TestRedirectsOnLoopback(t *testing.T) {
	layer := noise(1000)
	direct := func(*url.URL) (*url.URL, error) { return nil, nil } //nolint:nilnil // as http.Transport has it
	for _, tc := range []struct {
		name  string
		to    func(s, other *server) string // the base that blobs are led to
		allow func(other *server) []string  // of the setting
		want  string                        // part of the error
	}{
		{name: "the same server", to: func(s, _ *server) string { return "http://" + s.host + "/moved" }},
		{
			name: "another port", to: func(_, other *server) string { return "http://" + other.host },
			want: "on this machine: name it in registry-redirect",
		},
		{
			name: "another port by a name", to: func(_, other *server) string {
				return strings.Replace("http://"+other.host, "127.0.0.1", "localhost", 1)
			},
			want: "refused to be led to localhost",
		},
		{
			name: "another port that is allowed", to: func(_, other *server) string { return "http://" + other.host },
			allow: func(other *server) []string { return []string{other.host} },
		},
		{
			name: "a network that is allowed", to: func(_, other *server) string { return "http://" + other.host },
			allow: func(*server) []string { return []string{"127.0.0.0/8"} },
		},
		{
			name: "another network is allowed", to: func(_, other *server) string { return "http://" + other.host },
			allow: func(*server) []string { return []string{"10.0.0.0/8", "127.0.0.1:1"} }, want: "on this machine",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, other := newServer(t), newServer(t)
			_, blob := s.put("a/b", "v", layer)
			other.put("a/b", "v", layer)
			s.before = func(res http.ResponseWriter, r *http.Request) bool {
				if path, ok := strings.CutPrefix(r.URL.Path, "/moved"); ok {
					r.URL.Path = path
					return false
				}
				if strings.Contains(r.URL.Path, "/blobs/") {
					http.Redirect(res, r, tc.to(s, other)+r.URL.Path, http.StatusTemporaryRedirect)
					return true
				}
				return false
			}
			cfg := registry.Config{Proxy: direct}
			if tc.allow != nil {
				cfg.Redirects = tc.allow(other)
			}
			_, err := readBlob(t, open(t, newClient(t, cfg), s.host+"/a/b:v", image.RegistryAuth{}), blob)
			if (tc.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if n := len(other.seen("/")); tc.want != "" && n != 0 {
				t.Errorf("%d requests reached the other server, want none", n)
			}
		})
	}
}

// TestUploadsElsewhere has a registry name another server of this machine as the place of an upload.
func TestUploadsElsewhere(t *testing.T) {
	s, other := newServer(t), newServer(t)
	s.writable()
	begin := s.before
	s.before = func(res http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			res.Header().Set("Location", "http://"+other.host+r.URL.Path+"1")
			res.WriteHeader(http.StatusAccepted)
			return true
		}
		return begin != nil && begin(res, r)
	}
	d, err := newClient(t, registry.Config{}).Destination(t.Context(), parse(t, s.host+"/u/x:v"), image.RegistryAuth{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // nothing depends on it
	_, err = d.Put(t.Context(), storage.Blob{Size: 3}, strings.NewReader("abc"))
	if err == nil || !strings.Contains(err.Error(), "refused to be led to") || len(other.seen("/")) != 0 {
		t.Errorf("got %v and %d requests elsewhere, want a refusal", err, len(other.seen("/")))
	}
}

func TestMirrors(t *testing.T) {
	ca := newAuthority(t)
	auth := image.RegistryAuth{Username: "u", Password: "p"}
	layer := noise(1 << 20)
	for _, tc := range []struct {
		name     string
		mirror   func(m *server) // what is wrong with it
		onMirror bool            // the blob came from there
	}{
		{"has it", func(*server) {}, true},
		{"does not have it", func(m *server) { clear(m.manifests) }, false},
		{"has the manifest only", func(m *server) { clear(m.blobs) }, false},
		{"is gone", func(m *server) { m.shut() }, false},
		{"fails", func(m *server) {
			m.before = func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusInternalServerError)
				return true
			}
		}, false},
		{"breaks in the middle", func(m *server) {
			m.cutAt(layer, slices.Repeat([]int{300_000}, 100))
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, origin := newServer(t), newTLSServer(t, ca, "registry-1.docker.io", nil)
			origin.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/v2/" {
					return false
				}
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			_, blob := m.put("library/x", "v", layer)
			origin.put("library/x", "v", layer)
			tc.mirror(m)
			w := newWorld(t, map[string]*server{"registry-1.docker.io:443": origin})
			c := newClient(t, registry.Config{
				Mirrors: []string{m.host}, Proxy: w.proxy, CertDirs: []string{trust(t, "docker.io", map[string][]byte{"ca.crt": ca.pem})},
			})
			got, err := readBlob(t, open(t, c, "x:v", auth), blob)
			if err != nil || string(got) != string(layer) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if asked := len(origin.seen("/blobs/")); (asked == 0) != tc.onMirror {
				t.Errorf("%d requests for the blob at the origin, want that to be none: %t", asked, tc.onMirror)
			}
			for _, r := range m.seen("/") {
				if got := r.Header.Get("Authorization"); got != "" {
					t.Errorf("the mirror got %q", got)
				}
			}
			for _, r := range origin.seen("/manifests/") {
				if got := r.Header.Get("Authorization"); got != "Basic dTpw" {
					t.Errorf("the origin got %q", got)
				}
			}
		})
	}
}

// TestMirrorTags asks a mirror for tags too, and pushes past it.
func TestMirrorTags(t *testing.T) {
	ca := newAuthority(t)
	m, origin := newServer(t), newTLSServer(t, ca, "registry-1.docker.io", nil)
	manifest, _ := m.put("u/x", "v", nil)
	origin.put("u/x", "w", nil)
	origin.writable()
	w := newWorld(t, map[string]*server{"registry-1.docker.io:443": origin})
	c := newClient(t, registry.Config{
		Mirrors: []string{"http://" + m.host + "/"}, Proxy: w.proxy, CertDirs: []string{trust(t, "docker.io", map[string][]byte{"ca.crt": ca.pem})},
	})
	if tags, err := c.Tags(t.Context(), parse(t, "u/x"), image.RegistryAuth{}); err != nil || !slices.Equal(tags, []string{"v"}) {
		t.Errorf("tags %q, %v, want the mirror's", tags, err)
	}
	before := len(m.seen("/"))
	d, err := c.Destination(t.Context(), parse(t, "u/x:new"), image.RegistryAuth{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.PutManifest(t.Context(), manifest); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if len(m.seen("/")) != before || len(origin.seen("/manifests/new")) != 1 {
		t.Error("a push has to go to docker.io and nowhere else")
	}
}

// TestProxyOfTheEnvironment runs itself again, since a process reads these variables once.
func TestProxyOfTheEnvironment(t *testing.T) {
	const host = "reg.example:5000"
	if os.Getenv("TEST_PROXY_CHILD") != "" {
		open(t, newClient(t, registry.Config{Insecure: []string{host}}), host+"/a/b:v", image.RegistryAuth{})
		return
	}
	s := newServer(t)
	s.put("a/b", "v", nil)
	w := newWorld(t, map[string]*server{host: s})
	run := func(env ...string) (string, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProxyOfTheEnvironment$")
		cmd.Env = slices.Concat(env, []string{"TEST_PROXY_CHILD=1", "TMPDIR=" + t.TempDir()})
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("HTTPS_PROXY="+w.URL, "http_proxy="+w.URL); err != nil {
		t.Errorf("with the proxy: %v\n%s", err, out)
	}
	if asked := w.requests(); len(asked) < 2 || asked[0] != "CONNECT "+host || asked[1] != "GET "+host {
		t.Errorf("the proxy was asked for %q", asked)
	}
	before := len(w.requests())
	if out, err := run("HTTPS_PROXY="+w.URL, "http_proxy="+w.URL, "NO_PROXY=reg.example"); err == nil || len(w.requests()) != before {
		t.Errorf("with NO_PROXY: %v\n%s", err, out)
	}
}

// TestProxyWithoutSense has a setting whose text may hold a password.
func TestProxyWithoutSense(t *testing.T) {
	c := newClient(t, registry.Config{Proxy: func(*url.URL) (*url.URL, error) { return nil, errors.New("bad proxy http://u:hush@h/%zz") }})
	_, err := c.Source(t.Context(), parse(t, "reg.example/a:v"), image.RegistryAuth{})
	if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "the proxy set for it is not a usable URL") {
		t.Errorf("got %v", err)
	}
}

func TestSettings(t *testing.T) {
	c := newClient(t, registry.Config{
		Mirrors:  []string{"Mirror.example", "http://10.0.0.1:5000/", "lan"},
		Insecure: []string{"10.1.0.0/8", "reg.example:5000", "127.0.0.0/8", "lan"},
	})
	got := c.Config()
	if got.IndexServer != "https://index.docker.io/v1/" {
		t.Errorf("index server %q", got.IndexServer)
	}
	if want := []string{"::1/128", "127.0.0.0/8", "10.0.0.0/8"}; !slices.Equal(got.InsecureCIDRs, want) {
		t.Errorf("insecure networks %q, want %q", got.InsecureCIDRs, want)
	}
	if len(got.Indexes) != 3 || got.Indexes[0].Name != "docker.io" || !got.Indexes[0].Secure || !got.Indexes[0].Official ||
		!slices.Equal(got.Indexes[0].Mirrors, []string{"https://mirror.example/", "http://10.0.0.1:5000/", "https://lan:443/"}) ||
		got.Indexes[1].Name != "reg.example:5000" || got.Indexes[1].Secure || got.Indexes[2].Name != "lan" {
		t.Errorf("indexes %+v", got.Indexes)
	}
	for _, cfg := range []registry.Config{
		{Mirrors: []string{"https://x.example/path"}},
		{Mirrors: []string{"ftp://x.example"}},
		{Mirrors: []string{""}},
		{Mirrors: []string{"https://u:p@x.example"}},
		{Insecure: []string{"http://x"}},
		{Insecure: []string{"docker.io"}},
		{Insecure: []string{"10.0.0.0/33"}},
		{Insecure: []string{""}},
	} {
		if _, err := registry.New(cfg); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q %q: %v, want an Invalid", cfg.Mirrors, cfg.Insecure, err)
		}
	}
}

func TestHTTP(t *testing.T) {
	c := newClient(t, registry.Config{Insecure: []string{"reg.example"}})
	for host, want := range map[string][]string{
		"docker.io":        {"https://registry-1.docker.io"},
		"secure.example":   {"https://secure.example"},
		"reg.example:5000": {"https://reg.example:5000", "http://reg.example:5000"},
		"127.0.0.1:5000":   {"https://127.0.0.1:5000", "http://127.0.0.1:5000"},
		"[::1]:5000":       {"https://[::1]:5000", "http://[::1]:5000"},
	} {
		client, bases, err := c.HTTP(host)
		if err != nil || client == nil || !slices.Equal(bases, want) {
			t.Errorf("%s: %q, %v, want %q", host, bases, err, want)
		}
	}
}
