package imagesvc

import (
	"context"

	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/image"
)

// Finish makes an image the result of a build: it is listed like any other from now on, also without a name, and gets
// names, which the images that had them lose.
//
// Errors are fault.NotFound, fault.Invalid (a bad name, or one by digest) or internal; nothing is changed then.
func (s *Service) Finish(ctx context.Context, imageID string, names []string) error {
	canonical := make([]string, 0, len(names))
	familiar := make([]string, 0, len(names))
	for _, name := range names {
		ref, err := image.ParseRepoTag(name, "")
		if err != nil {
			return err
		}
		if ref.Digest() != "" {
			return fault.Invalid("refusing to create a tag with a digest reference")
		}
		if err := ref.CanName(); err != nil {
			return err
		}
		canonical, familiar = append(canonical, ref.Canonical()), append(familiar, ref.Familiar())
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	img, err := s.store.Finish(ctx, imageID, canonical)
	if err != nil {
		return err
	}
	s.publishEvent(event.ActionCreate, img, img.ID)
	for _, name := range familiar {
		s.publishEvent("tag", img, name)
	}
	return nil
}

// DropStep removes the image of a step, but for its parents, and returns how many bytes its layer had.
//
// Errors are fault.NotFound, fault.Conflict (it is no step's, or the result of a build, or it has a name, a user, a child,
// or is being read) or internal.
func (s *Service) DropStep(ctx context.Context, imageID string) (bytes int64, err error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	img, err := s.store.Get(ctx, imageID)
	if err != nil {
		return 0, err
	}
	if !isStep(img) {
		return 0, errCannotDelete(img, false, "it is not of the build cache alone")
	}
	sizes, err := s.layerSizes(ctx, img)
	if err != nil {
		return 0, err
	}
	r := &removal{s: s, opts: image.RemoveOptions{NoPrune: true}}
	if err = r.imageConflict(ctx, img, true, true); err == nil {
		err = r.deleteImage(ctx, img)
	}
	for _, gone := range r.done {
		bytes += sizes[gone.Deleted]
	}
	return bytes, err
}
