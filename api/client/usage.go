package client

import (
	"context"
	"net/http"
	"net/url"

	"moss/api/types"
)

// DiskUsage returns what images, containers and volumes take on the disk.
func (c *Client) DiskUsage(ctx context.Context) (types.DiskUsage, error) {
	var out types.DiskUsage
	err := c.call(ctx, request{method: http.MethodGet, path: "/system/df"}, &out)
	return out, err
}

// ImagesPrune removes images that no container uses: those without a name, or with the filter dangling=false all. Other
// filters are label, label! and until.
func (c *Client) ImagesPrune(ctx context.Context, filters map[string][]string) (types.ImagesPruned, error) {
	var out types.ImagesPruned
	err := c.postPrune(ctx, "/images/prune", filters, &out)
	return out, err
}

// ContainersPrune removes containers that do not run. Filters are label, label! and until.
func (c *Client) ContainersPrune(ctx context.Context, filters map[string][]string) (types.ContainersPruned, error) {
	var out types.ContainersPruned
	err := c.postPrune(ctx, "/containers/prune", filters, &out)
	return out, err
}

// VolumesPrune removes volumes that no container uses. Filters are label and label!.
func (c *Client) VolumesPrune(ctx context.Context, filters map[string][]string) (types.VolumesPruned, error) {
	var out types.VolumesPruned
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
