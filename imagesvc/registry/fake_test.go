package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/rs/zerolog"

	"moss/engine/image"
	"moss/imagesvc/registry"
	"moss/storage"
)

const manifestType = "application/vnd.docker.distribution.manifest.v2+json"

// server is a registry that speaks as much of the distribution API as these tests need, and misbehaves where it is told.
type server struct {
	*httptest.Server
	host string

	mu        sync.Mutex // guards the fields below
	manifests map[string][]byte
	blobs     map[digest.Digest][]byte
	requests  []*http.Request

	// before answers a request in the place of the registry where it returns true.
	before func(w http.ResponseWriter, r *http.Request) bool
	// noRange makes it give whole blobs always.
	noRange bool
}

// newServer starts a registry on loopback, without TLS.
func newServer(t *testing.T) *server {
	t.Helper()
	s := emptyServer()
	s.Server = httptest.NewServer(s)
	s.host = s.Listener.Addr().String()
	t.Cleanup(s.shut)
	return s
}

func emptyServer() *server {
	return &server{manifests: make(map[string][]byte), blobs: make(map[digest.Digest][]byte)}
}

func (s *server) shut() {
	s.CloseClientConnections()
	s.Close()
}

// put gives the registry an image of one layer under a path and a tag.
func (s *server) put(path, tag string, layer []byte) (manifest []byte, blob storage.Blob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	blob = storage.Blob{Digest: digest.FromBytes(layer), Size: int64(len(layer)), MediaType: "application/vnd.docker.image.rootfs.diff.tar.gzip"}
	config := []byte("{}")
	s.blobs[blob.Digest] = layer
	s.blobs[digest.FromBytes(config)] = config
	manifest, _ = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": map[string]any{"digest": digest.FromBytes(config), "size": len(config), "mediaType": "application/vnd.docker.container.image.v1+json"},
		"layers": []any{map[string]any{"digest": blob.Digest, "size": blob.Size, "mediaType": blob.MediaType}},
	})
	s.manifests[path+":"+tag] = manifest
	s.manifests[path+":"+digest.FromBytes(manifest).String()] = manifest
	return manifest, blob
}

// seen returns the requests whose path holds part.
func (s *server) seen(part string) []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r *http.Request) bool { return !strings.Contains(r.URL.Path, part) })
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Clone(context.WithoutCancel(r.Context())))
	before := s.before
	s.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	rest, _ := strings.CutPrefix(r.URL.Path, "/v2/")
	switch {
	case rest == "":
		w.WriteHeader(http.StatusOK)
	case strings.HasSuffix(rest, "/tags/list"):
		s.serveTags(w, strings.TrimSuffix(rest, "/tags/list"))
	case strings.Contains(rest, "/manifests/"):
		s.serveManifest(w, strings.Replace(rest, "/manifests/", ":", 1))
	case strings.Contains(rest, "/blobs/"):
		_, d, _ := strings.Cut(rest, "/blobs/")
		s.serveBlob(w, r, digest.Digest(d))
	default:
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN", "repository name not known to registry")
	}
}

func (s *server) serveTags(w http.ResponseWriter, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var tags []string
	for _, key := range slices.Sorted(maps.Keys(s.manifests)) {
		if tag, ok := strings.CutPrefix(key, path+":"); ok && !strings.Contains(tag, ":") {
			tags = append(tags, tag)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"name": path, "tags": tags})
}

func (s *server) serveManifest(w http.ResponseWriter, key string) {
	s.mu.Lock()
	raw, ok := s.manifests[key]
	s.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown")
		return
	}
	w.Header().Set("Content-Type", manifestType)
	_, _ = w.Write(raw)
}

func (s *server) serveBlob(w http.ResponseWriter, r *http.Request, d digest.Digest) {
	s.mu.Lock()
	content, ok := s.blobs[d]
	noRange := s.noRange
	s.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN", "blob unknown to registry")
		return
	}
	if noRange {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]any{"code": code, "message": message}}})
}

// newClient returns a client that gives up soon.
func newClient(t *testing.T, cfg registry.Config) *registry.Client {
	t.Helper()
	cfg.Log = zerolog.New(zerolog.NewTestWriter(t))
	if cfg.Backoff == 0 {
		cfg.Backoff = time.Millisecond
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "moss/test"
	}
	c, err := registry.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t *testing.T, name string) image.Ref {
	t.Helper()
	ref, err := image.ParseRef(name)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// open opens a source that the test closes.
func open(t *testing.T, c *registry.Client, name string, auth image.RegistryAuth) *registry.Source {
	t.Helper()
	s, err := c.Source(t.Context(), parse(t, name), auth)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// readBlob reads a blob to its end.
func readBlob(t *testing.T, s *registry.Source, b storage.Blob) ([]byte, error) {
	t.Helper()
	r, _, err := s.Blob(t.Context(), b)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(r)
	if closeErr := r.Close(); closeErr != nil {
		t.Error(closeErr)
	}
	return content, err
}

// noise returns bytes that repeat nowhere.
func noise(n int) []byte {
	out := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(out)
	return out
}
