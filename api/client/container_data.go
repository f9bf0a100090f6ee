package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// Top is the list of a container's processes (API document 1, 2.5).
type Top struct {
	Titles    []string
	Processes [][]string
}

// Change is one difference between a container's file system and its image's.
type Change struct {
	Path string
	Kind int // 0 modified, 1 added, 2 deleted
}

// ContainerTop lists a container's processes as ps with the given arguments shows them; empty arguments are -ef.
func (c *Client) ContainerTop(ctx context.Context, ref, psArgs string) (Top, error) {
	path, err := containerPath(ref, "/top")
	if err != nil {
		return Top{}, err
	}
	query := url.Values{}
	if psArgs != "" {
		query.Set("ps_args", psArgs)
	}
	var out Top
	err = c.call(ctx, request{method: http.MethodGet, path: path, query: query}, &out)
	return out, err
}

// ContainerChanges lists what differs from the image.
func (c *Client) ContainerChanges(ctx context.Context, ref string) ([]Change, error) {
	path, err := containerPath(ref, "/changes")
	if err != nil {
		return nil, err
	}
	var out []Change
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
