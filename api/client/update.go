package client

import (
	"context"
	"net/http"
	"net/url"

	"moss/api/types"
)

// Commit says what image a container becomes.
type Commit struct {
	Repo, Tag       string // both may be empty
	Comment, Author string
	Changes         []string // build instructions
	Pause           bool     // while the file system is read
}

// ContainerUpdate changes a container's limits and returns the engine's warnings.
func (c *Client) ContainerUpdate(ctx context.Context, ref string, body types.ContainerUpdate) ([]string, error) {
	path, err := containerPath(ref, "/update")
	if err != nil {
		return nil, err
	}
	var out types.ContainerUpdated
	err = c.call(ctx, request{method: http.MethodPost, path: path, json: body}, &out)
	return out.Warnings, err
}

// ContainerCommit makes an image of a container and returns its id.
func (c *Client) ContainerCommit(ctx context.Context, ref string, opts Commit) (string, error) {
	query := url.Values{"container": {ref}, "pause": {formatBool(opts.Pause)}}
	setTexts(query, map[string]string{
		"repo": opts.Repo, "tag": opts.Tag, "comment": opts.Comment, "author": opts.Author,
	})
	if len(opts.Changes) > 0 {
		query["changes"] = opts.Changes
	}
	var out types.ImageCommitted
	err := c.call(ctx, request{method: http.MethodPost, path: "/commit", query: query}, &out)
	return out.ID, err
}
