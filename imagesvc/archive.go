package imagesvc

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/storage"
)

// Names in an archive of images.
const (
	nameManifest     = "manifest.json" // what the archive holds, as clients since 2016 write it
	nameRepositories = "repositories"  // the same in the form of API document 1, 2.11
	nameIndex        = "index.json"    // of an OCI layout
	nameLayout       = "oci-layout"
	nameBlobs        = "blobs" // folder of an OCI layout
	nameVersion      = "VERSION"
	nameRecord       = "json" // of a layer, in its folder
	nameLayer        = "layer.tar"

	layerVersion = "1.0" // what VERSION holds
)

// archiveEntry is one image of manifest.json.
type archiveEntry struct {
	Config   string
	RepoTags []string
	Layers   []string // lowest first
}

// plainManifest makes the manifest of an image whose layers are as they are, uncompressed.
func plainManifest(config []byte, diffIDs []digest.Digest, sizes []int64) (storage.Document, error) {
	layers := make([]descriptor, 0, len(diffIDs))
	for i, d := range diffIDs {
		layers = append(layers, descriptor{MediaType: typeLayer, Size: sizes[i], Digest: d})
	}
	raw, err := json.Marshal(struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}{2, typeSchema2, descriptor{MediaType: typeConfig, Size: int64(len(config)), Digest: digest.FromBytes(config)}, layers})
	if err != nil {
		return storage.Document{}, fmt.Errorf("encode manifest: %w", err)
	}
	return storage.Document{MediaType: typeSchema2, Raw: raw}, nil
}

// entryName returns an entry's name in the one form in which the archive's documents are compared with it. Names that
// lead out of the archive are refused.
func entryName(name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(name, 0) {
		return "", fault.Invalid("the name %.200q leads out of the archive", name)
	}
	return clean, nil
}
