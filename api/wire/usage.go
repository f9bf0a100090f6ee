package wire

import (
	"moss/engine/image"
	"moss/engine/volume"
)

// DiskUsage is the answer to system/df, an addition of later versions that is served at all. Sizes are bytes.
type DiskUsage struct {
	LayersSize int64 // of all layers of images, each counted once
	LayersUsed int64 // of those of images that containers use; an addition of moss
	Images     []ImageUsage
	Containers []*ContainerSummary
	Volumes    []VolumeUsage
	BuildCache []BuildCache
}

// ImageUsage is one image's part of it.
type ImageUsage struct {
	ImageSummary

	SharedSize int64 // of its layers that other images have as well
	UniqueSize int64 // of those that are its own
	Containers int   // that use it
}

// VolumeUsage is one volume's part of it.
type VolumeUsage struct {
	Volume

	UsageData VolumeUsageData
}

// VolumeUsageData says how big a volume is and how many containers use it.
type VolumeUsageData struct {
	Size     int64
	RefCount int
}

// NewDiskUsage fills the answer but for its containers.
func NewDiskUsage(images *image.Usage, volumes []volume.Usage, cache []BuildCache) *DiskUsage {
	d := &DiskUsage{
		LayersSize: images.LayersSize, LayersUsed: images.LayersUsed, Images: make([]ImageUsage, 0, len(images.Images)),
		Containers: []*ContainerSummary{}, Volumes: make([]VolumeUsage, 0, len(volumes)), BuildCache: cache,
	}
	for _, i := range images.Images {
		d.Images = append(d.Images, ImageUsage{
			ImageSummary: *NewImageSummary(i.Image, true), SharedSize: i.SharedSize, UniqueSize: i.UniqueSize, Containers: i.Containers,
		})
	}
	for _, v := range volumes {
		d.Volumes = append(d.Volumes, VolumeUsage{
			Volume: *NewVolume(v.Volume), UsageData: VolumeUsageData{Size: v.Size, RefCount: v.Users},
		})
	}
	return d
}

// ImagesPruned is the answer to images/prune, an addition like system/df. The list is null when nothing went, as clients
// know it.
type ImagesPruned struct {
	ImagesDeleted  []ImageRemoved
	SpaceReclaimed int64
}

// NewImagesPruned fills the answer.
func NewImagesPruned(removed []image.Removed, reclaimed int64) *ImagesPruned {
	p := &ImagesPruned{SpaceReclaimed: reclaimed}
	for _, r := range removed {
		p.ImagesDeleted = append(p.ImagesDeleted, ImageRemoved(r))
	}
	return p
}

// ContainersPruned is the answer to containers/prune.
type ContainersPruned struct {
	ContainersDeleted []string
	SpaceReclaimed    int64
}

// VolumesPruned is the answer to volumes/prune.
type VolumesPruned struct {
	VolumesDeleted []string
	SpaceReclaimed int64
}
