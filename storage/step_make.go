package storage

import (
	"context"
	"fmt"
	"slices"

	"moss/engine/fault"
	"moss/engine/image"
)

// Steps returns the images that steps of builds made, in no order.
//
// Errors are internal.
func (s *Store) Steps(ctx context.Context) ([]image.Built, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list steps: %w", err)
	}
	records, err := s.imageRecords()
	if err != nil {
		return nil, err
	}
	var steps []image.Built
	for i := range records {
		record := &records[i]
		key := stepKey(record)
		if key == "" {
			continue
		}
		cfg, err := s.configOf(record)
		if fault.Is(err, fault.NotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		if cfg.damaged != nil {
			continue // none is made from it
		}
		built := image.Built{ID: "sha256:" + record.ID, Key: key, Created: cfg.image.Created, Result: !isLight(record)}
		built.Parent, _ = record.Flags[parentFlag].(string)
		if n := len(cfg.history); n > 0 {
			last := cfg.history[n-1]
			built.CreatedBy = last.CreatedBy
			if layers := len(cfg.sizes); !last.EmptyLayer && layers > 0 {
				built.Size = max(cfg.sizes[layers-1], 0)
			}
		}
		steps = append(steps, built)
	}
	return steps, nil
}

// Finish makes an image that a step made one of its own, which is kept like all others, and gives it names, taking these
// from the images that had them.
//
// Errors are fault.NotFound, fault.Invalid (a bad name) or internal; nothing is changed then.
func (s *Store) Finish(ctx context.Context, imageID string, names []string) (*image.Image, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("finish image %s: %w", imageID, err)
	}
	canonical, err := canonicalNames(names)
	if err != nil {
		return nil, err
	}
	bare := bareID(imageID)
	s.images.Lock()
	defer s.images.Unlock()
	if _, err := s.soundConfig(bare); err != nil {
		return nil, err
	}
	if err := s.promoteStep(bare, canonical); err != nil {
		return nil, err
	}
	record, err := s.imageRecord(bare)
	if err != nil {
		return nil, wrapError(err, "finish image %s", imageID)
	}
	return s.assembleImage(record)
}

// Graft makes an image on top of spec.Base whose layers are so many of the lowest ones of another image: those of the base,
// and at most one more.
//
// Errors are fault.NotFound (no such base, no such image), fault.Invalid (other layers than the base's) or internal.
func (s *Store) Graft(ctx context.Context, spec ImageSpec, fromImageID string, layers int) (*image.Image, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("make image from %s: %w", fromImageID, err)
	}
	spec.ensureCreated()
	s.images.Lock()
	defer s.images.Unlock()
	from, err := s.soundConfig(bareID(fromImageID))
	if err != nil {
		return nil, err
	}
	base := &configCache{}
	if spec.Base != "" {
		if base, err = s.soundConfig(bareID(spec.Base)); err != nil {
			return nil, err
		}
	}
	own := len(base.diffIDs)
	if layers > len(from.diffIDs) || layers < own || layers > own+1 || !slices.Equal(base.diffIDs, from.diffIDs[:own]) {
		return nil, fault.Invalid("image %s does not have the layers of %s with at most one more, %d in all", fromImageID,
			spec.Base, layers)
	}
	chain, err := s.layerChain(from.topLayer)
	if err != nil || len(chain) != len(from.diffIDs) {
		return nil, fault.Internal("layers of image %s: %d are there, %d are told of: %w",
			fromImageID, len(chain), len(from.diffIDs), err)
	}
	top := ""
	if layers > 0 {
		top = chain[len(chain)-layers]
	}
	docs, err := renderDocuments(spec, base, from.diffIDs[:layers], from.sizes[:layers])
	if err != nil {
		return nil, err
	}
	return s.putDocuments(docs, spec, top, nil)
}

// putDocuments makes an image of its documents and a layer: one that only builds know, or one in the library. It is called
// with s.images held.
func (s *Store) putDocuments(docs documents, spec ImageSpec, top string, names []string) (*image.Image, error) {
	if spec.Step != "" && len(names) == 0 {
		record, err := s.putStep(docs, spec, top)
		if err != nil {
			return nil, err
		}
		return s.assembleImage(record)
	}
	flags := map[string]any{}
	if spec.Base != "" {
		flags[parentFlag] = "sha256:" + bareID(spec.Base)
	}
	if spec.Step != "" {
		flags[stepFlag] = spec.Step
	}
	record, err := s.putRecord(docs, spec.Created, flags, top, names)
	if err != nil {
		return nil, err
	}
	return s.assembleImage(record)
}
