package imagesvc

import (
	"context"
	"errors"
	"io"
	"time"

	"moss/engine/dockerfile"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// Commit makes an image of what a container has changed, on top of the container's own, and gives it a name if asked; the
// image that had it loses it. open gives the changes as an archive; it is called once all of c has been checked, and
// what it gives is read to its end and closed. The new image's id and familiar name come back.
//
// It is all or nothing. Errors are fault.Invalid (a name, a change), fault.NotFound (the parent is gone), open's, or
// internal.
func (s *Service) Commit(
	ctx context.Context, c image.Commit, open func(context.Context) (io.ReadCloser, error),
) (id, name string, err error) {
	var ref image.Ref
	var names []string
	if c.Repo != "" {
		if ref, err = image.ParseRepoTag(c.Repo, c.Tag); err != nil {
			return "", "", err
		}
		if ref.Digest() != "" {
			return "", "", fault.Invalid("cannot commit to digest reference")
		}
		if err = ref.CanName(); err != nil {
			return "", "", err
		}
		names = []string{ref.Canonical()}
	} else if c.Tag != "" {
		return "", "", fault.Invalid("invalid value for tag: %q has no repo that it could be a tag of", c.Tag)
	}
	config, err := dockerfile.Apply(c.Config, c.Changes)
	if err != nil {
		return "", "", err
	}
	for field, text := range map[string]string{"comment": c.Comment, "author": c.Author} {
		if len(text) > maxComment {
			return "", "", fault.Invalid("%s has %d bytes, more than %d", field, len(text), maxComment)
		}
	}
	parent, err := s.store.Get(ctx, c.Parent)
	if err != nil {
		return "", "", err
	}
	layer, err := open(ctx)
	if err != nil {
		return "", "", err
	}
	img, err := s.store.PutImage(ctx, layer, storage.ImageSpec{
		Base: parent.ID, Config: config, Author: c.Author, Comment: c.Comment, CreatedBy: c.CreatedBy, Created: time.Now(),
		Architecture: parent.Architecture, Variant: parent.Variant, OS: parent.OS, Container: c.ContainerID,
		EngineVersion: s.version, ContainerConfig: c.ContainerConfig,
	}, names)
	if err := errors.Join(err, layer.Close()); err != nil {
		return "", "", err
	}
	if !ref.IsZero() {
		s.publishEvent("tag", img, ref.Familiar())
	}
	return img.ID, ref.Familiar(), nil
}
