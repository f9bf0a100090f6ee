package storage

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"
	cstorage "go.podman.io/storage"

	"moss/engine/damage"
	"moss/engine/fault"
	"moss/engine/image"
)

// checkDocuments compares the documents of an image with their digests. One that is damaged is set aside; where another one
// is the same, it comes back. What the image cannot be without shows when its config is loaded.
func (c *catalog) checkDocuments(record *cstorage.Image) error {
	whole := map[digest.Digest][]byte{}
	bad := map[string]error{}
	for _, key := range record.BigDataNames {
		raw, err := c.readDocument(record, key)
		if err != nil {
			bad[key] = err
			continue
		}
		whole[record.BigDataDigests[key]] = raw
	}
	for key, why := range bad {
		path := c.documentFile(record.ID, key)
		if err := c.damage.SetAside(path, why); err != nil {
			return err
		}
		if raw, ok := whole[record.BigDataDigests[key]]; ok {
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				return fmt.Errorf("restore %s: %w", path, err)
			}
		}
	}
	return nil
}

// readDocument reads one of an image's documents and compares it with its digest.
func (c *catalog) readDocument(record *cstorage.Image, key string) ([]byte, error) {
	if err := damage.CheckPlain(c.documentFile(record.ID, key)); err != nil {
		return nil, err
	}
	raw, err := c.bigData(record, key)
	if err != nil {
		return nil, err
	}
	if want := record.BigDataDigests[key]; want != "" {
		if err := want.Validate(); err != nil {
			return nil, err
		}
		if got := want.Algorithm().FromBytes(raw); got != want {
			return nil, fmt.Errorf("its digest is %s, not %s", got, want)
		}
	}
	return raw, nil
}

// documentFile is where the library (1.64) keeps a document of an image. The keys of images are "manifest" and such with
// characters that it does not have in names.
func (d *disk) documentFile(bare, key string) string {
	name := key
	if key != cstorage.ImageDigestBigDataKey {
		name = "=" + base64.StdEncoding.EncodeToString([]byte(key))
	}
	return filepath.Join(d.imageFolder(bare), name)
}

// damagedConfig returns what is known of an image whose documents or layers are damaged: it can be listed, named and removed.
func (c *catalog) damagedConfig(record *cstorage.Image, why error) *configCache {
	cfg := &configCache{topLayer: record.TopLayer, damaged: why}
	var layers []string
	for layer, err := range c.layersFrom(record.TopLayer) {
		if err != nil {
			break
		}
		cfg.sizes = append(cfg.sizes, layer.UncompressedSize)
		cfg.diffIDs = append(cfg.diffIDs, layer.UncompressedDigest)
		cfg.image.Size += max(layer.UncompressedSize, 0)
		layers = append(layers, layer.UncompressedDigest.String())
	}
	slices.Reverse(cfg.sizes)
	slices.Reverse(cfg.diffIDs)
	slices.Reverse(layers)
	cfg.image.ID, cfg.image.Created = "sha256:"+record.ID, record.Created
	cfg.image.Layers, cfg.image.TopLayer = layers, record.TopLayer
	cfg.image.Comment = "damaged: " + why.Error()
	return cfg
}

// errBroken is what clients are told who want to use such an image.
func errBroken(bare string, why error) error {
	return fault.Conflict("image sha256:%s is damaged: remove it, or pull or load it again: %w", bare, why)
}

// knownConfig is soundConfig without the check: it returns the config of a damaged image too.
func (c *catalog) knownConfig(bare string) (*configCache, error) {
	c.mu.Lock()
	cfg := c.configs[bare]
	c.mu.Unlock()
	if cfg != nil {
		return cfg, nil
	}
	record, err := c.knownRecord(bare)
	if err != nil {
		return nil, err
	}
	return c.configOf(record)
}

// knownRecord returns the record of an image, by its id without sha256:.
func (c *catalog) knownRecord(bare string) (*cstorage.Image, error) {
	record, err := c.imageRecord(bare)
	if errors.Is(err, cstorage.ErrImageUnknown) || (err == nil && record.ID != bare) {
		return nil, image.NoSuch("sha256:" + bare)
	}
	return record, wrapError(err, "look up image %s", bare)
}

// soundConfig returns what never changes of an image, by its id without sha256:. fault.Conflict if the image is damaged.
func (c *catalog) soundConfig(bare string) (*configCache, error) {
	cfg, err := c.knownConfig(bare)
	if err == nil && cfg.damaged != nil {
		return nil, errBroken(bare, cfg.damaged)
	}
	return cfg, err
}
