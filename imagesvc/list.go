package imagesvc

import (
	"context"
	"slices"
	"time"

	"moss/engine/fault"
	"moss/engine/filter"
	"moss/engine/image"
	"moss/engine/prune"
)

// List returns images, newest first (API document 2, 4.2: images/json). With a name or a reference filter an image shows
// only the names that match. Images without a name that others were built on, or that a step of a build made which no build
// ended with, come with All only.
//
// Errors are fault.Invalid (an unknown filter, a bad value), fault.NotFound (the image of before or since) or internal.
func (s *Service) List(ctx context.Context, opts image.ListOptions) ([]*image.Image, error) {
	all, err := s.store.List(ctx)
	if err != nil {
		return nil, err
	}
	f, err := s.newFilter(ctx, opts)
	if err != nil {
		return nil, err
	}
	built := map[string]bool{}
	for _, img := range all {
		if img.Parent != "" {
			built[img.Parent] = true
		}
	}
	images := make([]*image.Image, 0, len(all))
	for _, img := range all {
		keep, err := f.matchImage(img, built[img.ID] || isStep(img))
		if err != nil {
			return nil, err
		}
		if keep {
			images = append(images, img)
		}
	}
	return images, nil
}

// isStep reports whether an image belongs to the build cache alone.
func isStep(img *image.Image) bool { return img.Step != "" && !img.Result }

// listFilter picks images.
type listFilter struct {
	all           bool
	dangling      *bool
	labels        []string
	patterns      []string // an image needs a name that matches one of them
	before, since *image.Image
	until         time.Time // made before; zero: at any time
}

func (s *Service) newFilter(ctx context.Context, opts image.ListOptions) (*listFilter, error) {
	f := &listFilter{all: opts.All}
	if opts.Name != "" {
		f.patterns = append(f.patterns, opts.Name)
	}
	for key, values := range opts.Filters {
		var err error
		switch key {
		case "dangling":
			f.dangling, err = filter.Bool(key, values)
		case "label":
			f.labels = values
		case "reference":
			f.patterns = append(f.patterns, values...)
		case "before":
			f.before, err = s.findBoundImage(ctx, f.before, values, true)
		case "since":
			f.since, err = s.findBoundImage(ctx, f.since, values, false)
		case prune.Until:
			for _, value := range values {
				until, err := prune.ParseTime(value, time.Now())
				if err != nil {
					return nil, fault.Invalid("Invalid filter 'until=%s': %w", value, err)
				}
				if f.until.IsZero() || until.Before(f.until) {
					f.until = until
				}
			}
		default:
			return nil, filter.Unknown(key)
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// findBoundImage returns the oldest (or newest) of the images that a before (or since) filter names.
func (s *Service) findBoundImage(ctx context.Context, found *image.Image, refs []string, oldest bool) (*image.Image, error) {
	for _, ref := range refs {
		img, err := s.store.Get(ctx, ref)
		if err != nil {
			return nil, err
		}
		if found == nil || img.Created.Before(found.Created) == oldest {
			found = img
		}
	}
	return found, nil
}

// matchImage reports whether img is to be shown, and leaves it the names that match. built says that an image was built on it,
// or that it is a step of a build only.
func (f *listFilter) matchImage(img *image.Image, built bool) (bool, error) {
	if !f.matchTime(img.Created) || !filter.HasLabels(img.Config.Labels, f.labels) {
		return false, nil
	}
	unnamed := len(img.RepoTags) == 0 && len(img.RepoDigests) == 0
	if unnamed && built && !f.all {
		return false, nil
	}
	if f.dangling != nil && (*f.dangling && len(img.RepoTags) > 0 || !*f.dangling && unnamed) {
		return false, nil
	}
	if len(f.patterns) == 0 {
		return true, nil
	}
	var err error
	if img.RepoTags, err = f.matchingNames(img.RepoTags); err != nil {
		return false, err
	}
	if img.RepoDigests, err = f.matchingNames(img.RepoDigests); err != nil {
		return false, err
	}
	return len(img.RepoTags) > 0 || len(img.RepoDigests) > 0, nil
}

func (f *listFilter) matchTime(created time.Time) bool {
	return (f.before == nil || created.Before(f.before.Created)) && (f.since == nil || created.After(f.since.Created)) &&
		(f.until.IsZero() || created.Before(f.until))
}

func (f *listFilter) matchingNames(names []string) ([]string, error) {
	var kept []string
	for _, name := range names {
		ref, err := image.ParseRef(name)
		if err != nil {
			continue
		}
		for _, pattern := range f.patterns {
			ok, err := ref.Match(pattern)
			if err != nil {
				return nil, err
			}
			if ok && !slices.Contains(kept, name) {
				kept = append(kept, name)
			}
		}
	}
	return kept, nil
}
