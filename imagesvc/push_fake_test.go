package imagesvc

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// wholeStore is what a store of a test has, or inherits.
type wholeStore interface {
	records
	ledger
	steps
	contents
	layers
}

func partsOf(s wholeStore) Store { return Store{s, s, s, s, s} }

// shelf is a store of images that are made of what a test says.
type shelf struct {
	Store

	mu     sync.Mutex // guards images
	images []*shelved
}

type shelved struct {
	image.Image

	config    []byte
	documents []storage.Document
	plain     [][]byte // of the layers
	known     []storage.Blob
	proven    []digest.Digest
}

// put makes an image of layers.
func (s *shelf) put(name string, layers ...string) *shelved {
	img := &shelved{config: []byte(`{"of":"` + name + strings.Join(layers, ",") + `"}`)}
	img.ID = digest.FromBytes(img.config).String()
	if name != "" {
		img.RepoTags = []string{name}
	}
	for _, layer := range layers {
		img.plain = append(img.plain, []byte(layer))
		img.Layers = append(img.Layers, digest.FromString(layer).String())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images = append(s.images, img)
	return img
}

func (s *shelf) List(context.Context) ([]*image.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*image.Image, 0, len(s.images))
	for _, img := range s.images {
		i := img.Image
		list = append(list, &i)
	}
	return list, nil
}

func (s *shelf) find(what string) (*shelved, error) {
	ref, err := image.ParseRef(what)
	for _, img := range s.images {
		named := err == nil && slices.ContainsFunc(refsOf(&img.Image), func(r image.Ref) bool { return r.Canonical() == ref.Canonical() })
		if img.ID == what || named {
			return img, nil
		}
	}
	return nil, image.NoSuch(what)
}

func (s *shelf) Get(_ context.Context, what string) (*image.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, err := s.find(what)
	if err != nil {
		return nil, err
	}
	i := img.Image
	return &i, nil
}

func (s *shelf) Documents(_ context.Context, imageID string) ([]byte, []storage.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, err := s.find(imageID)
	if err != nil {
		return nil, nil, err
	}
	return img.config, img.documents, nil
}

func (s *shelf) Layers(_ context.Context, imageID string) ([]storage.LayerInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, err := s.find(imageID)
	if err != nil {
		return nil, err
	}
	infos := make([]storage.LayerInfo, len(img.plain))
	for i, layer := range img.plain {
		infos[i] = storage.LayerInfo{DiffID: digest.FromBytes(layer), Size: int64(len(layer)), Blobs: slices.Clone(img.known)}
		for _, doc := range img.documents {
			if m, err := parseManifest(doc.Raw, doc.MediaType); err == nil && !m.isIndex() && slices.Contains(img.proven, m.Layers[i].Digest) {
				infos[i].Blobs = append(infos[i].Blobs, m.Layers[i].toBlob())
			}
		}
	}
	return infos, nil
}

func (s *shelf) OpenLayer(_ context.Context, imageID string, index int) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, err := s.find(imageID)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(img.plain[index])), nil
}

func (s *shelf) AddManifest(_ context.Context, imageID string, doc storage.Document, names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, err := s.find(imageID)
	if err != nil {
		return err
	}
	img.documents = append(img.documents, doc)
	for _, name := range names {
		ref, err := image.ParseRef(name)
		if err != nil {
			return err
		}
		img.RepoDigests = append(img.RepoDigests, ref.Familiar())
	}
	return nil
}

func (s *shelf) NoteForms(_ context.Context, imageID string, made []digest.Digest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, err := s.find(imageID)
	if err != nil {
		return err
	}
	img.proven = append(img.proven, made...)
	return nil
}

// hub is a registry in memory.
type hub struct {
	mu        sync.Mutex                                   // guards all below
	blobs     map[string][]byte                            // by repository and digest
	manifests map[string][]byte                            // by repository:tag
	calls     []string                                     // what was done, without Has
	onPut     func(ctx context.Context, repo string) error // nil: nothing stands against a blob
	open      int
}

// dock is one repository of a hub.
type dock struct {
	*hub

	ref image.Ref
}

func (h *hub) destination(_ context.Context, ref image.Ref, auth image.RegistryAuth) (destination, error) {
	if auth.Password == "wrong" {
		return nil, fault.Unauthorized("no")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open++
	return &dock{h, ref}, nil
}

func (d *dock) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	return nil
}

func (d *dock) Has(_ context.Context, b storage.Blob) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.blobs[d.ref.Repo()+"@"+b.Digest.String()]
	return ok, nil
}

func (d *dock) Mount(_ context.Context, from image.Ref, b storage.Blob) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	data, ok := d.blobs[from.Repo()+"@"+b.Digest.String()]
	if ok {
		d.blobs[d.ref.Repo()+"@"+b.Digest.String()] = data
		d.calls = append(d.calls, "mount")
	}
	return ok, nil
}

func (d *dock) Put(ctx context.Context, b storage.Blob, r io.Reader) (storage.Blob, error) {
	if d.onPut != nil {
		if err := d.onPut(ctx, d.ref.Repo()); err != nil {
			return storage.Blob{}, err
		}
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return storage.Blob{}, err
	}
	if got := digest.FromBytes(data); b.Digest != "" && got != b.Digest {
		return storage.Blob{}, fmt.Errorf("the blob's digest is %s", got)
	}
	b.Digest, b.Size = digest.FromBytes(data), int64(len(data))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.blobs[d.ref.Repo()+"@"+b.Digest.String()] = data
	d.calls = append(d.calls, "put")
	return b, nil
}

func (d *dock) PutManifest(_ context.Context, raw []byte) (digest.Digest, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, err := parseManifest(raw, "")
	if err != nil {
		return "", err
	}
	for _, b := range append(m.Layers, m.Config) {
		if data, ok := d.blobs[d.ref.Repo()+"@"+b.Digest.String()]; !ok || int64(len(data)) != b.Size {
			return "", fmt.Errorf("blob %s is unknown, or has another size", b.Digest)
		}
	}
	d.manifests[d.ref.Canonical()] = raw
	return digest.FromBytes(raw), nil
}

// took returns the calls since the last time.
func (h *hub) took() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.calls)
	calls := strings.Join(h.calls, ",")
	h.calls = nil
	return calls
}

// pusher is a service with images, a registry, and what it tells.
type pusher struct {
	*Service
	*shelf
	*hub
	*log
}

func newPusher() *pusher {
	p := &pusher{shelf: &shelf{}, hub: &hub{blobs: map[string][]byte{}, manifests: map[string][]byte{}}, log: &log{}}
	p.Service = New(partsOf(p.shelf), Options{Events: p.log})
	p.destinations = p.destination
	return p
}

// push pushes and returns the messages, but for what a counter says.
func (p *pusher) push(ctx context.Context, opts image.PushOptions) ([]string, image.Pushed, error) {
	var told []string
	var pushed image.Pushed
	err := p.Push(ctx, opts, func(m image.Progress) {
		if aux, ok := m.Aux.(image.Pushed); ok {
			pushed = aux
			return
		}
		line := strings.TrimPrefix(m.ID+": "+m.Status, ": ")
		if !slices.Contains(told, line) {
			told = append(told, line)
		}
	})
	return told, pushed, err
}

func short(layer string) string { return digest.FromString(layer).Encoded()[:12] }

// pushed returns the manifest that a registry got.
func (h *hub) pushed(t *testing.T, name string) (raw []byte, m *manifest) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	raw = h.manifests[name]
	m, err := parseManifest(raw, "")
	if err != nil {
		t.Fatalf("manifest of %s: %v: %s", name, err, raw)
	}
	return raw, m
}

// unpacked returns the layers that a manifest names, decompressed.
func (h *hub) unpacked(t *testing.T, repo string, m *manifest) []string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	layers := make([]string, 0, len(m.Layers))
	for _, l := range m.Layers {
		r, err := gzip.NewReader(bytes.NewReader(h.blobs[repo+"@"+l.Digest.String()]))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, string(plain))
	}
	return layers
}
