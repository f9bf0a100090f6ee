package imagesvc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"moss/storage"
)

// form is how a layer's archive is compressed.
type form int

const (
	formUnknown form = iota
	formPlain
	formGzip
	formZstd
)

// formOf tells a layer's form by its media type, in either family.
func formOf(mediaType string) form {
	rest, docker := strings.CutPrefix(mediaType, typeLayer)
	if !docker {
		var oci bool
		if rest, oci = strings.CutPrefix(mediaType, typeOCILayer); !oci {
			return formUnknown
		}
	}
	switch rest {
	case "":
		return formPlain
	case ".gzip", "+gzip":
		return formGzip
	case ".zstd", "+zstd":
		return formZstd
	default:
		return formUnknown
	}
}

// family are the documents that an image goes to registries with: those of Docker's schema 2 or of OCI.
type family struct {
	oci      bool
	template *storedManifest // nil: none is known
	stored   []storedManifest
}

// storedManifest is a manifest of an image as it lies in the store.
type storedManifest struct {
	manifest

	raw []byte
}

// newFamily sorts an image's documents. The new manifests of an image are of the kind that it was stored by first.
func newFamily(documents []storage.Document, layers int) family {
	var f family
	for _, doc := range documents {
		m, err := parseManifest(doc.Raw, doc.MediaType)
		if err != nil || m.isIndex() || len(m.Layers) != layers {
			continue // an index, or nothing that moss would take itself
		}
		f.stored = append(f.stored, storedManifest{*m, doc.Raw})
	}
	if len(f.stored) > 0 {
		f.template = &f.stored[0]
		f.oci = f.template.MediaType == typeOCIManifest
	}
	return f
}

// takesMediaType reports whether a layer in that form can be part of a manifest. Docker's own engines know no zstd in theirs.
func (f *family) takesMediaType(mediaType string) bool {
	switch formOf(mediaType) {
	case formPlain, formGzip:
		return true
	case formZstd:
		return f.oci
	case formUnknown:
	}
	return false
}

// configType returns the media type of the config.
func (f *family) configType() string {
	switch {
	case f.template != nil && f.template.Config.MediaType != "":
		return f.template.Config.MediaType
	case f.oci:
		return typeOCIConfig
	default:
		return typeConfig
	}
}

// layerType returns the media type of a layer in a form.
func (f *family) layerType(in form) string {
	base, separator := typeLayer, "."
	if f.oci {
		base, separator = typeOCILayer, "+"
	}
	switch in {
	case formGzip:
		return base + separator + "gzip"
	case formZstd:
		return base + separator + "zstd"
	case formPlain, formUnknown:
	}
	return base
}

// candidateBlobs returns the forms in which a layer may already be in a registry. Of what the image's own manifests say, only
// a plain archive is believed as it stands: its digest is the layer's. They are few: each costs a question.
func (f *family) candidateBlobs(index int, layer storage.LayerInfo) []storage.Blob {
	var found []storage.Blob
	for _, b := range layer.Blobs {
		if b.Size >= 0 && checkDigest(b.Digest) == nil && f.takesMediaType(b.MediaType) {
			found = append(found, b)
		}
	}
	for _, m := range f.stored {
		if b := m.Layers[index].toBlob(); b.Digest == layer.DiffID && f.takesMediaType(b.MediaType) {
			found = append(found, b)
			break
		}
	}
	return found[:min(len(found), maxCandidates)]
}

const maxCandidates = 6 // forms of one layer that are asked for

// renderManifest returns the manifest for layers as they lie in the registry: a stored one byte for byte if it names just
// these, otherwise a new one.
func (f *family) renderManifest(config []byte, layers []storage.Blob) ([]byte, error) {
	sum := digest.FromBytes(config)
	for _, m := range f.stored {
		if m.Config.Digest.Algorithm() == sum.Algorithm() && m.Config.Digest != sum {
			continue
		}
		same := func(d descriptor, b storage.Blob) bool { return d.Digest == b.Digest && d.Size == b.Size }
		if slices.EqualFunc(m.Layers, layers, same) {
			return m.raw, nil
		}
	}
	doc := struct {
		SchemaVersion int               `json:"schemaVersion"`
		MediaType     string            `json:"mediaType"`
		Config        descriptor        `json:"config"`
		Layers        []descriptor      `json:"layers"`
		Annotations   map[string]string `json:"annotations,omitempty"`
	}{
		SchemaVersion: 2, MediaType: typeSchema2,
		Config: descriptor{MediaType: f.configType(), Size: int64(len(config)), Digest: sum},
		Layers: make([]descriptor, 0, len(layers)),
	}
	if f.oci {
		doc.MediaType = typeOCIManifest
		doc.Annotations = f.templateAnnotations()
	}
	for _, b := range layers {
		d := descriptor{MediaType: f.layerType(formOf(b.MediaType)), Size: b.Size, Digest: b.Digest}
		if f.oci {
			d.Annotations = b.Annotations
		}
		doc.Layers = append(doc.Layers, d)
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode the manifest: %w", err)
	}
	return raw, nil
}

// templateAnnotations returns what the template says of itself beyond its layers.
func (f *family) templateAnnotations() map[string]string {
	var doc struct {
		Annotations map[string]string `json:"annotations"`
	}
	if json.Unmarshal(f.template.raw, &doc) != nil {
		return nil // it has been parsed before: only odd annotations fail
	}
	return doc.Annotations
}
