package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	cstorage "go.podman.io/storage"
)

// LayerInfo is one layer of an image.
type LayerInfo struct {
	DiffID  digest.Digest
	ChainID digest.Digest
	Size    int64  // bytes of its plain archive; -1 if unknown
	Blobs   []Blob // the compressed forms that it was unpacked from or made into here, as manifests tell of them
}

// Layers returns an image's layers, lowest first. The forms that the image itself came in come first.
//
// Errors are fault.NotFound or internal.
func (s *Store) Layers(ctx context.Context, imageID string) ([]LayerInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("layers of image %s: %w", imageID, err)
	}
	bare := bareID(imageID)
	cfg, err := s.knownConfig(bare)
	if err != nil {
		return nil, err
	}
	records, err := s.imageRecords()
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(records, func(a, b cstorage.Image) int {
		switch bare {
		case a.ID:
			return -1
		case b.ID:
			return 1
		}
		return 0
	})
	blobs := map[digest.Digest][]Blob{}
	for _, diffID := range cfg.diffIDs {
		blobs[diffID] = nil
	}
	proven := s.provenForms(cfg.diffIDs)
	for i := range records {
		s.collectBlobs(&records[i], blobs, proven)
	}
	chain := chainIDs(cfg.diffIDs)
	infos := make([]LayerInfo, len(cfg.diffIDs))
	for i, diffID := range cfg.diffIDs {
		infos[i] = LayerInfo{DiffID: diffID, ChainID: chain[i], Size: -1, Blobs: blobs[diffID]}
		if i < len(cfg.sizes) {
			infos[i].Size = cfg.sizes[i]
		}
	}
	return infos, nil
}

// collectBlobs adds what an image's manifests say of the wanted layers, as far as it is proven. What cannot be read adds
// nothing.
func (c *catalog) collectBlobs(
	record *cstorage.Image, wanted map[digest.Digest][]Blob, proven map[digest.Digest][]digest.Digest,
) {
	cfg, err := c.configOf(record)
	if err != nil {
		return
	}
	for _, key := range manifestKeys(record) {
		raw, err := c.bigData(record, key)
		if err != nil {
			continue
		}
		var m manifest
		if json.Unmarshal(raw, &m) != nil || len(m.Layers) != len(cfg.diffIDs) {
			continue // an index, or a manifest that leaves empty layers to the history
		}
		for i, diffID := range cfg.diffIDs {
			known, ok := wanted[diffID]
			l := m.Layers[i]
			if !ok || l.Digest == diffID || !slices.Contains(proven[diffID], l.Digest) || l.Digest.Validate() != nil ||
				slices.ContainsFunc(known, func(b Blob) bool { return b.Digest == l.Digest }) {
				continue
			}
			wanted[diffID] = append(known, Blob{Digest: l.Digest, Size: l.Size, MediaType: l.MediaType, Annotations: l.Annotations})
		}
	}
}

// manifestKeys returns the keys of an image's manifests and indexes, that by which it was stored first, each once.
func manifestKeys(record *cstorage.Image) []string {
	var keys []string
	seen := map[digest.Digest]bool{}
	add := func(key string) {
		if d, ok := record.BigDataDigests[key]; ok && !seen[d] {
			seen[d] = true
			keys = append(keys, key)
		}
	}
	add(cstorage.ImageDigestBigDataKey)
	for _, key := range record.BigDataNames {
		if strings.HasPrefix(key, cstorage.ImageDigestManifestBigDataNamePrefix+"-") {
			add(key)
		}
	}
	return keys
}

// Documents returns an image's config and its manifests as they came, the one by which it was stored first.
//
// Errors are fault.NotFound or internal.
func (c *catalog) Documents(ctx context.Context, imageID string) (config []byte, manifests []Document, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("documents of image %s: %w", imageID, err)
	}
	bare := bareID(imageID)
	cfg, err := c.soundConfig(bare)
	if err != nil {
		return nil, nil, err
	}
	record, err := c.imageRecord(bare)
	if err != nil {
		return nil, nil, wrapError(err, "documents of image %s", imageID)
	}
	if config, err = c.configBlob(record); err != nil {
		return nil, nil, fmt.Errorf("config of image %s: %w", imageID, err)
	}
	for _, key := range manifestKeys(record) {
		raw, err := c.bigData(record, key)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was damaged, and is set aside
		}
		if err != nil {
			return nil, nil, fmt.Errorf("manifest of image %s: %w", imageID, err)
		}
		manifests = append(manifests, Document{MediaType: mediaTypeOf(raw), Raw: raw})
	}
	if !slices.ContainsFunc(manifests, func(d Document) bool { return d.MediaType != mediaTypeIndex }) {
		docs, err := newDocuments(config, cfg.diffIDs, cfg.sizes)
		return config, []Document{{MediaType: mediaTypeManifest, Raw: docs.manifest}}, err
	}
	return config, manifests, nil
}

// mediaTypeOf returns what kind of manifest a document is. Only those of the OCI may leave that out.
func mediaTypeOf(raw []byte) string {
	var doc struct {
		MediaType string          `json:"mediaType"`
		Manifests json.RawMessage `json:"manifests"`
	}
	switch err := json.Unmarshal(raw, &doc); {
	case err != nil:
		return ""
	case doc.MediaType != "":
		return doc.MediaType
	case doc.Manifests != nil:
		return mediaTypeIndex
	default:
		return "application/vnd.oci.image.manifest.v1+json"
	}
}

// History returns the steps of an image's making, oldest first, and the sizes of its layers in bytes, lowest first.
//
// Errors are fault.NotFound or internal.
func (c *catalog) History(ctx context.Context, imageID string) (steps []History, sizes []int64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("history of image %s: %w", imageID, err)
	}
	cfg, err := c.knownConfig(bareID(imageID))
	if err != nil {
		return nil, nil, err
	}
	sizes = make([]int64, len(cfg.sizes))
	for i, size := range cfg.sizes {
		sizes[i] = max(size, 0)
	}
	return slices.Clone(cfg.history), sizes, nil
}
