package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"moss/api/types"
)

// ServiceList lists the services of the swarm.
func (c *Client) ServiceList(ctx context.Context, filters map[string][]string) ([]types.Service, error) {
	query := url.Values{}
	if err := encodeFilters(query, filters); err != nil {
		return nil, err
	}
	var out []types.Service
	err := c.call(ctx, request{method: http.MethodGet, path: "/services", query: query}, &out)
	return out, err
}

// ServiceInspect returns a service's record as it came.
func (c *Client) ServiceInspect(ctx context.Context, ref string) (json.RawMessage, error) {
	path, err := servicePath(ref, "")
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = c.call(ctx, request{method: http.MethodGet, path: path}, &out)
	return out, err
}

// ServiceCreate makes a service. auth is for the image's registry, on every node; nil: the nodes show it nothing.
func (c *Client) ServiceCreate(
	ctx context.Context, spec types.ServiceSpec, auth *types.AuthConfig,
) (out types.ServiceCreated, err error) {
	err = c.call(ctx, request{method: http.MethodPost, path: "/services/create", json: spec, auth: auth}, &out)
	return out, err
}

// ServiceUpdate changes a service from a version of it. auth is as for ServiceCreate; nil: the swarm keeps what it has.
func (c *Client) ServiceUpdate(
	ctx context.Context, ref string, version types.ObjectVersion, spec types.ServiceSpec, auth *types.AuthConfig,
) error {
	path, err := servicePath(ref, "/update")
	if err != nil {
		return err
	}
	return c.call(ctx, request{method: http.MethodPost, path: path, query: versionQuery(version), json: spec, auth: auth}, nil)
}

// ServiceRemove removes a service with all its tasks.
func (c *Client) ServiceRemove(ctx context.Context, ref string) error {
	path, err := servicePath(ref, "")
	if err != nil {
		return err
	}
	return c.call(ctx, request{method: http.MethodDelete, path: path}, nil)
}

// servicePath returns the path of a verb on a service.
func servicePath(ref, verb string) (string, error) {
	if ref == "" {
		return "", errors.New("empty service name")
	}
	return "/services/" + url.PathEscape(ref) + verb, nil
}

// TaskList lists the tasks of the swarm's services.
func (c *Client) TaskList(ctx context.Context, filters map[string][]string) ([]types.Task, error) {
	query := url.Values{}
	if err := encodeFilters(query, filters); err != nil {
		return nil, err
	}
	var out []types.Task
	err := c.call(ctx, request{method: http.MethodGet, path: "/tasks", query: query}, &out)
	return out, err
}

// TaskInspect returns a task's record as it came.
func (c *Client) TaskInspect(ctx context.Context, id string) (json.RawMessage, error) {
	if id == "" {
		return nil, errors.New("empty task id")
	}
	var out json.RawMessage
	err := c.call(ctx, request{method: http.MethodGet, path: "/tasks/" + url.PathEscape(id)}, &out)
	return out, err
}
