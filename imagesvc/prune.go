package imagesvc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"moss/engine/fault"
	"moss/engine/filter"
	"moss/engine/image"
	"moss/engine/prune"
)

// Prune removes images that no container uses: those without a tag, or with the filter dangling=false all of them. The
// filters label and label! ask for labels, until for images made before a time or so long ago. reclaimed are the bytes of
// the layers that went.
//
// Images that something holds back stay and are no error. One that cannot be removed holds no other back: the error names it, and
// what went is in the answer beside it. Errors are fault.Invalid (a filter) or internal.
func (s *Service) Prune(ctx context.Context, filters map[string][]string) (removed []image.Removed, reclaimed int64, err error) {
	f, err := newPruneFilter(filters, time.Now())
	if err != nil {
		return nil, 0, err
	}
	images, err := s.List(ctx, image.ListOptions{})
	if err != nil {
		return nil, 0, err
	}
	var failed []error
	for _, img := range images {
		if !f.matchesImage(img) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return removed, reclaimed, errors.Join(append(failed, err)...)
		}
		done, bytes, err := s.pruneOne(ctx, img.ID, f)
		removed, reclaimed = append(removed, done...), reclaimed+bytes
		if err != nil {
			failed = append(failed, fmt.Errorf("image %s: %w", img.ID, err))
		}
	}
	return removed, reclaimed, errors.Join(failed...)
}

// pruneOne removes an image, unless that has gone, got a name or found a user since it was listed.
func (s *Service) pruneOne(ctx context.Context, imageID string, f *pruneFilter) ([]image.Removed, int64, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	img, err := s.store.Get(ctx, imageID)
	if fault.Is(err, fault.NotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if !f.matchesImage(img) || len(s.usersOf(imageID)) > 0 {
		return nil, 0, nil
	}
	sizes, err := s.layerSizes(ctx, img)
	if err != nil {
		return nil, 0, err
	}
	r := &removal{s: s}
	// Nothing uses the image: names do not hold it back, images built on it and transfers do.
	if err = r.imageConflict(ctx, img, true, false); err == nil {
		err = r.deleteImage(ctx, img)
	}
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
		err = nil
	}
	var bytes int64
	for _, step := range r.done {
		bytes += sizes[step.Deleted]
	}
	return r.done, bytes, err
}

// layerSizes returns the bytes of an image's layers by their chain ids. Its parents have no other ones.
func (s *Service) layerSizes(ctx context.Context, img *image.Image) (map[string]int64, error) {
	layers, err := s.store.Layers(ctx, img.ID)
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int64, len(layers))
	for _, layer := range layers {
		sizes[layer.ChainID.String()] = max(layer.Size, 0)
	}
	return sizes, nil
}

// pruneFilter picks what may go.
type pruneFilter struct {
	all    bool // with a tag too
	filter *prune.Filter
}

func newPruneFilter(filters map[string][]string, now time.Time) (*pruneFilter, error) {
	const dangling = "dangling"
	only, err := filter.Bool(dangling, filters[dangling])
	if err != nil {
		return nil, err
	}
	others := maps.Clone(filters)
	delete(others, dangling)
	f, err := prune.New(others, now, prune.Label, prune.NotLabel, prune.Until)
	if err != nil {
		return nil, err
	}
	return &pruneFilter{all: only != nil && !*only, filter: f}, nil
}

func (f *pruneFilter) matchesImage(img *image.Image) bool {
	return (f.all || len(img.RepoTags) == 0) && f.filter.Takes(img.Config.Labels, img.Created)
}
