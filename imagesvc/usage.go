package imagesvc

import (
	"context"

	"moss/engine/image"
)

// Usage returns what images take on the disk, each layer counted once. Images that only serve as parents of others have no
// entry of their own: they share all they have. What the build cache alone has does not count.
func (s *Service) Usage(ctx context.Context) (image.Usage, error) {
	images, err := s.List(ctx, image.ListOptions{})
	if err != nil {
		return image.Usage{}, err
	}
	layers, err := s.store.Usage(ctx, func(img *image.Image) (counts, stays bool) {
		used := len(s.usersOf(img.ID)) > 0
		return used || !isStep(img), used
	})
	if err != nil {
		return image.Usage{}, err
	}
	usage := image.Usage{LayersSize: layers.Total, LayersUsed: layers.Kept, Images: make([]image.ImageUsage, 0, len(images))}
	for _, img := range images {
		usage.Images = append(usage.Images, image.ImageUsage{
			Image: img, SharedSize: layers.Shared[img.ID], UniqueSize: layers.Unique[img.ID], Containers: len(s.usersOf(img.ID)),
		})
	}
	return usage, nil
}
