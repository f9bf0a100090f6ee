package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"moss/api/types"
)

// ContainersOptions select containers.
type ContainersOptions struct {
	All     bool
	Size    bool
	Limit   int // newest so many; 0 or negative: no limit
	Filters map[string][]string
}

// Inspect is a container's record; Raw is all of it, as it came.
type Inspect struct {
	types.ContainerInspect

	Raw json.RawMessage `json:"-"`
}

// CreateOptions say what a container is called and made of, beside its settings.
type CreateOptions struct {
	Name     string // empty: the engine chooses one
	Platform string // os[/arch[/variant]] that the image must be for; empty: any
}

// StopOptions say how to end a container. The zero value is for its own settings.
type StopOptions struct {
	Timeout *int   // seconds until it is killed; negative: it never is
	Signal  string // by name or number
}

// RemoveOptions say how to remove a container.
type RemoveOptions struct {
	Force   bool // kill it first
	Volumes bool // and its anonymous volumes
	Link    bool // remove the link of that name instead
}

// Containers lists containers, newest first.
func (c *Client) Containers(ctx context.Context, opts ContainersOptions) ([]types.ContainerSummary, error) {
	query := url.Values{}
	if opts.All {
		query.Set("all", "1")
	}
	if opts.Size {
		query.Set("size", "1")
	}
	if opts.Limit > 0 {
		query.Set("limit", strconv.Itoa(opts.Limit))
	}
	if err := encodeFilters(query, opts.Filters); err != nil {
		return nil, err
	}
	var out []types.ContainerSummary
	err := c.call(ctx, request{method: http.MethodGet, path: "/containers/json", query: query}, &out)
	return out, err
}

// ContainerCreate creates a container.
func (c *Client) ContainerCreate(
	ctx context.Context, opts CreateOptions, body types.ContainerCreate,
) (types.ContainerCreated, error) {
	query := url.Values{}
	setTexts(query, map[string]string{"name": opts.Name, "platform": opts.Platform})
	var out types.ContainerCreated
	err := c.call(ctx, request{method: http.MethodPost, path: "/containers/create", query: query, json: body}, &out)
	return out, err
}

// ContainerInspect returns a container's record.
func (c *Client) ContainerInspect(ctx context.Context, ref string, size bool) (Inspect, error) {
	path, err := containerPath(ref, "/json")
	if err != nil {
		return Inspect{}, err
	}
	query := url.Values{}
	if size {
		query.Set("size", "1")
	}
	var out Inspect
	if err := c.call(ctx, request{method: http.MethodGet, path: path, query: query}, &out.Raw); err != nil {
		return Inspect{}, err
	}
	if err := json.Unmarshal(out.Raw, &out.ContainerInspect); err != nil {
		return Inspect{}, fmt.Errorf("decode answer of %s: %w", path, err)
	}
	return out, nil
}

// ContainerStart starts a container. One that runs already is no error.
func (c *Client) ContainerStart(ctx context.Context, ref, detachKeys string) error {
	query := url.Values{}
	if detachKeys != "" {
		query.Set("detachKeys", detachKeys)
	}
	return c.postContainerVerb(ctx, ref, "/start", query)
}

// ContainerStop ends a container. One that stands is no error.
func (c *Client) ContainerStop(ctx context.Context, ref string, opts StopOptions) error {
	return c.postContainerVerb(ctx, ref, "/stop", opts.toQuery())
}

// ContainerRestart ends a container and starts it again.
func (c *Client) ContainerRestart(ctx context.Context, ref string, opts StopOptions) error {
	return c.postContainerVerb(ctx, ref, "/restart", opts.toQuery())
}

// ContainerKill sends a signal, by name or number.
func (c *Client) ContainerKill(ctx context.Context, ref, signal string) error {
	query := url.Values{}
	if signal != "" {
		query.Set("signal", signal)
	}
	return c.postContainerVerb(ctx, ref, "/kill", query)
}

// ContainerPause stops all of a container's processes until ContainerUnpause.
func (c *Client) ContainerPause(ctx context.Context, ref string) error {
	return c.postContainerVerb(ctx, ref, "/pause", nil)
}

// ContainerUnpause lets a paused container's processes go on.
func (c *Client) ContainerUnpause(ctx context.Context, ref string) error {
	return c.postContainerVerb(ctx, ref, "/unpause", nil)
}

// ContainerRename gives a container another name.
func (c *Client) ContainerRename(ctx context.Context, ref, name string) error {
	return c.postContainerVerb(ctx, ref, "/rename", url.Values{"name": {name}})
}

// ContainerResize sets the size of a container's terminal, in characters.
func (c *Client) ContainerResize(ctx context.Context, ref string, height, width int) error {
	return c.postContainerVerb(ctx, ref, "/resize", url.Values{"h": {strconv.Itoa(height)}, "w": {strconv.Itoa(width)}})
}

// ContainerWait blocks until a container stands and returns its exit code. One that never ran answers 0 at once. A LostError says
// that the engine has ended before.
func (c *Client) ContainerWait(ctx context.Context, ref string) (int, error) {
	path, err := containerPath(ref, "/wait")
	if err != nil {
		return 0, err
	}
	var out types.ContainerWaited
	err = c.call(ctx, request{method: http.MethodPost, path: path}, &out)
	if err == nil && out.Error != nil {
		return 0, &LostError{Err: errors.New(out.Error.Message)}
	}
	return out.StatusCode, err
}

// ContainerRemove removes a container.
func (c *Client) ContainerRemove(ctx context.Context, ref string, opts RemoveOptions) error {
	path, err := containerPath(ref, "")
	if err != nil {
		return err
	}
	query := url.Values{}
	for key, on := range map[string]bool{"force": opts.Force, "v": opts.Volumes, "link": opts.Link} {
		if on {
			query.Set(key, "1")
		}
	}
	return c.call(ctx, request{method: http.MethodDelete, path: path, query: query}, nil)
}

func (c *Client) postContainerVerb(ctx context.Context, ref, verb string, query url.Values) error {
	path, err := containerPath(ref, verb)
	if err != nil {
		return err
	}
	return c.call(ctx, request{method: http.MethodPost, path: path, query: query}, nil)
}

func (o StopOptions) toQuery() url.Values {
	query := url.Values{}
	if o.Timeout != nil {
		query.Set("t", strconv.Itoa(*o.Timeout))
	}
	setTexts(query, map[string]string{"signal": o.Signal})
	return query
}
