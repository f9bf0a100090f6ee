package imagesvc

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
)

// Bounds of what an archive's documents name.
const (
	maxImages = 4096 // images of one archive
	maxNames  = 4096 // names of one image
)

// checkedImages returns the images of the archive, all of them checked.
func (l *loader) checkedImages() ([]*loadable, error) {
	var images []*loadable
	var err error
	switch {
	case l.docs[nameManifest] != nil:
		images, err = l.dockerImages()
	case l.docs[nameIndex] != nil:
		images, err = l.ociImages()
	default:
		images, err = l.v1Images()
	}
	if err != nil {
		return nil, err
	}
	for _, img := range images {
		if err := img.finishImage(); err != nil {
			return nil, err
		}
		if err := l.checkPlatform(img); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// checkPlatform is fault.NotFound for an image that is not for the platform which was asked for.
func (l *loader) checkPlatform(img *loadable) error {
	if l.anyPlatform {
		return nil
	}
	var has image.Platform
	if err := json.Unmarshal(img.config, &has); err != nil {
		return fault.Invalid("the config of an image: %w", err)
	}
	if !suitsPlatform(l.want, false, has) {
		return fault.NotFound("the archive has an image for %s, and %s was asked for", has, l.want)
	}
	return nil
}

// asInvalid gives what is wrong with an archive the kind of a bad request, unless it has a kind.
func asInvalid(err error) error {
	if err == nil || fault.KindOf(err) != fault.KindInternal {
		return err
	}
	return fault.Invalid("%w", err)
}

// finishImage checks that an image and its layers belong together, and makes the manifest if the archive has none.
func (img *loadable) finishImage() error {
	sizes := make([]int64, 0, len(img.layers))
	for i, layer := range img.layers {
		if layer.err != nil {
			return layer.err
		}
		if layer.diffID != img.diffIDs[i] {
			return fault.Invalid("layer %s has the digest %s, and the image's config wants %s", layer.name, layer.diffID, img.diffIDs[i])
		}
		sizes = append(sizes, layer.plain)
	}
	if img.manifest.Raw != nil {
		return nil
	}
	var err error
	img.manifest, err = plainManifest(img.config, img.diffIDs, sizes)
	return err
}

// dockerEntries returns the entries of manifest.json.
func (l *loader) dockerEntries() ([]archiveEntry, error) {
	var entries []archiveEntry
	if err := json.Unmarshal(l.docs[nameManifest], &entries); err != nil {
		return nil, fault.Invalid("%s cannot be read: %w", nameManifest, err)
	}
	if len(entries) == 0 || len(entries) > maxImages {
		return nil, fault.Invalid("%s names %d images, not 1 to %d", nameManifest, len(entries), maxImages)
	}
	return entries, nil
}

// dockerImages returns the images that manifest.json names.
func (l *loader) dockerImages() ([]*loadable, error) {
	entries, err := l.dockerEntries()
	if err != nil {
		return nil, err
	}
	images := make([]*loadable, 0, len(entries))
	for _, entry := range entries {
		img, err := l.dockerImage(entry)
		if err != nil {
			return nil, err
		}
		images = append(images, img)
	}
	return images, nil
}

func (l *loader) dockerImage(entry archiveEntry) (*loadable, error) {
	config, err := l.dockerConfig(entry.Config)
	if err != nil {
		return nil, err
	}
	parsed, err := parseConfig(config, len(entry.Layers))
	if err != nil {
		return nil, asInvalid(fmt.Errorf("image %.200s: %w", entry.Config, err))
	}
	img := &loadable{config: config, diffIDs: parsed.diffIDs}
	for _, name := range entry.Layers {
		layer, err := l.findLayer(name)
		if err != nil {
			return nil, err
		}
		img.layers = append(img.layers, layer)
	}
	img.names, err = tagNames(entry.RepoTags)
	return img, err
}

// dockerConfig returns an image's config. If its name is a digest, it is verified.
func (l *loader) dockerConfig(name string) ([]byte, error) {
	clean, err := entryName(name)
	if err != nil {
		return nil, err
	}
	raw, ok := l.docs[l.followLinks(clean)]
	if !ok {
		return nil, fault.Invalid("the archive has no config %.200q", name)
	}
	want := blobDigest(clean)
	if digits := strings.TrimPrefix(strings.TrimSuffix(path.Base(clean), ".json"), "sha256:"); want == "" && len(digits) == 64 {
		if d := digest.NewDigestFromEncoded(digest.SHA256, digits); d.Validate() == nil {
			want = d
		}
	}
	if want != "" && want.Algorithm().FromBytes(raw) != want {
		return nil, fault.Invalid("config %s does not have the digest of its name", name)
	}
	return raw, nil
}

// tagNames reads an image's names. A name comes once, and has a tag and no digest.
func tagNames(tags []string) ([]image.Ref, error) {
	if len(tags) > maxNames {
		return nil, fault.Invalid("an image has %d names, more than %d", len(tags), maxNames)
	}
	var names []image.Ref
	for _, tag := range tags {
		name, err := image.ParseRef(tag)
		if err != nil {
			return nil, err
		}
		if name.Digest() != "" {
			return nil, fault.Invalid("the archive names an image by a digest: %.200q", tag)
		}
		if err := name.CanName(); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(names, func(other image.Ref) bool { return other.Canonical() == name.Canonical() }) {
			names = append(names, name)
		}
	}
	return names, nil
}

// followLinks goes along links, as far as they lead.
func (l *loader) followLinks(name string) string {
	for range maxLinks {
		target, ok := l.links[name]
		if !ok {
			break
		}
		name = target
	}
	return name
}

// findLayer returns the layer of a name.
func (l *loader) findLayer(name string) (*archiveLayer, error) {
	clean, err := entryName(name)
	if err != nil {
		return nil, err
	}
	layer := l.layers[l.followLinks(clean)]
	if layer == nil {
		return nil, fault.Invalid("the archive has no layer %.200q", name)
	}
	return layer, nil
}

// knownLayer is what manifest.json and the configs say of a layer before it comes.
type knownLayer struct {
	diffID digest.Digest
	here   bool // the store has it wherever an image needs it
}

// tellOf returns what is known of a layer that comes: nothing if the documents come after it.
func (l *loader) tellOf(name string) knownLayer {
	if l.known == nil {
		l.known = l.knownLayers()
	}
	return l.known[name]
}

func (l *loader) knownLayers() map[string]knownLayer {
	known := map[string]knownLayer{}
	if l.docs[nameManifest] == nil {
		return known
	}
	entries, err := l.dockerEntries()
	if err != nil {
		return known // the end tells
	}
	for _, entry := range entries {
		config, err := l.dockerConfig(entry.Config)
		if err != nil {
			return map[string]knownLayer{} // not all documents are there
		}
		parsed, err := parseConfig(config, len(entry.Layers))
		if err != nil {
			return map[string]knownLayer{}
		}
		here := l.service.store.Here(parsed.diffIDs)
		for i, name := range entry.Layers {
			clean, err := entryName(name)
			if err != nil {
				continue
			}
			clean = l.followLinks(clean)
			now := knownLayer{diffID: parsed.diffIDs[i], here: i < here}
			if old, ok := known[clean]; ok && (!old.here || old.diffID != now.diffID) {
				now.here = false
			}
			known[clean] = now
		}
	}
	return known
}
