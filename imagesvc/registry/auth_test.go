package registry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/registry"
	"moss/storage"
)

// issuer is a token server, and what it gave out.
type issuer struct {
	*httptest.Server

	mu     sync.Mutex // guards the fields below
	asked  []string   // the form of each request: method, grant type and scopes
	valid  map[string]string
	number int
}

// guard puts a token server before a registry. For nobody it issues tokens too, unless private.
func guard(t *testing.T, s *server, private bool) *issuer {
	t.Helper()
	i := &issuer{valid: make(map[string]string)}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { i.issue(w, r, private) }))
	t.Cleanup(i.Close)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		i.mu.Lock()
		scopes, known := i.valid[token]
		i.mu.Unlock()
		path, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/")
		path, _, _ = strings.Cut(path, "/blobs/")
		if ok && known && (path == "" || strings.Contains(scopes, "repository:"+path+":")) {
			return false
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=\"test\"", i.URL+"/token"))
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
		return true
	}
	return i
}

func (i *issuer) issue(w http.ResponseWriter, r *http.Request, private bool) {
	_ = r.ParseForm()
	user, password, _ := r.BasicAuth()
	if r.Method == http.MethodPost {
		user, password = r.PostForm.Get("username"), r.PostForm.Get("password")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked = append(i.asked, strings.TrimSpace(r.Method+" "+r.Form.Get("grant_type")+" "+strings.Join(r.Form["scope"], " ")))
	good := user == "u" && password == "p" || r.Form.Get("refresh_token") == "identity" || user == "" && password == "" && r.Form.Get("refresh_token") == ""
	if !good || (private && r.Method == http.MethodGet && user == "") {
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "incorrect username or password")
		return
	}
	i.number++
	token := fmt.Sprintf("token-%d", i.number)
	i.valid[token] = strings.Join(r.Form["scope"], " ")
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "access_token": token, "expires_in": 300, "scope": i.valid[token]})
}

// expire makes all tokens worthless.
func (i *issuer) expire() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.valid)
}

func (i *issuer) requests() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.asked)
}

func TestTokens(t *testing.T) {
	for _, tc := range []struct {
		name    string
		private bool
		auth    image.RegistryAuth
		want    string // the first request for a token; empty: pull access denied
	}{
		{"nobody", false, image.RegistryAuth{}, "GET  repository:a/b:pull"},
		{"user", true, image.RegistryAuth{Username: "u", Password: "p"}, "POST password repository:a/b:pull"},
		{"identity token", true, image.RegistryAuth{IdentityToken: "identity"}, "POST refresh_token repository:a/b:pull"},
		{"wrong password", true, image.RegistryAuth{Username: "u", Password: "secret-wrong"}, ""},
		{"private and nobody", true, image.RegistryAuth{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			i := guard(t, s, tc.private)
			_, blob := s.put("a/b", "v", noise(1000))
			c := newClient(t, registry.Config{})
			src, err := c.Source(t.Context(), parse(t, s.host+"/a/b:v"), tc.auth)
			if tc.want == "" {
				if !fault.Is(err, fault.NotFound) || !strings.HasPrefix(err.Error(), "pull access denied for "+s.host+"/a/b, repository does not exist or may require a login: ") {
					t.Errorf("got %v, want pull access denied", err)
				}
				if strings.Contains(fmt.Sprint(err), "secret") {
					t.Errorf("the password is in %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := readBlob(t, src, blob); err != nil {
				t.Error(err)
			}
			if asked := i.requests(); len(asked) != 1 || asked[0] != tc.want {
				t.Errorf("asked for tokens: %q, want one %q", asked, tc.want)
			}
			if err := src.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTokenEndsDuringTransfer breaks a connection, and what follows needs a new token.
func TestTokenEndsDuringTransfer(t *testing.T) {
	s := newServer(t)
	i := guard(t, s, false)
	layer := noise(1 << 20)
	_, blob := s.put("a/b", "v", layer)
	ask := s.before
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if ask(w, r) {
			return true
		}
		if strings.Contains(r.URL.Path, "/blobs/") && r.Header.Get("Range") == "" {
			i.expire()
			w.Header().Set("Content-Length", "1048576")
			_, _ = w.Write(layer[:300_000])
			panic(http.ErrAbortHandler)
		}
		return false
	}
	src := open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{})
	if got, err := readBlob(t, src, blob); err != nil || !bytes.Equal(got, layer) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if asked := i.requests(); len(asked) != 2 {
		t.Errorf("asked for tokens: %q, want two", asked)
	}
	i.expire()
	if _, _, err := src.Manifest(t.Context(), digest.FromBytes(s.manifests["a/b:v"])); err != nil {
		t.Errorf("manifest after the token's end: %v", err)
	}
	i.expire()
	if streams, _, err := src.Ranges(t.Context(), blob).GetBlobAt([]storage.Range{{Offset: 1, Length: 1}}); err != nil {
		t.Errorf("part after the token's end: %v", err)
	} else if err := (<-streams).Close(); err != nil {
		t.Error(err)
	}
}

// TestScopesOfARefusal has a registry that names what else it wants to see when it refuses a request, in one parameter or two.
func TestScopesOfARefusal(t *testing.T) {
	for _, wants := range []string{
		`scope="repository:a/b:pull repository:base/c:pull"`,
		`scope="repository:a/b:pull",scope="repository:base/c:pull"`,
	} {
		s := newServer(t)
		i := guard(t, s, false)
		s.put("a/b", "v", nil)
		ask := s.before
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			i.mu.Lock()
			scopes := i.valid[token]
			i.mu.Unlock()
			if !strings.Contains(r.URL.Path, "/manifests/") || strings.Contains(scopes, "repository:base/c:pull") {
				return ask(w, r)
			}
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=\"test\",%s", i.URL+"/token", wants))
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
			return true
		}
		open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{})
		asked := i.requests()
		if want := "GET  repository:a/b:pull repository:base/c:pull"; len(asked) != 2 || asked[1] != want {
			t.Errorf("%s: asked for tokens: %q, want %q as the second", wants, asked, want)
		}
	}
}

// TestTokenNeverGood has a server that issues tokens and takes none for blobs.
func TestTokenNeverGood(t *testing.T) {
	s := newServer(t)
	i := guard(t, s, false)
	_, blob := s.put("a/b", "v", noise(10))
	src := open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", image.RegistryAuth{})
	ask := s.before
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		i.expire()
		return ask(w, r)
	}
	if _, err := readBlob(t, src, blob); !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "unauthorized: authentication required") {
		t.Errorf("got %v, want access denied in the registry's words", err)
	}
	if n := len(s.seen("/blobs/")); n != 2 {
		t.Errorf("%d requests, want two: with the token, and with a new one", n)
	}
}

func TestCredentialsAsTheyAre(t *testing.T) {
	for _, tc := range []struct {
		name string
		auth func(host string) image.RegistryAuth
		want string // Authorization of the request for the manifest
	}{
		{"basic", func(string) image.RegistryAuth { return image.RegistryAuth{Username: "u", Password: "p"} }, "Basic dTpw"},
		{"for this registry", func(host string) image.RegistryAuth {
			return image.RegistryAuth{Username: "u", Password: "p", ServerAddress: "https://" + host + "/v1/"}
		}, "Basic dTpw"},
		{"for another registry", func(string) image.RegistryAuth {
			return image.RegistryAuth{Username: "u", Password: "p", ServerAddress: "registry.example"}
		}, ""},
		{"registry token", func(string) image.RegistryAuth { return image.RegistryAuth{RegistryToken: "given"} }, "Bearer given"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			s.put("a/b", "v", nil)
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/v2/" {
					return false
				}
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
				return true
			}
			open(t, newClient(t, registry.Config{}), s.host+"/a/b:v", tc.auth(s.host))
			if got := s.seen("/manifests/")[0].Header.Get("Authorization"); got != tc.want {
				t.Errorf("Authorization %q, want %q", got, tc.want)
			}
			if got := s.seen("/manifests/")[0].Header.Get("User-Agent"); got != "moss/test" {
				t.Errorf("User-Agent %q", got)
			}
		})
	}
}

// writable makes a server take what is pushed to a/new, and mounts what is asked for.
func (s *server) writable() {
	ask := s.before
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if ask != nil && ask(w, r) {
			return true
		}
		switch {
		case r.Method == http.MethodPost && r.URL.Query().Get("mount") != "":
			w.WriteHeader(http.StatusCreated)
		case r.Method == http.MethodPost:
			w.Header().Set("Location", "/v2/a/new/blobs/uploads/1?_state=secret")
			w.WriteHeader(http.StatusAccepted)
		case r.Method == http.MethodPatch:
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Location", "/v2/a/new/blobs/uploads/1?_state=secret")
			w.WriteHeader(http.StatusAccepted)
		case r.Method == http.MethodPut:
			w.WriteHeader(http.StatusCreated)
		default:
			return false
		}
		return true
	}
}

func TestPushTokens(t *testing.T) {
	s := newServer(t)
	i := guard(t, s, true)
	s.writable()
	c := newClient(t, registry.Config{})
	auth := image.RegistryAuth{Username: "u", Password: "p"}
	d, err := c.Destination(t.Context(), parse(t, s.host+"/a/new:v"), auth)
	if err != nil {
		t.Fatal(err)
	}
	blob := storage.Blob{Digest: digest.FromString("x"), Size: 1}
	if mounted, err := d.Mount(t.Context(), parse(t, s.host+"/a/other"), blob); !mounted || err != nil {
		t.Errorf("Mount: %t, %v", mounted, err)
	}
	if _, err := d.Put(t.Context(), blob, strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	want := []string{
		"POST password repository:a/new:pull,push",
		"POST password repository:a/new:pull,push repository:a/other:pull",
	}
	if asked := i.requests(); !slices.Equal(asked, want) {
		t.Errorf("asked for tokens:\n%q, want\n%q", asked, want)
	}
	if _, err := d.Put(t.Context(), storage.Blob{Size: -1}, strings.NewReader("z")); err != nil {
		t.Error(err)
	}
	if asked := i.requests(); !slices.Equal(asked, want) {
		t.Errorf("asked for tokens:\n%q, want\n%q", asked, want)
	}
	i.expire()
	if has, err := d.Has(t.Context(), blob); has || err != nil {
		t.Errorf("Has after the token's end: %t, %v", has, err)
	}
	i.expire()
	if _, err := d.PutManifest(t.Context(), []byte(`{"schemaVersion":2}`)); err != nil {
		t.Errorf("PutManifest after the token's end: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestPushRefused(t *testing.T) {
	s := newServer(t)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead || r.Method == http.MethodGet {
			return false
		}
		refuse(w, http.StatusForbidden, "DENIED", "requested access to the resource is denied")
		return true
	}
	c := newClient(t, registry.Config{})
	d, err := c.Destination(t.Context(), parse(t, s.host+"/a/new:v"), image.RegistryAuth{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Put(t.Context(), storage.Blob{Digest: digest.FromString("x"), Size: 1}, strings.NewReader("x"))
	if !fault.Is(err, fault.Unauthorized) || !strings.HasSuffix(err.Error(), "denied: requested access to the resource is denied") {
		t.Errorf("Put: %v, want an Unauthorized in the registry's words", err)
	}
	if _, err := d.PutManifest(t.Context(), []byte(`{"schemaVersion":2}`)); !fault.Is(err, fault.Unauthorized) {
		t.Errorf("PutManifest: %v, want an Unauthorized", err)
	}
	if mounted, err := d.Mount(t.Context(), parse(t, s.host+"/a/other"), storage.Blob{Digest: digest.FromString("x"), Size: 1}); mounted || err != nil {
		t.Errorf("Mount: %t, %v, want that it is not to be had", mounted, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Destination(t.Context(), parse(t, s.host+"/a/new@"+digest.FromString("x").String()), image.RegistryAuth{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a name without a tag: %v, want an Invalid", err)
	}
}

// TestPushStalls has a server that stops reading, and one that never answers.
func TestPushStalls(t *testing.T) {
	for _, method := range []string{http.MethodPatch, http.MethodPut, http.MethodHead} {
		t.Run(method, func(t *testing.T) {
			t.Parallel() // it mostly waits
			s := newServer(t)
			s.writable()
			ask := s.before
			over := make(chan struct{})
			t.Cleanup(func() { close(over) }) // a request whose body nobody reads does not see the end of its connection
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == method {
					<-over
					return true
				}
				return ask(w, r)
			}
			c := newClient(t, registry.Config{Stall: busyStall})
			d, err := c.Destination(t.Context(), parse(t, s.host+"/a/new:v"), image.RegistryAuth{})
			if err != nil {
				t.Fatal(err)
			}
			layer := noise(16 << 20) // more than the sockets hold
			_, err = d.Put(t.Context(), storage.Blob{Digest: digest.FromBytes(layer), Size: int64(len(layer))}, bytes.NewReader(layer))
			if err == nil || !strings.Contains(err.Error(), "the server sends nothing any more") {
				t.Errorf("got %v, want that the server stalls", err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestServerClosesItself lets nobody in any more after it was known as open.
func TestServerClosesItself(t *testing.T) {
	s := newServer(t)
	s.put("a/b", "v", nil)
	c := newClient(t, registry.Config{})
	open(t, c, s.host+"/a/b:v", image.RegistryAuth{})
	i := guard(t, s, false)
	open(t, c, s.host+"/a/b:v", image.RegistryAuth{})
	if asked := i.requests(); len(asked) != 1 {
		t.Errorf("asked for tokens: %q, want one", asked)
	}
}
