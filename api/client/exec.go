package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"moss/api/types"
)

// ExecInspect is an exec instance's record.
type ExecInspect struct {
	types.ExecInspect

	// Cut tells that the engine ended while a client was attached, which may have lost the end of the output.
	Cut bool `json:"-"`
}

// ExecCreate sets up a command in a running container and returns the id of the exec instance.
func (c *Client) ExecCreate(ctx context.Context, ref string, config types.ExecCreate) (types.ExecCreated, error) {
	path, err := containerPath(ref, "/exec")
	if err != nil {
		return types.ExecCreated{}, err
	}
	var out types.ExecCreated
	err = c.call(ctx, request{method: http.MethodPost, path: path, json: config}, &out)
	return out, err
}

// ExecStart starts an exec instance and joins its streams, framed like those of ContainerAttach. tty is that of the
// ExecConfig. ctx bounds the joining only. The caller closes the stream.
func (c *Client) ExecStart(ctx context.Context, id string, tty bool) (*Stream, error) {
	path, err := execPath(id, "/start")
	if err != nil {
		return nil, err
	}
	return c.openStream(ctx, request{method: http.MethodPost, path: path, json: types.ExecStart{Tty: tty}})
}

// ExecStartDetached starts an exec instance and leaves it alone.
func (c *Client) ExecStartDetached(ctx context.Context, id string, tty bool) error {
	path, err := execPath(id, "/start")
	if err != nil {
		return err
	}
	return c.call(ctx, request{method: http.MethodPost, path: path, json: types.ExecStart{Detach: true, Tty: tty}}, nil)
}

// ExecResize sets the size of an exec instance's terminal, in characters.
func (c *Client) ExecResize(ctx context.Context, id string, height, width int) error {
	path, err := execPath(id, "/resize")
	if err != nil {
		return err
	}
	query := url.Values{"h": {strconv.Itoa(height)}, "w": {strconv.Itoa(width)}}
	return c.call(ctx, request{method: http.MethodPost, path: path, query: query}, nil)
}

// ExecInspect returns an exec instance's record. If the end of an engine has cut off the client of one that runs, it waits
// for its end, and is an *Error of status 500 when that is long in coming.
func (c *Client) ExecInspect(ctx context.Context, id string) (ExecInspect, error) {
	path, err := execPath(id, "/json")
	if err != nil {
		return ExecInspect{}, err
	}
	var out ExecInspect
	resp, err := c.sendRequest(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }()
	err = decodeResponse(resp, path, &out.ExecInspect)
	out.Cut = resp.Header.Get("X-Output-Cut") != ""
	return out, err
}

// execPath returns the path of a verb on an exec instance.
func execPath(id, verb string) (string, error) {
	if id == "" {
		return "", errors.New("empty exec id")
	}
	return "/exec/" + url.PathEscape(id) + verb, nil
}
