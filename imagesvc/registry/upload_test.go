package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/registry"
	"moss/storage"
)

const (
	uploadQuery = "_state=a%2Fb%3D+c;d&x"
	uploadPath  = "/v2/a/new/blobs/uploads/"
)

// takeUploads makes a server keep what is uploaded to a/new. place says where an upload at a path goes on; change may
// answer in the place of the registry.
func (s *server) takeUploads(place func(string) string, change func(w http.ResponseWriter, r *http.Request) bool) {
	ask := s.before
	parts := make(map[string][]byte) // by the last part of the path
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if (ask != nil && ask(w, r)) || (change != nil && change(w, r)) {
			return true
		}
		switch r.Method {
		case http.MethodPost:
			w.Header().Set("Location", place(uploadPath+"one"))
			w.Header().Set("Docker-Upload-UUID", "one")
			w.WriteHeader(http.StatusAccepted)
		case http.MethodPatch:
			content, err := io.ReadAll(r.Body)
			if err != nil || r.URL.RawQuery != uploadQuery {
				refuse(w, http.StatusBadRequest, "BLOB_UPLOAD_INVALID", "got "+r.URL.RawQuery)
				return true
			}
			s.mu.Lock()
			parts[path.Base(r.URL.Path)] = content
			s.mu.Unlock()
			w.Header().Set("Location", place(r.URL.Path))
			w.Header().Set("Range", "0-0")
			w.WriteHeader(http.StatusAccepted)
		case http.MethodPut:
			s.mu.Lock()
			content := parts[path.Base(r.URL.Path)]
			want, ok := strings.CutPrefix(r.URL.RawQuery, uploadQuery+"&digest=")
			want, _ = url.QueryUnescape(want)
			ok = ok && digest.FromBytes(content).String() == want
			if ok {
				s.blobs[digest.FromBytes(content)] = content
			}
			s.mu.Unlock()
			if !ok {
				refuse(w, http.StatusBadRequest, "DIGEST_INVALID", "provided digest did not match uploaded content: "+r.URL.RawQuery)
				return true
			}
			w.WriteHeader(http.StatusCreated)
		default:
			return false
		}
		return true
	}
}

func (s *server) has(b digest.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.blobs[b]
	return ok
}

// counted returns how many requests of a method there were.
func (s *server) counted(method string) int {
	return len(slices.DeleteFunc(s.seen("/"), func(r *http.Request) bool { return r.Method != method }))
}

// openNew opens a destination at a server that the test closes.
func openNew(t *testing.T, c *registry.Client, s *server, auth image.RegistryAuth) *registry.Destination {
	t.Helper()
	d, err := c.Destination(t.Context(), parse(t, s.host+"/a/new:v"), auth)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func relative(at string) string { return at + "?" + uploadQuery }

func TestUploadPlaces(t *testing.T) {
	layer := noise(1 << 20)
	sum := digest.FromBytes(layer)
	for _, tc := range []struct {
		name  string
		place func(s, other *server, at string) string
		away  bool
	}{
		{"relative", func(_, _ *server, at string) string { return relative(at) }, false},
		{"whole", func(s, _ *server, at string) string { return "http://" + s.host + relative(at) }, false},
		{"another path each time", func(_, _ *server, at string) string { return relative("/elsewhere" + at) }, false},
		{"another server", func(_, other *server, at string) string { return "http://" + other.host + relative(at) }, true},
	} {
		for _, blob := range []storage.Blob{{Size: -1}, {Digest: sum, Size: int64(len(layer))}} {
			t.Run(tc.name, func(t *testing.T) {
				s, other := newServer(t), newServer(t)
				other.takeUploads(relative, nil)
				s.takeUploads(func(at string) string { return tc.place(s, other, at) }, nil)
				auth := image.RegistryAuth{RegistryToken: "secret"}
				d := openNew(t, newClient(t, registry.Config{Redirects: []string{other.host}}), s, auth)
				got, err := d.Put(t.Context(), blob, bytes.NewReader(layer))
				if err != nil || got.Digest != sum || got.Size != int64(len(layer)) {
					t.Fatalf("%+v, %v", got, err)
				}
				at := s
				if tc.away {
					at = other
				}
				if !at.has(sum) {
					t.Error("the blob has not arrived")
				}
				for _, r := range at.seen("/uploads/") {
					if want := "Bearer secret"; (r.Header.Get("Authorization") == want) == tc.away {
						t.Errorf("%s %s: Authorization %q", r.Method, r.URL.Path, r.Header.Get("Authorization"))
					}
					if r.Method == http.MethodPatch && r.ContentLength != blob.Size {
						t.Errorf("PATCH with a length of %d, want %d", r.ContentLength, blob.Size)
					}
				}
			})
		}
	}
}

// TestUploadTokens has tokens end in the middle of an upload: before its end, and before its content is taken.
func TestUploadTokens(t *testing.T) {
	s := newServer(t)
	i := guard(t, s, true)
	turnedDown := 0
	s.takeUploads(relative, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		content, _ := io.ReadAll(r.Body)
		if i.expire(); string(content) == "again" && turnedDown == 0 {
			turnedDown++
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
			return true
		}
		r.Body = io.NopCloser(bytes.NewReader(content))
		return false
	})
	d := openNew(t, newClient(t, registry.Config{}), s, image.RegistryAuth{Username: "u", Password: "p"})
	if b, err := d.Put(t.Context(), storage.Blob{Size: -1}, strings.NewReader("long")); err != nil || !s.has(b.Digest) {
		t.Errorf("a token that ended before the end: %v", err)
	}
	if asked := i.requests(); len(asked) != 2 {
		t.Errorf("asked for tokens: %q, want two", asked)
	}
	_, err := d.Put(t.Context(), storage.Blob{Size: -1}, strings.NewReader("again"))
	if !fault.Is(err, fault.Internal) || !strings.Contains(err.Error(), "turned down in the middle of an upload: unauthorized: authentication required") {
		t.Errorf("a token that was turned down: %v (%d), want an error without a kind", err, fault.KindOf(err))
	}
	if b, err := d.Put(t.Context(), storage.Blob{Size: -1}, strings.NewReader("again")); err != nil || !s.has(b.Digest) {
		t.Errorf("once more: %v", err)
	}
}

// TestUploadRefused has servers that do not take content. None gets it twice.
func TestUploadRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		code   string
		kind   fault.Constructor
		want   string
	}{
		{"no length", http.StatusLengthRequired, "", fault.Internal, "the registry answered 411 Length Required"},
		{"another range", http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", fault.Internal, "blob upload invalid: no"},
		{"too many requests", http.StatusTooManyRequests, "TOOMANYREQUESTS", fault.Unavailable, "toomanyrequests: no"},
		{"no access", http.StatusForbidden, "DENIED", fault.Unauthorized, "push access denied for HOST/a/new: denied: no"},
		{"no access for anybody", http.StatusUnauthorized, "UNAUTHORIZED", fault.Unauthorized, "push access denied for HOST/a/new: unauthorized: no"},
		{"server error", http.StatusBadGateway, "", fault.Internal, "the registry answered 502 Bad Gateway"},
		{"success without a place", http.StatusAccepted, "", fault.Internal, "it answered 202 without the place of the upload"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			s.takeUploads(relative, func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case r.Method != http.MethodPatch:
					return false
				case tc.code == "":
					w.WriteHeader(tc.status)
				default:
					refuse(w, tc.status, tc.code, "no")
				}
				return true
			})
			d := openNew(t, newClient(t, registry.Config{}), s, image.RegistryAuth{RegistryToken: "given"})
			_, err := d.Put(t.Context(), storage.Blob{Size: -1}, strings.NewReader("x"))
			if want := strings.ReplaceAll(tc.want, "HOST", s.host); !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v (kind %d), want %s", err, fault.KindOf(err), want)
			}
			if n := s.counted(http.MethodPatch); n != 1 {
				t.Errorf("%d PATCH requests, want one", n)
			}
		})
	}
}

// TestUploadServerFails has a server fail where a request can be made again, and lose the answer to the last one.
func TestUploadServerFails(t *testing.T) {
	for _, method := range []string{http.MethodHead, http.MethodPost, http.MethodPut} {
		t.Run(method, func(t *testing.T) {
			s := newServer(t)
			failures := 2
			s.takeUploads(relative, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != method || failures == 0 {
					return false
				}
				failures--
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
			d := openNew(t, newClient(t, registry.Config{}), s, image.RegistryAuth{})
			blob := storage.Blob{Digest: digest.FromString("x"), Size: 1}
			if _, err := d.Put(t.Context(), blob, strings.NewReader("x")); err != nil || !s.has(blob.Digest) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("lost answer", func(t *testing.T) {
		s := newServer(t)
		s.takeUploads(relative, nil)
		take := s.before
		ended := false
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut {
				return take(w, r)
			}
			if ended {
				refuse(w, http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry")
				return true
			}
			ended = true
			take(discardAnswer{w}, r)
			panic(http.ErrAbortHandler)
		}
		d := openNew(t, newClient(t, registry.Config{}), s, image.RegistryAuth{})
		if b, err := d.Put(t.Context(), storage.Blob{Size: -1}, strings.NewReader("x")); err != nil || !s.has(b.Digest) {
			t.Errorf("got %v", err)
		}
	})
}

// discardAnswer keeps an answer from the client.
type discardAnswer struct{ http.ResponseWriter }

func (discardAnswer) WriteHeader(int)             {}
func (discardAnswer) Write(p []byte) (int, error) { return len(p), nil }

// TestUploadWaits has a registry that wants to be asked again, before anything is sent.
func TestUploadWaits(t *testing.T) {
	s := newServer(t)
	first := true
	s.takeUploads(relative, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !first {
			return false
		}
		first = false
		w.Header().Set("Retry-After", "0")
		refuse(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "slow down")
		return true
	})
	d := openNew(t, newClient(t, registry.Config{}), s, image.RegistryAuth{})
	if b, err := d.Put(t.Context(), storage.Blob{Size: -1}, strings.NewReader("x")); err != nil || !s.has(b.Digest) {
		t.Errorf("got %v", err)
	}
}

// TestUploadReaderFails has a blob that cannot be read: the error is the reader's, and nothing is made of it.
func TestUploadReaderFails(t *testing.T) {
	s := newServer(t)
	s.takeUploads(relative, nil)
	d := openNew(t, newClient(t, registry.Config{}), s, image.RegistryAuth{})
	damaged := errors.New("damaged")
	if _, err := d.Put(t.Context(), storage.Blob{Size: -1}, io.MultiReader(strings.NewReader("x"), failing{damaged})); err != damaged { //nolint:errorlint // that very one
		t.Errorf("got %v, want the reader's error", err)
	}
	wrong := storage.Blob{Digest: digest.FromString("other"), Size: 1}
	if _, err := d.Put(t.Context(), wrong, strings.NewReader("x")); err == nil || !strings.Contains(err.Error(), "its content has the digest") {
		t.Errorf("content with another digest: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := d.Put(ctx, storage.Blob{Size: -1}, ending{cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that went: %v", err)
	}
	if n := s.counted(http.MethodPut); n != 0 {
		t.Errorf("%d uploads were ended, want none", n)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// ending ends the request that reads it, and never ends itself.
type ending struct{ cancel context.CancelFunc }

func (e ending) Read(p []byte) (int, error) {
	e.cancel()
	return len(p), nil
}

// TestUploadAnsweredEarly has a server that has enough before it has read everything.
func TestUploadAnsweredEarly(t *testing.T) {
	s := newServer(t)
	s.takeUploads(relative, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		w.Header().Set("Location", relative(r.URL.Path))
		w.WriteHeader(http.StatusAccepted)
		_ = http.NewResponseController(w).Flush()
		return true
	})
	d := openNew(t, newClient(t, registry.Config{}), s, image.RegistryAuth{})
	_, err := d.Put(t.Context(), storage.Blob{Size: -1}, io.LimitReader(endless{}, 64<<20))
	if err == nil || s.counted(http.MethodPut) != 0 {
		t.Errorf("got %v and %d PUT requests, want an error and none", err, s.counted(http.MethodPut))
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
