package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Image is one entry of the list of images (API document 1, 2.6).
type Image struct {
	ID          string `json:"Id"`
	ParentID    string `json:"ParentId"`
	RepoTags    []string
	RepoDigests []string
	Created     int64 // Unix seconds
	Size        int64 // bytes
	VirtualSize int64 // bytes
	Labels      map[string]string
}

// ImagesOptions select images.
type ImagesOptions struct {
	All     bool
	Name    string // only images with this name
	Digests bool
	Filters map[string][]string
}

// ImportOptions describe an image made from a root filesystem archive.
type ImportOptions struct {
	Repo    string
	Tag     string
	Message string
	Changes []string
	Size    int64 // bytes of the archive; 0 or negative: unknown
}

// Progress is one message of a long operation (API document 1, 2.6).
type Progress struct {
	ID       string          `json:"id"`
	Status   string          `json:"status"`
	Progress string          `json:"progress"`
	Detail   ProgressDetail  `json:"progressDetail"`
	Stream   string          `json:"stream"`
	Aux      json.RawMessage `json:"aux"`
}

// ProgressDetail counts bytes.
type ProgressDetail struct {
	Current int64 `json:"current"`
	Total   int64 `json:"total"`
}

// Removed is one step of a removal; one of its fields is set.
type Removed struct {
	Untagged string
	Deleted  string
}

// Images lists images.
func (c *Client) Images(ctx context.Context, opts ImagesOptions) ([]Image, error) {
	query := url.Values{}
	if opts.All {
		query.Set("all", "1")
	}
	if opts.Digests {
		query.Set("digests", "1")
	}
	if opts.Name != "" {
		query.Set("filter", opts.Name)
	}
	if err := encodeFilters(query, opts.Filters); err != nil {
		return nil, err
	}
	var out []Image
	err := c.call(ctx, request{method: http.MethodGet, path: "/images/json", query: query}, &out)
	return out, err
}

// ImageInspect returns an image's record as it came.
func (c *Client) ImageInspect(ctx context.Context, ref string) (json.RawMessage, error) {
	path, err := image(ref, "/json")
	if err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = c.call(ctx, request{method: http.MethodGet, path: path}, &out)
	return out, err
}

// ImageImport sends a root filesystem archive and calls each for every progress message.
func (c *Client) ImageImport(ctx context.Context, opts ImportOptions, archive io.Reader, each func(Progress) error) error {
	query := url.Values{"fromSrc": {"-"}}
	for key, value := range map[string]string{"repo": opts.Repo, "tag": opts.Tag, "message": opts.Message} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if len(opts.Changes) > 0 {
		query["changes"] = opts.Changes
	}
	size := opts.Size
	if size <= 0 {
		size = -1
	}
	return c.progress(ctx, request{
		method: http.MethodPost, path: "/images/create", query: query, body: &bulk{Reader: archive}, size: size, kind: archiveKind,
	}, each)
}

// ImagePull fetches an image from its registry and calls each for every progress message.
func (c *Client) ImagePull(ctx context.Context, name, tag string, each func(Progress) error) error {
	query := url.Values{"fromImage": {name}, "tag": {tag}}
	return c.progress(ctx, request{method: http.MethodPost, path: "/images/create", query: query}, each)
}

func (c *Client) progress(ctx context.Context, req request, each func(Progress) error) error {
	resp, err := c.send(ctx, req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return c.decodeStream(ctx, resp.Body, func(raw json.RawMessage) error {
		var message Progress
		if err := json.Unmarshal(raw, &message); err != nil {
			return fmt.Errorf("decode progress: %w", err)
		}
		return each(message)
	})
}

// ImageRemove removes a name or an image and returns what went.
func (c *Client) ImageRemove(ctx context.Context, ref string, force, noPrune bool) ([]Removed, error) {
	path, err := image(ref, "")
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if force {
		query.Set("force", "1")
	}
	if noPrune {
		query.Set("noprune", "1")
	}
	var out []Removed
	err = c.call(ctx, request{method: http.MethodDelete, path: path, query: query}, &out)
	return out, err
}
