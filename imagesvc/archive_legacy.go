package imagesvc

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
)

// v1Images returns the images of an archive that has a folder per layer and nothing else: those that `repositories` names, or
// without it those that no other is built on.
func (l *loader) v1Images() ([]*loadable, error) {
	records := map[string]*v1Record{}
	parents := map[string]bool{}
	for name, raw := range l.docs {
		dir, base := path.Split(name)
		if id := strings.TrimSuffix(dir, "/"); base == nameRecord && id != "" {
			record := &v1Record{}
			if err := json.Unmarshal(raw, record); err != nil {
				return nil, fault.Invalid("%s cannot be read: %w", name, err)
			}
			records[id] = record
			parents[record.Parent] = true
		}
	}
	if len(records) == 0 {
		return nil, noArchive()
	}
	names, order, err := l.v1Names()
	if err != nil {
		return nil, err
	}
	if order == nil {
		for id := range records {
			if !parents[id] {
				order = append(order, id)
			}
		}
		slices.Sort(order)
	}
	if len(order) == 0 || len(order) > maxImages {
		return nil, fault.Invalid("the archive has %d images, not 1 to %d", len(order), maxImages)
	}
	images := make([]*loadable, 0, len(order))
	for _, id := range order {
		img, err := l.v1Image(records, id)
		if err != nil {
			return nil, err
		}
		img.names = names[id]
		images = append(images, img)
	}
	return images, nil
}

// noArchive is the one wording for an archive of something else.
func noArchive() error {
	return fault.Invalid("the archive holds no images: it has neither %s, nor %s and %s, nor folders of layers",
		nameManifest, nameLayout, nameIndex)
}

// v1Names reads `repositories`. order is nil if there is none.
func (l *loader) v1Names() (names map[string][]image.Ref, order []string, err error) {
	raw, ok := l.docs[nameRepositories]
	if !ok {
		return nil, nil, nil
	}
	var repositories map[string]map[string]string
	if err := json.Unmarshal(raw, &repositories); err != nil {
		return nil, nil, fault.Invalid("%s cannot be read: %w", nameRepositories, err)
	}
	names = map[string][]image.Ref{}
	for repo, tags := range repositories {
		for tag, id := range tags {
			name, err := image.ParseRepoTag(repo, tag)
			if err != nil {
				return nil, nil, err
			}
			if name.Digest() != "" {
				return nil, nil, fault.Invalid("the archive names an image by a digest: %.200q", name.Familiar())
			}
			if err := name.CanName(); err != nil {
				return nil, nil, err
			}
			if names[id] == nil {
				order = append(order, id)
			}
			if names[id] = append(names[id], name); len(names[id]) > maxNames {
				return nil, nil, fault.Invalid("an image has more than %d names", maxNames)
			}
		}
	}
	for _, list := range names {
		slices.SortFunc(list, func(a, b image.Ref) int { return strings.Compare(a.Familiar(), b.Familiar()) })
	}
	slices.Sort(order)
	return names, order, nil
}

// v1Image makes an image of a layer's folder and those that it is built on.
func (l *loader) v1Image(records map[string]*v1Record, id string) (*loadable, error) {
	var chain []string
	for at := id; at != ""; at = records[at].Parent {
		if records[at] == nil {
			return nil, fault.Invalid("the archive has no layer %.200q", at)
		}
		if chain = append(chain, at); len(chain) > maxLayers {
			return nil, fault.Invalid("image %.200s has more than %d layers", id, maxLayers)
		}
	}
	slices.Reverse(chain)
	img := &loadable{}
	var docs [][]byte
	for _, at := range chain {
		layer, err := l.findLayer(at + "/" + nameLayer)
		if err != nil {
			return nil, err
		}
		if layer.err != nil {
			return nil, layer.err
		}
		img.layers = append(img.layers, layer)
		img.diffIDs = append(img.diffIDs, layer.diffID)
		docs = append(docs, l.docs[at+"/"+nameRecord])
	}
	var err error
	if img.config, err = v1Config(docs, slices.Clone[[]digest.Digest](img.diffIDs)); err != nil {
		return nil, err
	}
	if _, err := parseConfig(img.config, len(img.diffIDs)); err != nil {
		return nil, asInvalid(err)
	}
	return img, nil
}
