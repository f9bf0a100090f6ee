package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestPutPulledRefuses(t *testing.T) {
	s := openTemp(t, "")
	one, two := entries(t, file("1", "1")), entries(t, file("2", "2"))
	for name, tc := range map[string]struct {
		change func(p *Pulled)
		text   string
	}{
		"another layer":       {func(p *Pulled) { p.Layers[1] = stage(t, s, entries(t, file("3", "3"))) }, "its config says"},
		"layers swapped":      {func(p *Pulled) { slices.Reverse(p.Layers) }, "its config says"},
		"a layer less":        {func(p *Pulled) { p.Layers = p.Layers[:1] }, "has 2 layers, 1 came"},
		"other diff ids":      {func(p *Pulled) { p.DiffIDs = slices.Clone(p.DiffIDs[:1]) }, "names other layers"},
		"no config":           {func(p *Pulled) { p.Config = nil }, "config"},
		"no manifest":         {func(p *Pulled) { p.Manifest.Raw = nil }, "no manifest"},
		"a huge config":       {func(p *Pulled) { p.Config = make([]byte, maxConfig+1) }, "more than"},
		"not a digest":        {func(p *Pulled) { *p = pulled(t, "x", nil); p.DiffIDs = []digest.Digest{"../../x"} }, "names other"},
		"a name that is none": {func(p *Pulled) { p.Names = []string{"Bad Name"} }, "Bad Name"},
	} {
		t.Run(name, func(t *testing.T) {
			p := pulled(t, name, []string{"x"}, one, two)
			p.Layers[0], p.Layers[1] = stage(t, s, one), stage(t, s, two)
			all := slices.Clone(p.Layers)
			tc.change(&p)
			_, err := s.PutPulled(t.Context(), p)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("PutPulled = %v, want invalid, with %q", err, tc.text)
			}
			for _, staged := range all {
				if err := staged.Discard(); err != nil {
					t.Error(err)
				}
			}
			nothingLeft(t, s)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := pulled(t, "cancelled", []string{"x"}, one)
	p.Layers[0] = stage(t, s, one)
	if _, err := s.PutPulled(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("PutPulled of a cancelled context = %v", err)
	}
	nothingLeft(t, s)
}

func TestPutPulledAgain(t *testing.T) {
	s := openTemp(t, "")
	ctx := t.Context()
	lower, upper := entries(t, file("1", "1")), entries(t, file("2", "2"))
	img := mustPull(t, s, "img", []string{"r/a:1", "r/b"}, lower, upper)
	other := mustPull(t, s, "other", []string{"r/a:2"}, lower)
	if other.Size != int64(len(lower)) {
		t.Errorf("size = %d, want %d", other.Size, len(lower))
	}

	p := pulled(t, "img", []string{"r/a:2", "r/c@" + digest.FromString("x").String()}, lower, upper)
	first := p.Manifest.Raw
	p.Manifest.Raw = bytes.Replace(first, []byte(`"size":1000`), []byte(`"size":1001`), 1)
	p.Index = Document{MediaType: "application/vnd.oci.image.index.v1+json", Raw: []byte(`{"schemaVersion":2,"manifests":[]}`)}
	again, err := s.PutPulled(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"r/a:1", "r/a:2", "r/b:latest"}; again.ID != img.ID || !slices.Equal(again.RepoTags, want) || len(again.RepoDigests) != 1 {
		t.Errorf("the image once more = %s %v %v, want %s %v", again.ID, again.RepoTags, again.RepoDigests, img.ID, want)
	}
	if got, err := s.Get(ctx, other.ID); err != nil || len(got.RepoTags) != 0 {
		t.Errorf("the other image = %v, %v; want its name gone", got, err)
	}
	if got, err := s.Get(ctx, "r/b@"+digest.FromBytes(p.Index.Raw).String()); err != nil || got.ID != img.ID {
		t.Errorf("by the index's digest = %v, %v", got, err)
	}
	config, manifests, err := s.Documents(ctx, img.ID)
	if err != nil || !bytes.Equal(config, p.Config) || len(manifests) != 3 || !bytes.Equal(manifests[0].Raw, first) {
		t.Fatalf("Documents = %q, %v, %v", config, manifests, err)
	}
	if got := []string{manifests[0].MediaType, manifests[1].MediaType, manifests[2].MediaType}; !slices.Equal(got, []string{mediaTypeManifest, mediaTypeManifest, p.Index.MediaType}) {
		t.Errorf("media types = %v", got)
	}
	infos, err := s.Layers(ctx, img.ID)
	if err != nil || len(infos) != 2 {
		t.Fatalf("Layers = %v, %v", infos, err)
	}
	for i, plain := range [][]byte{lower, upper} {
		want := chainIDs(p.DiffIDs)[i]
		if in := infos[i]; in.DiffID != digest.FromBytes(plain) || in.ChainID != want || in.Size != int64(len(plain)) || len(in.Blobs) != 1 || in.Blobs[0].Size != int64(1000+i) {
			t.Errorf("layer %d = %+v", i, in)
		}
	}
	steps, sizes, err := s.History(ctx, img.ID)
	if err != nil || len(steps) != 1 || steps[0].CreatedBy != "img" || !slices.Equal(sizes, []int64{int64(len(lower)), int64(len(upper))}) {
		t.Errorf("History = %v, %v, %v", steps, sizes, err)
	}
	a, b := int64(len(lower)), int64(len(upper))
	for _, tc := range []struct {
		stays string
		kept  int64
	}{{"", 0}, {img.ID, a + b}, {other.ID, a}} {
		u, err := s.Usage(ctx, func(img *image.Image) (counts, stays bool) { return true, img.ID == tc.stays })
		if err != nil || u.Total != a+b || u.Shared[img.ID] != a || u.Unique[img.ID] != b || u.Shared[other.ID] != a || u.Unique[other.ID] != 0 {
			t.Errorf("Usage = %+v, %v; want %d, shared %d, own %d", u, err, a+b, a, b)
		}
		if u.Kept != tc.kept {
			t.Errorf("Usage: kept with %q = %d, want %d", tc.stays, u.Kept, tc.kept)
		}
	}
	none := "sha256:" + newID(t)
	for what, f := range map[string]func() error{
		"Documents": func() error { _, _, err := s.Documents(ctx, none); return err },
		"Layers":    func() error { _, err := s.Layers(ctx, none); return err },
		"History":   func() error { _, _, err := s.History(ctx, none); return err },
		"OpenLayer": func() error { _, err := s.OpenLayer(ctx, none, 0); return err },
		"layer 2":   func() error { _, err := s.OpenLayer(ctx, img.ID, 2); return err },
		"layer -1":  func() error { _, err := s.OpenLayer(ctx, img.ID, -1); return err },
	} {
		if err := f(); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s of what is not there: %v", what, err)
		}
	}
}

func TestNoLayers(t *testing.T) {
	s := openTemp(t, "")
	img := mustPull(t, s, "empty", []string{"empty"})
	if infos, err := s.Layers(t.Context(), img.ID); err != nil || len(infos) != 0 || img.TopLayer != "" || img.Size != 0 {
		t.Errorf("an image without layers = %+v, %v, %v", img, infos, err)
	}
	if gone, err := s.Delete(t.Context(), img); err != nil || len(gone) != 0 {
		t.Errorf("Delete = %v, %v", gone, err)
	}
}

func TestLayersGone(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		lower, upper := entries(t, file("1", "1")), entries(t, file("2", "2"))
		base := mustPull(t, s, "base", nil, lower)
		p := pulled(t, "img", nil, lower, upper)
		if n := s.Here(p.DiffIDs); n != 1 {
			t.Errorf("Here = %d, want 1", n)
		}
		p.Layers[1] = stage(t, s, upper)
		if _, err := s.Delete(t.Context(), base); err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutPulled(t.Context(), p); !errors.Is(err, ErrLayersGone) {
			t.Fatalf("PutPulled = %v, want ErrLayersGone", err)
		}
		p.Layers[0] = stage(t, s, lower)
		img, err := s.PutPulled(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		checkLayer(t, s, img.ID, 1, upper)
		if _, err := s.PutPulled(t.Context(), p); err != nil {
			t.Errorf("PutPulled of spent layers that are here: %v", err)
		}
	})
}

func TestTwins(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		one, two := entries(t, file("1", "1")), entries(t, file("2", "2"))
		// Other engines, and this one earlier, gave layers any id.
		layer, _, err := s.cs.PutLayer("", "", nil, "", false, nil, bytes.NewReader(one))
		if err != nil {
			t.Fatal(err)
		}
		img := mustPull(t, s, "over it", nil, one, two)
		if chain, err := s.layerChain(img.TopLayer); err != nil || len(chain) != 2 || chain[1] != layer.ID {
			t.Errorf("layers = %v, %v; want %s below", chain, err, layer.ID)
		}
		if img, err := s.PutImage(t.Context(), bytes.NewReader(one), ImageSpec{}, nil); err != nil || img.TopLayer != layer.ID {
			t.Errorf("PutImage = %v, %v; want the layer %s", img, err, layer.ID)
		}
		twin, err := s.StageTwin(t.Context(), digest.FromBytes(two))
		if err != nil || twin == nil {
			t.Fatalf("StageTwin = %v, %v", twin, err)
		}
		p := pulled(t, "alone", nil, two)
		p.Layers[0] = twin
		if img, err = s.PutPulled(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		checkLayer(t, s, img.ID, 0, two)
		if twin, err := s.StageTwin(t.Context(), digest.FromString("none")); twin != nil || err != nil {
			t.Errorf("StageTwin of nothing = %v, %v", twin, err)
		}
	})
}

func TestDamagedTwin(t *testing.T) {
	s := openTemp(t, "")
	plain := entries(t, file("1", "one"))
	img := mustPull(t, s, "x", nil, plain)
	if err := os.WriteFile(filepath.Join(s.layerFolder(img.TopLayer), "1"), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if twin, err := s.StageTwin(t.Context(), digest.FromBytes(plain)); twin != nil || err != nil {
		t.Errorf("StageTwin of a damaged layer = %v, %v; want none", twin, err)
	}
	r, err := s.OpenLayer(t.Context(), img.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, errDamaged) {
		t.Errorf("read of a damaged layer = %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpenLayerStaysInside has a link in a layer that leads to a file of the host with the very same content.
func TestOpenLayerStaysInside(t *testing.T) {
	s := openTemp(t, "")
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := entries(t, folder(filepath.Dir(outside)[1:]+"/"), link('2', "out", filepath.Dir(outside)), file("out/secret", "secret"))
	img := mustPull(t, s, "x", nil, plain)
	checkLayer(t, s, img.ID, 0, plain)
	if err := os.RemoveAll(filepath.Join(s.layerFolder(img.TopLayer), outside)); err != nil {
		t.Fatal(err)
	}
	r, err := s.OpenLayer(t.Context(), img.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(r); !errors.Is(err, errDamaged) {
		t.Errorf("read through a link = %d bytes, %v; want damaged", len(raw), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestReadWhileDeleted(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *Store) {
		lower := entries(t, file("big", noise(1, 5<<20)))
		upper := entries(t, file("x", "x"))
		img := mustPull(t, s, "img", []string{"img"}, lower, upper)
		r, err := s.OpenLayer(t.Context(), img.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		if gone, err := s.Delete(t.Context(), img); err != nil || len(gone) != 1 {
			t.Errorf("Delete = %v, %v; want the upper layer", gone, err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, lower) {
			t.Errorf("read %d bytes, %v; want %d", len(got), err, len(lower))
		}
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Error(err)
		}
		nothingLeft(t, s)
		img = mustPull(t, s, "img", []string{"img"}, lower)
		ctx, cancel := context.WithCancel(t.Context())
		if r, err = s.OpenLayer(ctx, img.ID, 0); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) {
			t.Errorf("read with a cancelled context = %v", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestPutAndDelete has images come and go that share layers.
func TestPutAndDelete(t *testing.T) {
	s := openTemp(t, "")
	shared := entries(t, file("shared", noise(1, 10_000)))
	var all sync.WaitGroup
	for i, seed := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			own := entries(t, file(seed, noise(i, 1000)))
			for range 8 {
				p := pulled(t, seed, []string{"r/" + seed}, shared, own)
				for tries := 0; ; tries++ {
					for i := s.Here(p.DiffIDs); i < 2; i++ {
						if p.Layers[i] == nil {
							p.Layers[i] = stage(t, s, [][]byte{shared, own}[i])
						}
					}
					img, err := s.PutPulled(t.Context(), p)
					if errors.Is(err, ErrLayersGone) && tries < 20 {
						continue
					}
					if err != nil {
						t.Errorf("PutPulled: %v", err)
						return
					}
					checkLayer(t, s, img.ID, 0, shared)
					if _, err := s.Delete(t.Context(), img); err != nil {
						t.Errorf("Delete: %v", err)
					}
					break
				}
			}
		})
	}
	all.Wait()
	nothingLeft(t, s)
}
