package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"moss/api/types"
)

// Volumes lists volumes and returns the engine's warnings with them.
func (c *Client) Volumes(ctx context.Context, filters map[string][]string) ([]*types.Volume, []string, error) {
	query := url.Values{}
	if err := encodeFilters(query, filters); err != nil {
		return nil, nil, err
	}
	var out types.VolumeList
	err := c.call(ctx, request{method: http.MethodGet, path: "/volumes", query: query}, &out)
	return out.Volumes, out.Warnings, err
}

// VolumeCreate makes a volume. One of that name and driver is no error.
func (c *Client) VolumeCreate(ctx context.Context, body types.VolumeCreate) (types.Volume, error) {
	var out types.Volume
	err := c.call(ctx, request{method: http.MethodPost, path: "/volumes/create", json: body}, &out)
	return out, err
}

// VolumeInspect returns a volume's record as it came.
func (c *Client) VolumeInspect(ctx context.Context, name string) (json.RawMessage, error) {
	path, err := volumePath(name)
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = c.call(ctx, request{method: http.MethodGet, path: path}, &out)
	return out, err
}

// VolumeRemove removes a volume that no container uses. With force a missing one is no error.
func (c *Client) VolumeRemove(ctx context.Context, name string, force bool) error {
	path, err := volumePath(name)
	if err != nil {
		return err
	}
	query := url.Values{}
	if force {
		query.Set("force", "1")
	}
	return c.call(ctx, request{method: http.MethodDelete, path: path, query: query}, nil)
}

func volumePath(name string) (string, error) {
	if name == "" {
		return "", errors.New("empty volume name")
	}
	return "/volumes/" + url.PathEscape(name), nil
}
