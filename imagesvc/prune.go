package imagesvc

import (
	"context"
	"strconv"
	"strings"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
)

// Prune removes images that no container uses: those without a tag, or with the filter dangling=false all of them. The
// filters label and label! ask for labels, until for images made before a time or so long ago. reclaimed are the bytes of
// the layers that went.
//
// Images that something holds back stay and are no error. What was done before an error is in the answer. Errors are
// fault.Invalid (a filter) or internal.
func (s *Service) Prune(ctx context.Context, filters map[string][]string) (removed []image.Removed, reclaimed int64, err error) {
	f, err := newPruneFilter(filters, time.Now())
	if err != nil {
		return nil, 0, err
	}
	images, err := s.List(ctx, image.ListOptions{})
	if err != nil {
		return nil, 0, err
	}
	for _, img := range images {
		if !f.takes(img) {
			continue
		}
		done, bytes, err := s.pruneOne(ctx, img.ID, f)
		removed, reclaimed = append(removed, done...), reclaimed+bytes
		if err != nil {
			return removed, reclaimed, err
		}
	}
	return removed, reclaimed, nil
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
	if !f.takes(img) || len(s.usersOf(imageID)) > 0 {
		return nil, 0, nil
	}
	sizes, err := s.layerSizes(ctx, img)
	if err != nil {
		return nil, 0, err
	}
	r := &removal{s: s}
	// Nothing uses the image: names do not hold it back, images built on it and transfers do.
	if err = r.conflict(ctx, img, true, false); err == nil {
		err = r.image(ctx, img)
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
	all       bool // with a tag too
	labels    []string
	notLabels []string
	until     time.Time
}

func newPruneFilter(filters map[string][]string, now time.Time) (*pruneFilter, error) {
	f := &pruneFilter{}
	for key, values := range filters {
		switch key {
		case "dangling":
			dangling, err := boolFilter(key, values)
			if err != nil {
				return nil, err
			}
			f.all = dangling != nil && !*dangling
		case "label":
			f.labels = values
		case "label!":
			f.notLabels = values
		case "until":
			if len(values) != 1 {
				return nil, fault.Invalid("Invalid filter 'until': want one value, got %d", len(values))
			}
			until, err := pointInTime(values[0], now)
			if err != nil {
				return nil, fault.Invalid("Invalid filter 'until=%s'", values[0])
			}
			f.until = until
		default:
			return nil, fault.Invalid("Invalid filter '%s'", key)
		}
	}
	return f, nil
}

func (f *pruneFilter) takes(img *image.Image) bool {
	if !f.all && len(img.RepoTags) > 0 || !f.until.IsZero() && img.Created.After(f.until) {
		return false
	}
	for _, want := range f.labels {
		if !hasLabel(img.Config.Labels, want) {
			return false
		}
	}
	for _, not := range f.notLabels {
		if hasLabel(img.Config.Labels, not) {
			return false
		}
	}
	return true
}

// pointInTime reads a time as clients write it in filters: Unix seconds with a fraction, a duration before now, or a date with
// as much of a time and a zone as they care for.
func pointInTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(-d), nil
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if seconds, err := strconv.ParseInt(whole, 10, 64); err == nil {
		if len(fraction) > 9 {
			return time.Time{}, fault.Invalid("more than nanoseconds in %q", text)
		}
		nanos, err := strconv.ParseUint(fraction+strings.Repeat("0", 9-len(fraction)), 10, 32)
		if err != nil {
			return time.Time{}, fault.Invalid("no time: %q", text)
		}
		return time.Unix(seconds, int64(nanos)), nil //nolint:gosec // nine digits
	}
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02T15:04",
		"2006-01-02T15Z07:00", "2006-01-02T15", "2006-01-02Z07:00", time.DateOnly,
	} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fault.Invalid("no time: %q", text)
}
