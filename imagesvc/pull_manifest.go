package imagesvc

import (
	"context"
	"fmt"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// manifestSource gives manifests: that of its image for an empty digest.
type manifestSource interface {
	Manifest(ctx context.Context, d digest.Digest) (raw []byte, mediaType string, err error)
}

// readManifest fetches what ref names: a manifest or an index.
func (p *pull) readManifest(ctx context.Context) error {
	raw, mediaType, err := p.src.Manifest(ctx, digest.Digest(p.ref.Digest()))
	if err != nil {
		return err
	}
	if p.digest = digest.Digest(p.ref.Digest()); p.digest == "" {
		p.digest = digest.FromBytes(raw)
	} else if err := verifyManifest(raw, p.digest); err != nil {
		return err
	}
	m, err := parseManifest(raw, mediaType)
	if err != nil {
		return fmt.Errorf("%s: %w", p.ref.Familiar(), err)
	}
	p.manifest, p.document = m, storage.Document{MediaType: m.MediaType, Raw: raw}
	if m.isIndex() {
		p.document, p.index = storage.Document{}, p.document
		if _, ok := chooseEntry(p.want, p.own, m.Manifests); !ok {
			return noPlatform(p.want)
		}
	}
	id := p.ref.Tag()
	if id == "" {
		id = p.ref.Digest()
	}
	p.progress(image.Progress{ID: id, Status: "Pulling from " + p.ref.Path(), Heading: true})
	return nil
}

func verifyManifest(raw []byte, want digest.Digest) error {
	if want.Algorithm().FromBytes(raw) != want {
		return fmt.Errorf("manifest verification failed for digest %s", want)
	}
	return nil
}

// readImage goes from what ref names to the image's config and its list of layers.
func (p *pull) readImage(ctx context.Context) error {
	if p.manifest.isIndex() {
		if err := p.readChosen(ctx); err != nil {
			return err
		}
	}
	raw, err := p.readConfig(ctx, p.manifest.Config)
	if err != nil {
		return err
	}
	config, err := parseConfig(raw, len(p.manifest.Layers))
	if err != nil {
		return err
	}
	if config.OS == "" {
		config.OS = "linux"
	}
	if p.index.Raw == nil && !p.own && !suitsPlatform(p.want, false, config.Platform) {
		return fault.NotFound("image with reference %s was found but does not match the specified platform: wanted %s, actual: %s",
			p.ref.Familiar(), p.want, config.NormalForm())
	}
	p.config, p.diffIDs = raw, config.diffIDs
	seen := map[digest.Digest]int{}
	for i, layer := range p.manifest.Layers {
		p.layers = append(p.layers, newWantedLayer(layer, config.diffIDs[i], seen[layer.Digest]))
		seen[layer.Digest]++
	}
	return nil
}

// readChosen fetches the manifest that suits the platform best from the index.
func (p *pull) readChosen(ctx context.Context) error {
	entry, ok := chooseEntry(p.want, p.own, p.manifest.Manifests)
	if !ok {
		return noPlatform(p.want)
	}
	raw, mediaType, err := p.src.Manifest(ctx, entry.Digest)
	if err != nil {
		return err
	}
	if int64(len(raw)) != entry.Size {
		return fmt.Errorf("manifest %s has %d bytes, and the index says %d", entry.Digest, len(raw), entry.Size)
	}
	if err := verifyManifest(raw, entry.Digest); err != nil {
		return err
	}
	m, err := parseManifest(raw, mediaType)
	if err != nil {
		return fmt.Errorf("%s: %w", p.ref.Familiar(), err)
	}
	if m.isIndex() {
		return fault.Unsupported("%s: the index leads to another index, which is not supported", p.ref.Familiar())
	}
	p.manifest, p.document = m, storage.Document{MediaType: m.MediaType, Raw: raw}
	return nil
}

// readConfig returns the image's config from the store, or from the registry.
func (p *pull) readConfig(ctx context.Context, d descriptor) ([]byte, error) {
	if known, _, err := p.s.store.Documents(ctx, d.Digest.String()); err == nil &&
		d.Digest.Algorithm().FromBytes(known) == d.Digest {
		return known, nil
	}
	body, _, err := p.src.Blob(ctx, d.toBlob())
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // only read
	return readDocument(body, d)
}
