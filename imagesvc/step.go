package imagesvc

import (
	"context"
	"io"

	"moss/engine/image"
	"moss/storage"
)

// steps keeps the images that steps of builds make. Errors have the kinds that *storage.Store gives them.
type steps interface {
	Seal(ctx context.Context, containerID string, spec storage.ImageSpec, skip []string) (*image.Image, error)
	Graft(ctx context.Context, spec storage.ImageSpec, fromImageID string, layers int) (*image.Image, error)
	Steps(ctx context.Context) ([]image.Built, error)
	Finish(ctx context.Context, imageID string, names []string) (*image.Image, error)
	View(ctx context.Context, imageID string) (*image.View, error)
}

// PutStep makes the image of a step of a build. layer is the plain archive of what the step adds, which the caller has
// checked; it is read to its end. nil: only the config differs from the parent's.
//
// It is all or nothing. Errors are fault.NotFound (no such parent), layer's, or internal.
func (s *Service) PutStep(ctx context.Context, step image.Step, layer io.Reader) (*image.Image, error) {
	return s.store.PutImage(ctx, layer, s.specOf(step), nil)
}

// SealStep makes the image of a step of a build from the writable layer of a container of the parent. The layer is moved:
// the container, which must not run, has none afterwards, and none after an error either. skip are paths in the container
// that only served to mount over them. A container that has changed nothing makes an image without a layer of its own.
//
// It is all or nothing. Errors are fault.NotFound (no such parent, no layer) or internal.
func (s *Service) SealStep(ctx context.Context, step image.Step, containerID string, skip []string) (*image.Image, error) {
	return s.store.Seal(ctx, containerID, s.specOf(step), skip)
}

// GraftStep makes the image of a step of a build that another image is known to have done: its layers are so many of the
// lowest ones of that image, as many as the parent's or one more, and those of the parent are among them. Its history is
// the parent's and the step's own.
//
// Errors are fault.NotFound (no such parent, no such image), fault.Invalid (other layers than the parent's) or internal.
func (s *Service) GraftStep(ctx context.Context, step image.Step, fromImageID string, layers int) (*image.Image, error) {
	return s.store.Graft(ctx, s.specOf(step), fromImageID, layers)
}

func (s *Service) specOf(step image.Step) storage.ImageSpec {
	return storage.ImageSpec{
		Base: step.Parent, Config: step.Config, Author: step.Author, Comment: step.Comment, CreatedBy: step.CreatedBy,
		Created: step.Created, Architecture: step.Architecture, Variant: step.Variant, OS: step.OS, Container: step.ContainerID,
		EngineVersion: s.version, ContainerConfig: step.ContainerConfig, Step: step.Key,
	}
}

// Steps returns what steps of builds have made, in no order.
func (s *Service) Steps(ctx context.Context) ([]image.Built, error) { return s.store.Steps(ctx) }

// Open gives the file system of an image. The image cannot be removed, and its layers cannot go, until the view is closed.
//
// Errors are fault.NotFound or internal.
func (s *Service) Open(ctx context.Context, imageID string) (*image.View, error) {
	img, release, err := s.holdImage(ctx, imageID, "read")
	if err != nil {
		return nil, err
	}
	view, err := s.store.View(ctx, img.ID)
	if err != nil {
		release()
		return nil, err
	}
	end := view.Release
	view.Release = func() error {
		defer release()
		return end()
	}
	return view, nil
}

// Hold keeps an image from being removed until release is called, which may be done again without effect. why completes
// "image is being …" for who wants to remove it meanwhile.
//
// Errors are those of Get.
func (s *Service) Hold(ctx context.Context, ref, why string) (release func(), err error) {
	_, release, err = s.holdImage(ctx, ref, why)
	return release, err
}

// Room reports whether so many more bytes and files fit on the disk; an error says what is missing and what to do.
func (s *Service) Room(bytes, files int64) error { return s.store.Room(bytes, files) }

// Past returns what an image's config tells of its making, oldest first.
//
// Errors are fault.NotFound or internal.
func (s *Service) Past(ctx context.Context, imageID string) ([]image.Past, error) {
	history, _, err := s.store.History(ctx, imageID)
	if err != nil {
		return nil, err
	}
	past := make([]image.Past, 0, len(history))
	for _, h := range history {
		past = append(past, image.Past{
			Created: h.Created, CreatedBy: h.CreatedBy, Author: h.Author, Comment: h.Comment, Empty: h.EmptyLayer,
		})
	}
	return past, nil
}
