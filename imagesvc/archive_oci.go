package imagesvc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// Annotations that carry an image's name in an OCI layout.
const (
	annotationName    = "io.containerd.image.name"
	annotationRefName = "org.opencontainers.image.ref.name"
)

// maxNested bounds indexes that name indexes.
const maxNested = 4

// ociImages returns the images of an OCI layout.
func (l *loader) ociImages() ([]*loadable, error) {
	var layout struct {
		Version string `json:"imageLayoutVersion"`
	}
	if err := json.Unmarshal(l.docs[nameLayout], &layout); err != nil || layout.Version != "1.0.0" {
		return nil, fault.Invalid("the archive has an %s, and its %s does not say the version 1.0.0", nameIndex, nameLayout)
	}
	index, err := parseManifest(l.docs[nameIndex], typeOCIIndex)
	if err != nil {
		return nil, asInvalid(fmt.Errorf("%s: %w", nameIndex, err))
	}
	groups := sameName(index.Manifests)
	if len(groups) == 0 || len(index.Manifests) > maxImages {
		return nil, fault.Invalid("%s does not name 1 to %d images", nameIndex, maxImages)
	}
	var images []*loadable
	for _, group := range groups {
		img, err := l.ociImage(group, maxNested)
		if err != nil {
			return nil, err
		}
		if img.names, err = ociNames(group[0]); err != nil {
			return nil, err
		}
		images = mergeImage(images, img)
	}
	return images, nil
}

// sameName groups the entries of an index that carry the same name: they are one image for several platforms. An entry without
// a name stands for itself, unless all of them are manifests for platforms.
func sameName(entries []descriptor) [][]descriptor {
	entries = slices.DeleteFunc(slices.Clone(entries), func(d descriptor) bool { return !isImage(d) })
	unnamed := !slices.ContainsFunc(entries, func(d descriptor) bool {
		return ociName(d) != "" || !d.namesManifest() || d.Platform == nil
	})
	if unnamed && len(entries) > 0 {
		return [][]descriptor{entries}
	}
	var groups [][]descriptor
	for _, d := range entries {
		at := slices.IndexFunc(groups, func(g []descriptor) bool { return ociName(d) != "" && ociName(g[0]) == ociName(d) })
		if at < 0 {
			groups = append(groups, []descriptor{d})
			continue
		}
		groups[at] = append(groups[at], d)
	}
	return groups
}

// isImage reports whether an entry of an index is an image or an index of such.
func isImage(d descriptor) bool {
	return d.MediaType == typeOCIIndex || d.MediaType == typeList || d.namesManifest()
}

// ociName returns the name that an entry of an index gives its image.
func ociName(d descriptor) string {
	if name := d.Annotations[annotationName]; name != "" {
		return name
	}
	return d.Annotations[annotationRefName]
}

// ociNames returns an image's names. A name that is a tag alone names no repository.
func ociNames(d descriptor) ([]image.Ref, error) {
	name := ociName(d)
	if name == "" || d.Annotations[annotationName] == "" && !strings.ContainsAny(name, "/:") {
		return nil, nil
	}
	return tagNames([]string{name})
}

// mergeImage adds an image, or its names to the same one.
func mergeImage(images []*loadable, img *loadable) []*loadable {
	for _, other := range images {
		if string(other.manifest.Raw) == string(img.manifest.Raw) {
			for _, name := range img.names {
				if !slices.ContainsFunc(other.names, func(r image.Ref) bool { return r.Canonical() == name.Canonical() }) {
					other.names = append(other.names, name)
				}
			}
			return images
		}
	}
	return append(images, img)
}

// ociImage returns the image of a group: the one for this machine where there are several.
func (l *loader) ociImage(group []descriptor, depth int) (*loadable, error) {
	d := group[0]
	if len(group) > 1 {
		var err error
		if d, err = l.chooseEntry(group); err != nil {
			return nil, err
		}
	}
	raw, err := l.verifiedBlob(d, maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(raw, d.MediaType)
	if err != nil {
		return nil, asInvalid(fmt.Errorf("manifest %s: %w", d.Digest, err))
	}
	if !m.isIndex() {
		img, err := l.ociManifest(m)
		if err != nil {
			return nil, err
		}
		img.manifest = storage.Document{MediaType: m.MediaType, Raw: raw}
		return img, nil
	}
	if depth == 0 {
		return nil, fault.Invalid("the indexes of the archive are nested more than %d deep", maxNested)
	}
	entries := slices.DeleteFunc(slices.Clone(m.Manifests), func(d descriptor) bool { return !isImage(d) })
	if len(entries) == 0 {
		return nil, fault.Invalid("index %s names no image", d.Digest)
	}
	img, err := l.ociImage(entries, depth-1)
	if err != nil {
		return nil, err
	}
	if img.index.Raw == nil {
		img.index = storage.Document{MediaType: m.MediaType, Raw: raw}
	}
	return img, nil
}

// chooseEntry returns the entry for the platform that is wanted, which is this machine when no client named one. An archive may
// have the manifests of some platforms only.
func (l *loader) chooseEntry(entries []descriptor) (descriptor, error) {
	there := slices.DeleteFunc(slices.Clone(entries), func(d descriptor) bool { return l.docs[blobName(d)] == nil })
	if d, ok := chooseEntry(l.want, l.anyPlatform, there); ok {
		return d, nil
	}
	if len(there) == 1 {
		return there[0], nil
	}
	return descriptor{}, noPlatform(l.want)
}

// ociManifest finds what a manifest names.
func (l *loader) ociManifest(m *manifest) (*loadable, error) {
	config, err := l.verifiedBlob(m.Config, maxConfig)
	if err != nil {
		return nil, err
	}
	parsed, err := parseConfig(config, len(m.Layers))
	if err != nil {
		return nil, asInvalid(fmt.Errorf("config %s: %w", m.Config.Digest, err))
	}
	img := &loadable{config: config, diffIDs: parsed.diffIDs}
	for _, d := range m.Layers {
		layer, err := l.findLayer(blobName(d))
		if err != nil {
			return nil, err
		}
		if layer.blob.Size != d.Size {
			return nil, fault.Invalid("layer %s has %d bytes, and the manifest says %d", d.Digest, layer.blob.Size, d.Size)
		}
		img.layers = append(img.layers, layer)
	}
	return img, nil
}

// blobName returns the name of a blob's file.
func blobName(d descriptor) string {
	return nameBlobs + "/" + d.Digest.Algorithm().String() + "/" + d.Digest.Encoded()
}

// verifiedBlob returns a document and verifies it.
func (l *loader) verifiedBlob(d descriptor, limit int) ([]byte, error) {
	raw, ok := l.docs[l.followLinks(blobName(d))]
	switch {
	case !ok:
		return nil, fault.Invalid("the archive has no blob %s", d.Digest)
	case len(raw) > limit:
		return nil, fault.Invalid("blob %s has %d bytes, more than %d", d.Digest, len(raw), limit)
	case int64(len(raw)) != d.Size:
		return nil, fault.Invalid("blob %s has %d bytes, and not %d", d.Digest, len(raw), d.Size)
	case d.Digest.Algorithm().FromBytes(raw) != d.Digest:
		return nil, fault.Invalid("blob %s does not have that digest", d.Digest)
	}
	return raw, nil
}
