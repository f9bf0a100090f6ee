package storage

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/image"
)

// Media types of what is stored: the schema that every registry and client takes, with room for the fields that the OCI
// one lacks (health check, ONBUILD, shell).
const (
	mediaTypeIndex    = "application/vnd.oci.image.index.v1+json"
	mediaTypeManifest = "application/vnd.docker.distribution.manifest.v2+json"
	mediaTypeConfig   = "application/vnd.docker.container.image.v1+json"
	mediaTypeLayer    = "application/vnd.docker.image.rootfs.diff.tar"
)

// maxConfig bounds an image's config and manifest that are read back, in bytes.
const maxConfig = 8 << 20

// ImageSpec describes an image to make. Its layer, if any, comes on top of those of Base.
type ImageSpec struct {
	Base          string // id of the image below; empty for none
	Config        image.Config
	Author        string
	Comment       string
	CreatedBy     string    // what made the layer, for the history
	Created       time.Time // zero: now
	Architecture  string
	Variant       string
	OS            string
	Container     string // id of the container it comes from; may be empty
	EngineVersion string

	ContainerConfig json.RawMessage // of that container; may be empty

	Step string // the key of the build's step that makes the image; empty: an image of its own
}

// ensureCreated makes sure that the spec says when the image was made.
func (spec *ImageSpec) ensureCreated() {
	if spec.Created.IsZero() {
		spec.Created = time.Now()
	}
	spec.Created = spec.Created.UTC()
}

// History is one step of an image's making, oldest first (OCI image spec, history).
type History struct {
	Created    time.Time `json:"created,omitzero"`
	CreatedBy  string    `json:"created_by,omitempty"`
	Author     string    `json:"author,omitempty"`
	Comment    string    `json:"comment,omitempty"`
	EmptyLayer bool      `json:"empty_layer,omitempty"`
}

// imageJSON is an image's config as it lies in the store and travels to registries.
type imageJSON struct {
	Architecture  string       `json:"architecture"`
	Variant       string       `json:"variant,omitempty"`
	Author        string       `json:"author,omitempty"`
	Comment       string       `json:"comment,omitempty"`
	Config        image.Config `json:"config"`
	Container     string       `json:"container,omitempty"`
	Created       time.Time    `json:"created,omitzero"`
	EngineVersion string       `json:"docker_version,omitempty"`
	History       []History    `json:"history,omitempty"`
	OS            string       `json:"os"`
	OSVersion     string       `json:"os.version,omitempty"`
	RootFS        rootFS       `json:"rootfs"`

	ContainerConfig json.RawMessage `json:"container_config,omitempty"`
}

type rootFS struct {
	Type    string          `json:"type"`
	DiffIDs []digest.Digest `json:"diff_ids"`
}

type descriptor struct {
	MediaType string        `json:"mediaType"`
	Size      int64         `json:"size"`
	Digest    digest.Digest `json:"digest"`

	Annotations map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

// documents are the texts that make an image.
type documents struct {
	config, manifest, index                   []byte // index: that named the manifest; nil: none
	configDigest, manifestDigest, indexDigest digest.Digest
}

// renderDocuments makes the config and the manifest of an image from its spec, the one below it and the sizes of all its
// layers.
func renderDocuments(spec ImageSpec, base *configCache, diffIDs []digest.Digest, sizes []int64) (documents, error) {
	var history []History
	if base != nil {
		history = append(history, base.history...)
	}
	added := base == nil || len(diffIDs) > len(base.diffIDs)
	history = append(history, History{
		Created: spec.Created, CreatedBy: spec.CreatedBy, Author: spec.Author, Comment: spec.Comment,
		EmptyLayer: !added || len(diffIDs) == 0,
	})
	if diffIDs == nil {
		diffIDs = []digest.Digest{}
	}
	config, err := json.Marshal(imageJSON{
		Architecture: spec.Architecture, Variant: spec.Variant, OS: spec.OS, Author: spec.Author, Comment: spec.Comment,
		Config: spec.Config, Container: spec.Container, Created: spec.Created, EngineVersion: spec.EngineVersion,
		History: history, RootFS: rootFS{Type: "layers", DiffIDs: diffIDs}, ContainerConfig: spec.ContainerConfig,
	})
	if err != nil {
		return documents{}, fmt.Errorf("encode image config: %w", err)
	}
	return newDocuments(config, diffIDs, sizes)
}

// newDocuments makes the documents of an image from its config. The manifest of an image that was made here is always the
// same.
func newDocuments(config []byte, diffIDs []digest.Digest, sizes []int64) (documents, error) {
	docs := documents{config: config, configDigest: digest.FromBytes(config)}
	m := manifest{
		SchemaVersion: 2, MediaType: mediaTypeManifest,
		Config: descriptor{MediaType: mediaTypeConfig, Size: int64(len(config)), Digest: docs.configDigest},
		Layers: make([]descriptor, 0, len(diffIDs)),
	}
	for i, d := range diffIDs {
		m.Layers = append(m.Layers, descriptor{MediaType: mediaTypeLayer, Size: sizes[i], Digest: d})
	}
	var err error
	if docs.manifest, err = json.Marshal(m); err != nil {
		return documents{}, fmt.Errorf("encode image manifest: %w", err)
	}
	docs.manifestDigest = digest.FromBytes(docs.manifest)
	return docs, nil
}

// chainIDs returns the id of each layer together with all below it (OCI image spec, ChainID).
func chainIDs(diffIDs []digest.Digest) []digest.Digest {
	chain := make([]digest.Digest, len(diffIDs))
	for i, d := range diffIDs {
		if i == 0 {
			chain[i] = d
			continue
		}
		chain[i] = digest.FromString(chain[i-1].String() + " " + d.String())
	}
	return chain
}
