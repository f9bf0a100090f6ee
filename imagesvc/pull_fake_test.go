package imagesvc

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/imagesvc/registry"
	"moss/storage"
)

// stock is a registry with one repository, which counts what it is asked for and answers wrongly where a test says so.
type stock struct {
	t    testing.TB
	host string

	mu        sync.Mutex // guards the fields below
	blobs     map[string][]byte
	manifests map[string]document // by tag and by digest
	asked     map[string]int      // GETs by path below /v2/REPO/
	spoil     func(w http.ResponseWriter, r *http.Request, what string) (done bool)
}

type document struct {
	kind string
	raw  []byte
}

const stockRepo = "team/app"

func newStock(t testing.TB) *stock {
	s := &stock{t: t, blobs: map[string][]byte{}, manifests: map[string]document{}, asked: map[string]int{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.host = strings.TrimPrefix(srv.URL, "http://")
	return s
}

// ServeHTTP answers as a registry does (OCI distribution spec, pulling).
func (s *stock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v2/" {
		return
	}
	what, ok := strings.CutPrefix(r.URL.Path, "/v2/"+stockRepo+"/")
	if !ok {
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN")
		return
	}
	s.mu.Lock()
	if r.Method == http.MethodGet {
		s.asked[what]++
	}
	spoil := s.spoil
	name := what[strings.LastIndex(what, "/")+1:]
	blob, isBlob := s.blobs[name]
	doc, isDoc := s.manifests[name]
	var tags []string
	for name := range s.manifests {
		if !strings.Contains(name, ":") {
			tags = append(tags, name)
		}
	}
	s.mu.Unlock()
	slices.Sort(tags)
	switch {
	case spoil != nil && spoil(w, r, what):
	case what == "tags/list":
		_ = json.NewEncoder(w).Encode(map[string]any{"name": stockRepo, "tags": tags})
	case strings.HasPrefix(what, "blobs/") && isBlob:
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(blob))
	case strings.HasPrefix(what, "manifests/") && isDoc:
		w.Header().Set("Content-Type", doc.kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(doc.raw)))
		_, _ = w.Write(doc.raw)
	case strings.HasPrefix(what, "blobs/"):
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN")
	default:
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN")
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"no"}]}`, code)
}

// count returns how often the path was asked for; a prefix that ends in * counts all below it.
func (s *stock) count(what string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prefix, all := strings.CutSuffix(what, "*")
	for path, times := range s.asked {
		if path == what || all && strings.HasPrefix(path, prefix) {
			n += times
		}
	}
	return n
}

func (s *stock) blob(raw []byte) digest.Digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := digest.FromBytes(raw)
	s.blobs[d.String()] = raw
	return d
}

func (s *stock) document(kind string, doc any, tags ...string) digest.Digest {
	s.t.Helper()
	raw, err := json.Marshal(doc)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := digest.FromBytes(raw)
	for _, name := range append(tags, d.String()) {
		s.manifests[name] = document{kind, raw}
	}
	return d
}

// goods is an image before it is put into a registry.
type goods struct {
	kind     string // of the manifest
	config   map[string]any
	manifest map[string]any
	layers   []map[string]any
}

// pack stocks the blobs of an image with the given plain layers and returns its documents for changes; put stocks these.
func (s *stock) pack(layers ...[]byte) *goods {
	s.t.Helper()
	g := &goods{kind: typeSchema2}
	diffIDs := make([]string, 0, len(layers))
	for _, plain := range layers {
		diffIDs = append(diffIDs, digest.FromBytes(plain).String())
		raw := compressed(s.t, plain, toGzip)
		g.layers = append(g.layers, map[string]any{"mediaType": typeLayer + ".gzip", "size": len(raw), "digest": s.blob(raw)})
	}
	g.config = map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Cmd": []string{"sh"}, "Labels": map[string]string{"maker": "test"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffIDs},
	}
	g.manifest = map[string]any{"schemaVersion": 2, "mediaType": typeSchema2}
	return g
}

// put stocks the documents under tags and returns the digests of the manifest and the config.
func (s *stock) put(g *goods, tags ...string) (manifest, config digest.Digest) {
	s.t.Helper()
	raw, err := json.Marshal(g.config)
	if err != nil {
		s.t.Fatal(err)
	}
	config = s.blob(raw)
	m := maps.Clone(g.manifest)
	for key, value := range map[string]any{
		"config": map[string]any{"mediaType": typeConfig, "size": len(raw), "digest": config}, "layers": g.layers,
	} {
		if _, set := m[key]; !set {
			m[key] = value
		}
	}
	return s.document(g.kind, m, tags...), config
}

// oneFile is a plain layer of one file with so many bytes that hardly compress.
func oneFile(t testing.TB, name string, size int) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(size)}); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, size)
	state := uint32(len(name)) + 1
	for i := range body {
		state = state*1664525 + 1013904223
		body[i] = byte(state >> 24)
	}
	if _, err := w.Write(append([]byte(name), body[min(size, len(name)):]...)[:size]); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// puller returns a service that reaches the stock.
func puller(t testing.TB, change func(*Options)) (*Service, *storage.Store, *log) {
	t.Helper()
	s, st, events := newService(t, Limits{})
	client, err := registry.New(registry.Config{Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Events: events, EngineVersion: "test", Limits: s.limits, Registry: client}
	if change != nil {
		change(&opts)
	}
	return New(StoreOf(st), opts), st, events
}

func (s *stock) repo() string { return s.host + "/" + stockRepo }

// slow passes on a few bytes and then waits for gate before the rest.
func slow(w http.ResponseWriter, raw []byte, gate <-chan struct{}, r *http.Request) {
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	half := len(raw) / 2
	_, _ = w.Write(raw[:half])
	_ = http.NewResponseController(w).Flush()
	select {
	case <-gate:
	case <-r.Context().Done():
		return
	}
	_, _ = io.Copy(w, bytes.NewReader(raw[half:]))
}
