package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"moss/api/types"
)

// NodeList lists the nodes of the swarm.
func (c *Client) NodeList(ctx context.Context, filters map[string][]string) ([]types.Node, error) {
	query := url.Values{}
	if err := encodeFilters(query, filters); err != nil {
		return nil, err
	}
	var out []types.Node
	err := c.call(ctx, request{method: http.MethodGet, path: "/nodes", query: query}, &out)
	return out, err
}

// NodeInspect returns a node's record as it came.
func (c *Client) NodeInspect(ctx context.Context, ref string) (json.RawMessage, error) {
	path, err := nodePath(ref, "")
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = c.call(ctx, request{method: http.MethodGet, path: path}, &out)
	return out, err
}

// NodeUpdate changes a node from a version of it.
func (c *Client) NodeUpdate(ctx context.Context, ref string, version types.ObjectVersion, spec types.NodeSpec) error {
	path, err := nodePath(ref, "/update")
	if err != nil {
		return err
	}
	return c.call(ctx, request{method: http.MethodPost, path: path, query: versionQuery(version), json: spec}, nil)
}

// NodeRemove removes a node that is down from the swarm, by force also one that is up.
func (c *Client) NodeRemove(ctx context.Context, ref string, force bool) error {
	path, err := nodePath(ref, "")
	if err != nil {
		return err
	}
	query := url.Values{}
	if force {
		query.Set("force", "1")
	}
	return c.call(ctx, request{method: http.MethodDelete, path: path, query: query}, nil)
}

// nodePath returns the path of a verb on a node.
func nodePath(ref, verb string) (string, error) {
	if ref == "" {
		return "", errors.New("empty node name")
	}
	return "/nodes/" + url.PathEscape(ref) + verb, nil
}
