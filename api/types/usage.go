package types

// DiskUsage is the answer to system/df, an addition of later versions that is served at all. Sizes are bytes.
type DiskUsage struct {
	LayersSize  int64 // of all layers of images, each counted once
	LayersUsed  int64 // of those of images that containers use; an addition of moss
	Images      []ImageUsage
	Containers  []*ContainerSummary
	Volumes     []VolumeUsage
	BuildCache  []BuildCache
	BuilderSize int64 `api:"1.31-1.41"` // of the build cache, without what images outside of it have too
}

// ImageUsage is one image's part of it.
type ImageUsage struct {
	ImageSummary

	SharedSize int64 // as in the list, at every version
	UniqueSize int64 // of the layers that are its own
	Containers int   // as in the list, at every version
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

// ImagesPruned is the answer to images/prune, an addition like system/df. The list is null when nothing went, as clients
// know it.
type ImagesPruned struct {
	ImagesDeleted  []ImageRemoved
	SpaceReclaimed int64
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
