package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"moss/api/types"
)

// ContainerTop lists a container's processes as ps with the given arguments shows them; empty arguments are -ef.
func (c *Client) ContainerTop(ctx context.Context, ref, psArgs string) (types.Top, error) {
	path, err := containerPath(ref, "/top")
	if err != nil {
		return types.Top{}, err
	}
	query := url.Values{}
	if psArgs != "" {
		query.Set("ps_args", psArgs)
	}
	var out types.Top
	err = c.call(ctx, request{method: http.MethodGet, path: path, query: query}, &out)
	return out, err
}

// ContainerChanges lists what differs from the image.
func (c *Client) ContainerChanges(ctx context.Context, ref string) ([]types.ContainerChange, error) {
	path, err := containerPath(ref, "/changes")
	if err != nil {
		return nil, err
	}
	var out []types.ContainerChange
	err = c.call(ctx, request{method: http.MethodGet, path: path}, &out)
	return out, err
}

// ContainerExport opens a tar stream of a container's file system. The caller closes it.
func (c *Client) ContainerExport(ctx context.Context, ref string) (io.ReadCloser, error) {
	path, err := containerPath(ref, "/export")
	if err != nil {
		return nil, err
	}
	resp, err := c.sendRequest(ctx, request{method: http.MethodGet, path: path}) //nolint:bodyclose // it is what is returned
	if err != nil {
		return nil, err
	}
	return lostReader{resp.Body, c}, nil
}
