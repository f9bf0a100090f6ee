package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	cstorage "go.podman.io/storage"

	"moss/engine/fault"
	"moss/engine/image"
)

// parentFlag holds the id of the image that an image was built on here.
const parentFlag = "moss-parent"

// namedFlag is set on an image that was made with a name. One that never got it was half made.
const namedFlag = "moss-named"

// configCache is what never changes of an image.
type configCache struct {
	image    image.Image // without names
	topLayer string
	diffIDs  []digest.Digest
	sizes    []int64 // of the layers, uncompressed; -1 if unknown
	history  []History
	damaged  error // why the image cannot be used; nil for one that can
}

// catalog keeps the images: their records, their names, and what never changes of them.
type catalog struct {
	*disk
	*stepFiles

	mu      sync.Mutex              // guards configs
	configs map[string]*configCache // by image id without sha256:
}

func newCatalog(d *disk) *catalog {
	return &catalog{
		disk: d, stepFiles: &stepFiles{disk: d, steps: map[string]*stepRecord{}}, configs: map[string]*configCache{},
	}
}

// List returns all images, newest first.
func (c *catalog) List(ctx context.Context) ([]*image.Image, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	records, err := c.imageRecords()
	if err != nil {
		return nil, err
	}
	images := make([]*image.Image, 0, len(records))
	for i := range records {
		img, err := c.assembleImage(&records[i])
		if fault.Is(err, fault.NotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		images = append(images, img)
	}
	slices.SortStableFunc(images, func(a, b *image.Image) int { return b.Created.Compare(a.Created) })
	return images, nil
}

// Get returns the image that a client means by what it wrote: a name, an id with or without sha256:, or the beginning of
// one. A name wins over the beginning of an id; the beginning of several ids means none of them.
//
// Errors are fault.NotFound, fault.Invalid (neither a name nor an id) or internal.
func (c *catalog) Get(ctx context.Context, what string) (*image.Image, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("get image %s: %w", what, err)
	}
	l, err := image.ParseLookup(what)
	if err != nil {
		return nil, err
	}
	record, err := c.findImage(l)
	if err != nil {
		return nil, err
	}
	return c.assembleImage(record)
}

func (c *catalog) findImage(l image.Lookup) (*cstorage.Image, error) {
	if !l.Ref.IsZero() {
		record, err := c.findName(l.Ref)
		if err != nil || record != nil {
			return record, err
		}
	}
	if l.Prefix != "" {
		if record, err := c.findID(l.Prefix); err != nil || record != nil {
			return record, err
		}
	}
	return nil, image.NoSuch(l.String())
}

// findID returns the image of an id or the beginning of one, nil if there is none or there are several.
func (c *catalog) findID(prefix string) (*cstorage.Image, error) {
	if r := c.lightStep(prefix); r != nil {
		return r.toImageRecord(prefix), nil
	}
	step, r, several := c.stepsOf(prefix)
	if several {
		return nil, nil //nolint:nilnil // no image and no error is the answer
	}
	record, err := c.cs.Image(prefix)
	if err != nil && !errors.Is(err, cstorage.ErrImageUnknown) {
		return nil, fmt.Errorf("look up image %s: %w", prefix, err)
	}
	found := err == nil && strings.HasPrefix(record.ID, prefix)
	switch {
	case r == nil && !found, r != nil && found && record.ID != step:
		return nil, nil //nolint:nilnil // no image and no error is the answer
	case found:
		return record, nil
	}
	records, err := c.cs.Images() // the library says the same of none and of several
	if err != nil {
		return nil, fmt.Errorf("look up image %s: %w", prefix, err)
	}
	for i := range records {
		if strings.HasPrefix(records[i].ID, prefix) {
			return nil, nil //nolint:nilnil // no image and no error is the answer
		}
	}
	return r.toImageRecord(step), nil
}

// findName returns the image of a name, nil if no image has it. A digest also finds an image that has a tag in the same
// repository and that manifest.
func (c *catalog) findName(ref image.Ref) (*cstorage.Image, error) {
	record, err := c.cs.Image(ref.WithoutTag().Canonical())
	if err == nil {
		return record, nil
	}
	if !errors.Is(err, cstorage.ErrImageUnknown) {
		return nil, fmt.Errorf("look up image %s: %w", ref.Familiar(), err)
	}
	if ref.Digest() == "" {
		return nil, nil //nolint:nilnil // no image and no error is the answer
	}
	records, err := c.cs.ImagesByDigest(digest.Digest(ref.Digest()))
	if err != nil && !errors.Is(err, cstorage.ErrImageUnknown) {
		return nil, fmt.Errorf("look up image %s: %w", ref.Familiar(), err)
	}
	for _, record := range records {
		for _, name := range record.Names {
			if other, err := image.ParseRef(name); err == nil && other.Repo() == ref.Repo() {
				return record, nil
			}
		}
	}
	return nil, nil //nolint:nilnil // no image and no error is the answer
}

// assembleImage joins what never changes of an image with its present names.
func (c *catalog) assembleImage(record *cstorage.Image) (*image.Image, error) {
	cfg, err := c.configOf(record)
	if err != nil {
		return nil, err
	}
	img := cfg.image
	img.RepoTags, img.RepoDigests = familiarNames(record.Names)
	if parent, ok := record.Flags[parentFlag].(string); ok {
		img.Parent = parent
	}
	img.Step, img.Result = stepKey(record), !isLight(record)
	return &img, nil
}

// familiarNames sorts an image's names into tags and digests as clients show them. A name that some other program put in
// the store and that is none is left out.
func familiarNames(names []string) (tags, digests []string) {
	for _, name := range names {
		ref, err := image.ParseRef(name)
		switch {
		case err != nil:
		case ref.Digest() != "":
			digests = append(digests, ref.WithoutTag().Familiar())
		default:
			tags = append(tags, ref.Familiar())
		}
	}
	slices.Sort(tags)
	slices.Sort(digests)
	return tags, digests
}

// configOf returns what never changes of an image, or as much as is known of a damaged one.
func (c *catalog) configOf(record *cstorage.Image) (*configCache, error) {
	c.mu.Lock()
	cfg := c.configs[record.ID]
	c.mu.Unlock()
	if cfg != nil {
		return cfg, nil
	}
	cfg, err := c.loadConfig(record)
	if errors.Is(err, cstorage.ErrImageUnknown) {
		return nil, image.NoSuch("sha256:" + record.ID)
	}
	if err != nil {
		c.damage.Note(c.imageFolder(record.ID), fmt.Errorf("image %v: %w", record.Names, err))
		cfg = c.damagedConfig(record, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.configs[record.ID] = cfg
	return cfg, nil
}

func (c *catalog) forgetConfig(bare string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.configs, bare)
}

func (c *catalog) loadConfig(record *cstorage.Image) (*configCache, error) {
	raw, err := c.configBlob(record)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	var doc imageJSON
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	cfg := &configCache{topLayer: record.TopLayer, diffIDs: doc.RootFS.DiffIDs, history: doc.History}
	var total int64
	for layer, err := range c.layersFrom(record.TopLayer) {
		if err != nil {
			return nil, err
		}
		if isDamaged(layer) {
			return nil, fmt.Errorf("layer %s is damaged", layer.ID)
		}
		cfg.sizes = append(cfg.sizes, layer.UncompressedSize)
		total += max(layer.UncompressedSize, 0)
	}
	if len(cfg.sizes) != len(cfg.diffIDs) {
		return nil, fmt.Errorf("it has %d layers, its config tells of %d", len(cfg.sizes), len(cfg.diffIDs))
	}
	slices.Reverse(cfg.sizes)
	layers := make([]string, 0, len(doc.RootFS.DiffIDs))
	for _, d := range doc.RootFS.DiffIDs {
		layers = append(layers, d.String())
	}
	created := doc.Created
	if created.IsZero() {
		created = record.Created
	}
	cfg.image = image.Image{
		ID: "sha256:" + record.ID, Created: created, Undated: doc.Created.IsZero(), Size: total,
		Author: doc.Author, Comment: doc.Comment,
		Architecture: doc.Architecture, Variant: doc.Variant, OS: doc.OS, OSVersion: doc.OSVersion,
		Layers: layers, TopLayer: record.TopLayer,
		Container: doc.Container, EngineVersion: doc.EngineVersion, Config: doc.Config, ContainerConfig: doc.ContainerConfig,
	}
	return cfg, nil
}

// configBlob returns an image's config. Its digest is the image's id, unless the library has given the image another one
// (partial pulls): then the manifest names it.
func (c *catalog) configBlob(record *cstorage.Image) ([]byte, error) {
	if isLight(record) {
		if _, config, err := c.readStep(record.ID); err == nil || !fault.Is(err, fault.NotFound) {
			return config, err
		}
		full, err := c.cs.Image(record.ID) // it has got its place in the library meanwhile
		if err != nil {
			return nil, err
		}
		record = full
	}
	key := "sha256:" + record.ID
	if !slices.Contains(record.BigDataNames, key) {
		raw, err := c.bigData(record, cstorage.ImageDigestBigDataKey)
		if err != nil {
			return nil, err
		}
		var m manifest
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, fmt.Errorf("decode manifest: %w", err)
		}
		if err := m.Config.Digest.Validate(); err != nil {
			return nil, fmt.Errorf("manifest: config digest: %w", err)
		}
		key = m.Config.Digest.String()
	}
	return c.bigData(record, key)
}

func (c *catalog) bigData(record *cstorage.Image, key string) ([]byte, error) {
	if size := record.BigDataSizes[key]; size > maxConfig {
		return nil, fault.Internal("%s has %d bytes, more than %d", key, size, maxConfig)
	}
	raw, err := c.cs.ImageBigData(record.ID, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return raw, nil
}
