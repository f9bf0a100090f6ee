package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// DiskUsage is what the engine's things take on the disk, in bytes. A layer that several images share is counted once in
// LayersSize.
type DiskUsage struct {
	LayersSize int64
	LayersUsed int64 // of images that containers use
	Images     []ImageUsage
	Containers []Container // with their sizes
	Volumes    []VolumeUsage
	BuildCache []BuildCache
}

// BuildCache is one piece of what builds have left for later ones.
type BuildCache struct {
	ID          string
	Parent      string
	Type        string // regular, or exec.cachemount
	Description string
	InUse       bool
	Shared      bool  // an image outside of the cache has it too
	Size        int64 // bytes
	CreatedAt   time.Time
	LastUsedAt  *time.Time // nil: not since the engine started
	UsageCount  int
}

// ImageUsage is one image's part of it.
type ImageUsage struct {
	Image

	SharedSize int64 // bytes of its layers that other images have as well
	UniqueSize int64 // bytes of those that are its own
	Containers int   // that use it
}

// VolumeUsage is one volume's part of it.
type VolumeUsage struct {
	Volume

	UsageData struct {
		Size     int64 // bytes
		RefCount int   // containers that use it
	}
}

// ImagesPruned is what went with a prune of images.
type ImagesPruned struct {
	ImagesDeleted  []Removed
	SpaceReclaimed int64 // bytes
}

// ContainersPruned is what went with a prune of containers.
type ContainersPruned struct {
	ContainersDeleted []string
	SpaceReclaimed    int64 // bytes
}

// VolumesPruned is what went with a prune of volumes.
type VolumesPruned struct {
	VolumesDeleted []string
	SpaceReclaimed int64 // bytes
}

// DiskUsage returns what images, containers and volumes take on the disk.
func (c *Client) DiskUsage(ctx context.Context) (DiskUsage, error) {
	var out DiskUsage
	err := c.call(ctx, request{method: http.MethodGet, path: "/system/df"}, &out)
	return out, err
}

// ImagesPrune removes images that no container uses: those without a name, or with the filter dangling=false all. Other
// filters are label, label! and until.
func (c *Client) ImagesPrune(ctx context.Context, filters map[string][]string) (ImagesPruned, error) {
	var out ImagesPruned
	err := c.postPrune(ctx, "/images/prune", filters, &out)
	return out, err
}

// ContainersPrune removes containers that do not run. Filters are label, label! and until.
func (c *Client) ContainersPrune(ctx context.Context, filters map[string][]string) (ContainersPruned, error) {
	var out ContainersPruned
	err := c.postPrune(ctx, "/containers/prune", filters, &out)
	return out, err
}

// VolumesPrune removes volumes that no container uses. Filters are label and label!.
func (c *Client) VolumesPrune(ctx context.Context, filters map[string][]string) (VolumesPruned, error) {
	var out VolumesPruned
	err := c.postPrune(ctx, "/volumes/prune", filters, &out)
	return out, err
}

func (c *Client) postPrune(ctx context.Context, path string, filters map[string][]string, out any) error {
	query := url.Values{}
	if err := encodeFilters(query, filters); err != nil {
		return err
	}
	return c.call(ctx, request{method: http.MethodPost, path: path, query: query}, out)
}
