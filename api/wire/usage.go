package wire

import (
	"moss/api/types"
	"moss/engine/image"
	"moss/engine/volume"
)

// NewDiskUsage fills the answer but for its containers.
func NewDiskUsage(images *image.Usage, volumes []volume.Usage, cache []types.BuildCache) *types.DiskUsage {
	d := &types.DiskUsage{
		LayersSize: images.LayersSize, LayersUsed: images.LayersUsed, Images: make([]types.ImageUsage, 0, len(images.Images)),
		Containers: []*types.ContainerSummary{}, Volumes: make([]types.VolumeUsage, 0, len(volumes)), BuildCache: cache,
	}
	for _, i := range images.Images {
		d.Images = append(d.Images, types.ImageUsage{
			ImageSummary: *NewImageSummary(i.Image, true), SharedSize: i.SharedSize, UniqueSize: i.UniqueSize, Containers: i.Containers,
		})
	}
	for _, v := range volumes {
		d.Volumes = append(d.Volumes, types.VolumeUsage{
			Volume: *NewVolume(v.Volume), UsageData: types.VolumeUsageData{Size: v.Size, RefCount: v.Users},
		})
	}
	return d
}

// NewImagesPruned fills the answer.
func NewImagesPruned(removed []image.Removed, reclaimed int64) *types.ImagesPruned {
	p := &types.ImagesPruned{SpaceReclaimed: reclaimed}
	for _, r := range removed {
		p.ImagesDeleted = append(p.ImagesDeleted, types.ImageRemoved(r))
	}
	return p
}
