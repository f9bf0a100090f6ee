package imagesvc

import (
	"context"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// ledger knows what images are called and of what they are made. Errors have the kinds that *storage.Store gives them.
type ledger interface {
	Tag(ctx context.Context, imageID, name string) error
	History(ctx context.Context, imageID string) (steps []storage.History, sizes []int64, err error)
	Usage(ctx context.Context, look func(*image.Image) (counts, stays bool)) (storage.Usage, error)
}

// Tag gives an image another name; the image that had it loses it. An empty tag is that of repo, or latest.
//
// Errors are fault.NotFound (no such image), fault.Invalid (a bad name, or one by digest) or internal.
func (s *Service) Tag(ctx context.Context, ref, repo, tag string) error {
	base, err := image.ParseRef(repo)
	if err != nil {
		return err
	}
	name, err := image.ParseRepoTag(repo, tag)
	if err != nil {
		return err
	}
	if base.Digest() != "" || name.Digest() != "" {
		return fault.Invalid("refusing to create a tag with a digest reference")
	}
	if err := name.CanName(); err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	img, err := s.store.Get(ctx, ref)
	if err != nil {
		return err
	}
	if err := s.store.Tag(ctx, img.ID, name.Canonical()); err != nil {
		return err
	}
	s.publishEvent("tag", img, name.Familiar())
	return nil
}
