package imagesvc

import (
	"context"

	"moss/engine/image"
)

// Usage returns what images take on the disk, each layer counted once. Images that only serve as parents of others have no
// entry of their own: they share all they have.
func (s *Service) Usage(ctx context.Context) (image.Usage, error) {
	images, err := s.List(ctx, image.ListOptions{})
	if err != nil {
		return image.Usage{}, err
	}
	total, shared, unique, err := s.store.Usage(ctx)
	if err != nil {
		return image.Usage{}, err
	}
	usage := image.Usage{LayersSize: total, Images: make([]image.ImageUsage, 0, len(images))}
	for _, img := range images {
		usage.Images = append(usage.Images, image.ImageUsage{
			Image: img, SharedSize: shared[img.ID], UniqueSize: unique[img.ID], Containers: len(s.usersOf(img.ID)),
		})
	}
	return usage, nil
}
