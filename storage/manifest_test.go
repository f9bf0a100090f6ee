package storage

import (
	"bytes"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
)

func TestAddManifest(t *testing.T) {
	s := openTemp(t, "")
	ctx := t.Context()
	one, two := put(t, s, map[string]string{"a": "1"}, "h/x:1"), put(t, s, map[string]string{"a": "2"}, "h/x:2")
	layer := Blob{Digest: digest.FromString("compressed"), Size: 10, MediaType: mediaTypeLayer + ".gzip"}
	raw := []byte(`{"schemaVersion":2,"mediaType":"` + mediaTypeManifest + `","layers":[{"mediaType":"` + layer.MediaType +
		`","size":10,"digest":"` + layer.Digest.String() + `"}]}`)
	doc := Document{MediaType: mediaTypeManifest, Raw: raw}
	name := "h/x@" + digest.FromBytes(raw).String()
	for range 2 {
		if err := s.AddManifest(ctx, one.ID, doc, []string{name}); err != nil {
			t.Fatal(err)
		}
	}
	img, err := s.Get(ctx, name)
	if err != nil || img.ID != one.ID || !slices.Equal(img.RepoDigests, []string{name}) || !slices.Equal(img.RepoTags, []string{"h/x:1"}) {
		t.Errorf("Get(%s) = %+v, %v", name, img, err)
	}
	_, documents, err := s.Documents(ctx, one.ID)
	if err != nil || len(documents) != 2 || !bytes.Equal(documents[1].Raw, raw) || documents[1].MediaType != mediaTypeManifest {
		t.Errorf("Documents = %q, %v, want the own manifest and the added one", documents, err)
	}
	// What a manifest says of a layer is believed once the form has been made here.
	layers, err := s.Layers(ctx, one.ID)
	if err != nil || len(layers) != 1 || len(layers[0].Blobs) != 0 {
		t.Errorf("Layers = %+v, %v, want no form", layers, err)
	}
	for range 2 {
		if err := s.NoteForms(ctx, one.ID, []digest.Digest{layer.Digest, "of no layer"}); err != nil {
			t.Fatal(err)
		}
	}
	layers, err = s.Layers(ctx, one.ID)
	if err != nil || len(layers) != 1 || len(layers[0].Blobs) != 1 || layers[0].Blobs[0].Digest != layer.Digest {
		t.Errorf("Layers = %+v, %v, want the form that the manifest names", layers, err)
	}
	if err := s.AddManifest(ctx, two.ID, doc, []string{name}); err != nil {
		t.Fatal(err)
	}
	if img, err := s.Get(ctx, name); err != nil || img.ID != two.ID {
		t.Errorf("Get(%s) = %+v, %v, want the image that took the name", name, img, err)
	}
	for what, err := range map[string]error{
		"no name":  s.AddManifest(ctx, one.ID, doc, nil),
		"bad name": s.AddManifest(ctx, one.ID, doc, []string{"BAD"}),
		"empty":    s.AddManifest(ctx, one.ID, Document{}, nil),
		"large":    s.AddManifest(ctx, one.ID, Document{Raw: make([]byte, maxManifest+1)}, nil),
	} {
		if want := what != "no name"; want != fault.Is(err, fault.Invalid) {
			t.Errorf("AddManifest, %s = %v", what, err)
		}
	}
	if err := s.NoteForms(ctx, newID(t), nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("NoteForms of no image = %v, want not found", err)
	}
	if err := s.AddManifest(ctx, newID(t), doc, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("AddManifest to no image = %v, want not found", err)
	}
}

// TestNeverNamed opens a store whose engine died between making an image and naming it.
func TestNeverNamed(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, "")
	kept := put(t, s, map[string]string{"a": "1"}, "kept")
	loose := put(t, s, map[string]string{"a": "2"})
	for _, named := range []bool{true, false} {
		docs, err := renderDocuments(ImageSpec{Base: kept.ID, Comment: strconv.FormatBool(named)}, nil, nil, nil)
		if err == nil {
			_, err = s.createRecord(docs, time.Now(), map[string]any{namedFlag: named}, "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Untag(t.Context(), kept, "kept"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, root, "")
	defer s.Close() //nolint:errcheck // the test is over
	list, err := s.List(t.Context())
	if err != nil || len(list) != 3 {
		t.Errorf("List = %d images, %v, want the one that lost its name, the loose one and the one that was to have none", len(list), err)
	}
	for _, img := range list {
		if img.Comment == "true" {
			t.Error("the image that never got its name is there")
		}
	}
	if _, err := s.Get(t.Context(), loose.ID); err != nil {
		t.Error(err)
	}
}
