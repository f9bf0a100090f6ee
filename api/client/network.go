package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"moss/api/types"
)

// NetworkList lists networks.
func (c *Client) NetworkList(ctx context.Context, filters map[string][]string) ([]types.Network, error) {
	query := url.Values{}
	if err := encodeFilters(query, filters); err != nil {
		return nil, err
	}
	var out []types.Network
	err := c.call(ctx, request{method: http.MethodGet, path: "/networks", query: query}, &out)
	return out, err
}

// NetworkInspect returns a network's record as it came.
func (c *Client) NetworkInspect(ctx context.Context, ref string) (json.RawMessage, error) {
	path, err := networkPath(ref, "")
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = c.call(ctx, request{method: http.MethodGet, path: path}, &out)
	return out, err
}

// NetworkCreate makes a network.
func (c *Client) NetworkCreate(ctx context.Context, body types.NetworkCreate) (types.NetworkCreated, error) {
	var out types.NetworkCreated
	err := c.call(ctx, request{method: http.MethodPost, path: "/networks/create", json: body}, &out)
	return out, err
}

// NetworkConnect gives a container a place in a network. A nil endpoint asks for nothing in particular.
func (c *Client) NetworkConnect(ctx context.Context, ref, container string, endpoint *types.EndpointConfig) error {
	path, err := networkPath(ref, "/connect")
	if err != nil {
		return err
	}
	body := types.NetworkConnect{Container: container, EndpointConfig: endpoint}
	return c.call(ctx, request{method: http.MethodPost, path: path, json: body}, nil)
}

// NetworkDisconnect takes a container out of a network.
func (c *Client) NetworkDisconnect(ctx context.Context, ref, container string, force bool) error {
	path, err := networkPath(ref, "/disconnect")
	if err != nil {
		return err
	}
	body := types.NetworkDisconnect{Container: container, Force: force}
	return c.call(ctx, request{method: http.MethodPost, path: path, json: body}, nil)
}

// NetworkRemove removes a network that no container is in.
func (c *Client) NetworkRemove(ctx context.Context, ref string) error {
	path, err := networkPath(ref, "")
	if err != nil {
		return err
	}
	return c.call(ctx, request{method: http.MethodDelete, path: path}, nil)
}

// NetworksPrune removes networks that no container uses. Filters are label, label! and until.
func (c *Client) NetworksPrune(ctx context.Context, filters map[string][]string) (types.NetworksPruned, error) {
	var out types.NetworksPruned
	err := c.postPrune(ctx, "/networks/prune", filters, &out)
	return out, err
}

// networkPath returns the path of a verb on a network.
func networkPath(ref, verb string) (string, error) {
	if ref == "" {
		return "", errors.New("empty network name")
	}
	return "/networks/" + url.PathEscape(ref) + verb, nil
}
