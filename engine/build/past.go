package build

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"moss/engine/image"
)

// pastSources are the images whose steps count as done: those that were made here and are below them, and those that their
// own history tells of.
type pastSources struct {
	ancestors map[string]bool
	images    []pastSource
}

// pastSource is an image with its history, the oldest first.
type pastSource struct {
	image *image.Image
	past  []image.Past
}

// isBasedOn reports whether a source was made on top of an image, and tells where its history goes on.
func (p pastSource) isBasedOn(below *image.Image, past []image.Past) (next int, ok bool) {
	if below == nil {
		return 0, len(p.past) > 0
	}
	if len(past) >= len(p.past) || len(below.Layers) > len(p.image.Layers) {
		return 0, false
	}
	if !slices.Equal(below.Layers, p.image.Layers[:len(below.Layers)]) {
		return 0, false
	}
	for i, was := range past {
		if p.past[i].CreatedBy != was.CreatedBy || !p.past[i].Created.Equal(was.Created) {
			return 0, false
		}
	}
	return len(past), true
}

// matchesStep reports whether the source is the image that a step is to make: several configs may have the same words of a
// history.
func (p pastSource) matchesStep(spec image.Step) bool {
	config := func(c image.Config) string {
		text, err := json.Marshal(c)
		if err != nil {
			return err.Error() // it came out of JSON
		}
		return string(text)
	}
	img := p.image
	return img.OS == spec.OS && img.Architecture == spec.Architecture && img.Variant == spec.Variant && img.Author == spec.Author &&
		config(img.Config) == config(spec.Config)
}

// fromPast returns the image of a step out of the history of an image that counts as done; nil if none has it. It is that
// image itself for its last step. past is the history of the image below.
func (b *build) fromPast(ctx context.Context, spec image.Step, below *image.Image) (*image.Image, error) {
	if b.sources == nil || len(b.sources.images) == 0 {
		return nil, nil
	}
	var past []image.Past
	if below != nil {
		var err error
		if past, err = b.s.opt.Images.Past(ctx, below.ID); err != nil {
			return nil, fmt.Errorf("read the history of %s: %w", below.ID, err)
		}
	}
	for _, from := range b.sources.images {
		next, ok := from.isBasedOn(below, past)
		if !ok || from.past[next].CreatedBy != spec.CreatedBy {
			continue
		}
		if next == len(from.past)-1 && from.matchesStep(spec) {
			return from.image, nil
		}
		layers := 0
		if below != nil {
			layers = len(below.Layers)
		}
		if !from.past[next].Empty {
			layers++
		}
		spec.Created = from.past[next].Created
		img, err := b.s.opt.Steps.GraftStep(ctx, spec, from.image.ID, layers)
		if err != nil {
			return nil, fmt.Errorf("take a step out of the history of %s: %w", from.image.ID, err)
		}
		return b.holdImage(ctx, img.ID)
	}
	return nil, nil
}
