package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
)

// Volume is a volume (API document 1, 2.8).
type Volume struct {
	Name       string
	Driver     string
	Mountpoint string
	Labels     map[string]string
	Scope      string
}

// VolumeCreate describes a volume to make. An empty name lets the engine choose one.
type VolumeCreate struct {
	Name       string            `json:",omitempty"`
	Driver     string            `json:",omitempty"` // empty: local
	DriverOpts map[string]string `json:",omitempty"`
	Labels     map[string]string `json:",omitempty"`
}

// Volumes lists volumes and returns the engine's warnings with them.
func (c *Client) Volumes(ctx context.Context, filters map[string][]string) ([]Volume, []string, error) {
	query := url.Values{}
	if err := encodeFilters(query, filters); err != nil {
		return nil, nil, err
	}
	var out struct {
		Volumes  []Volume
		Warnings []string
	}
	err := c.call(ctx, request{method: http.MethodGet, path: "/volumes", query: query}, &out)
	return out.Volumes, out.Warnings, err
}

// VolumeCreate makes a volume. One of that name and driver is no error.
func (c *Client) VolumeCreate(ctx context.Context, body VolumeCreate) (Volume, error) {
	var out Volume
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

// VolumeRemove removes a volume that no container uses.
func (c *Client) VolumeRemove(ctx context.Context, name string) error {
	path, err := volumePath(name)
	if err != nil {
		return err
	}
	return c.call(ctx, request{method: http.MethodDelete, path: path}, nil)
}

func volumePath(name string) (string, error) {
	if name == "" {
		return "", errors.New("empty volume name")
	}
	return "/volumes/" + url.PathEscape(name), nil
}
