package wire

import (
	"moss/api/types"
	"moss/engine/image"
	"moss/engine/volume"
)

// AddImages fills what the answer has of images.
func AddImages(d *types.DiskUsage, images *image.Usage) {
	d.LayersSize, d.LayersUsed, d.Images = images.LayersSize, images.LayersUsed, make([]types.ImageUsage, 0, len(images.Images))
	for _, i := range images.Images {
		d.Images = append(d.Images, types.ImageUsage{
			ImageSummary: *NewImageSummary(i.Image, true), SharedSize: i.SharedSize, UniqueSize: i.UniqueSize, Containers: i.Containers,
		})
	}
}

// AddVolumes fills what the answer has of volumes.
func AddVolumes(d *types.DiskUsage, volumes []volume.Usage) {
	d.Volumes = make([]types.VolumeUsage, 0, len(volumes))
	for _, v := range volumes {
		d.Volumes = append(d.Volumes, types.VolumeUsage{
			Volume: *NewVolume(v.Volume), UsageData: types.VolumeUsageData{Size: v.Size, RefCount: v.Users},
		})
	}
}

// NewImagesPruned fills the answer.
func NewImagesPruned(removed []image.Removed, reclaimed int64) *types.ImagesPruned {
	p := &types.ImagesPruned{SpaceReclaimed: reclaimed}
	for _, r := range removed {
		p.ImagesDeleted = append(p.ImagesDeleted, types.ImageRemoved(r))
	}
	return p
}
