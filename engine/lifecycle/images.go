package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/tree"
)

// imageMounts shows the files of images to containers.
type imageMounts struct {
	images images
}

// findImages looks up the images that a container asks for, and keeps them from being removed until release is called: by
// then the container's record does that. One that is not there is fault.Invalid: clients take fault.NotFound for the image
// that the container is made of.
func (m *imageMounts) findImages(ctx context.Context, spec *container.Spec) (release func(), err error) {
	var holds []func()
	release = func() {
		for _, hold := range holds {
			hold()
		}
	}
	for i := range spec.Images {
		hold, err := m.findImage(ctx, &spec.Images[i])
		if err != nil {
			release()
			return nil, err
		}
		holds = append(holds, hold)
	}
	return release, nil
}

// findImage is findImages of one.
func (m *imageMounts) findImage(ctx context.Context, asked *container.ImageMount) (release func(), err error) {
	img, err := m.images.Get(ctx, asked.Source)
	if err == nil {
		asked.ImageID = img.ID
		release, err = m.images.Hold(ctx, img.ID, "mounted") // by its id: the name may have moved on
	}
	if err == nil {
		return release, nil
	}
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		return nil, fault.Invalid("Mounts: %w", noImage(asked.Source, err))
	}
	return nil, fmt.Errorf("mount image %s: %w", asked.Source, err)
}

// openImage readies an image's files, or the file or folder of them that the mount names, and returns where they are until
// release is called. What a container has mounted by then stays with it. fault.Invalid if the image or that part of it is not
// there.
func (m *imageMounts) openImage(
	ctx context.Context, mount container.ImageTerms,
) (source string, release func() error, err error) {
	view, err := m.images.Open(ctx, mount.ImageID)
	if err != nil {
		return "", nil, asInvalid(err)
	}
	if mount.Subpath == "" {
		return view.Dir, view.Close, nil
	}
	if source, err = partOf(view.Dir, mount.Subpath); err != nil {
		return "", nil, errors.Join(err, view.Close())
	}
	return source, view.Close, nil
}

// partOf resolves a path inside the files of an image, which nobody changes. Links do not lead out of it.
func partOf(dir, subpath string) (string, error) {
	part, _, err := tree.PartIn(dir, subpath)
	if err != nil {
		return "", fmt.Errorf("the image's %w", err)
	}
	defer part.Close() //nolint:errcheck // only a handle
	return os.Readlink(tree.PathOf(int(part.Fd())))
}

// mountImages turns the images of a container that starts into binds. Their views are closed by release, once its process
// has them or never will.
func (m *imageMounts) mountImages(ctx context.Context, spec *container.Spec) (release func() error, err error) {
	var opened []func() error
	release = func() error {
		errs := make([]error, 0, len(opened))
		for _, end := range opened {
			errs = append(errs, end())
		}
		return errors.Join(errs...)
	}
	for _, i := range spec.Images {
		source, end, err := m.openImage(ctx, i.ImageTerms)
		if err != nil {
			return nil, errors.Join(err, release())
		}
		opened = append(opened, end)
		spec.Binds = append(spec.Binds, container.Bind{
			Source: source, Destination: i.Destination, ReadOnly: true, Propagation: "rprivate",
		})
	}
	return release, nil
}
