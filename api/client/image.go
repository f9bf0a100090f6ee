package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"moss/api/types"
)

// ImagesOptions select images.
type ImagesOptions struct {
	All     bool
	Name    string // only images with this name
	Digests bool
	Filters map[string][]string
}

// SearchOptions say what to look for in a registry's index.
type SearchOptions struct {
	Term    string // may begin with a registry's host
	Limit   int    // 0: as many as the engine likes
	Filters map[string][]string
	Auth    types.AuthConfig
}

// Images lists images.
func (c *Client) Images(ctx context.Context, opts ImagesOptions) ([]types.ImageSummary, error) {
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
	var out []types.ImageSummary
	err := c.call(ctx, request{method: http.MethodGet, path: "/images/json", query: query}, &out)
	return out, err
}

// ImageInspect returns an image's record as it came. An image for none of the platforms counts as missing.
func (c *Client) ImageInspect(ctx context.Context, ref string, platforms ...Platform) (json.RawMessage, error) {
	path, err := imagePath(ref, "/json")
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if err := encodePlatforms(query, "platform", platforms); err != nil {
		return nil, err
	}
	var out json.RawMessage
	err = c.call(ctx, request{method: http.MethodGet, path: path, query: query}, &out)
	return out, err
}

// ImageHistory returns the steps of an image's making, newest first. Platforms are as in ImageInspect.
func (c *Client) ImageHistory(ctx context.Context, ref string, platforms ...Platform) ([]types.ImageHistory, error) {
	path, err := imagePath(ref, "/history")
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if err := encodePlatforms(query, "platform", platforms); err != nil {
		return nil, err
	}
	var out []types.ImageHistory
	err = c.call(ctx, request{method: http.MethodGet, path: path, query: query}, &out)
	return out, err
}

// ImageTag gives an image another name. The image that had it loses it.
func (c *Client) ImageTag(ctx context.Context, ref, repo, tag string) error {
	path, err := imagePath(ref, "/tag")
	if err != nil {
		return err
	}
	// The versions up to 1.21 give a name that is taken only to those who insist.
	query := url.Values{"repo": {repo}, "tag": {tag}, "force": {"1"}}
	return c.call(ctx, request{method: http.MethodPost, path: path, query: query}, nil)
}

// ImageSearch looks for repositories in a registry's index.
func (c *Client) ImageSearch(ctx context.Context, opts SearchOptions) ([]types.SearchResult, error) {
	query := url.Values{"term": {opts.Term}}
	if opts.Limit != 0 {
		query.Set("limit", strconv.Itoa(opts.Limit))
	}
	if err := encodeFilters(query, opts.Filters); err != nil {
		return nil, err
	}
	var out []types.SearchResult
	err := c.call(ctx, request{method: http.MethodGet, path: "/images/search", query: query, auth: &opts.Auth}, &out)
	return out, err
}

// ImageRemove removes a name or an image and returns what went. Platforms are as in ImageInspect.
func (c *Client) ImageRemove(
	ctx context.Context, ref string, force, noPrune bool, platforms ...Platform,
) ([]types.ImageRemoved, error) {
	path, err := imagePath(ref, "")
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
	if err := encodePlatforms(query, "platforms", platforms); err != nil {
		return nil, err
	}
	var out []types.ImageRemoved
	err = c.call(ctx, request{method: http.MethodDelete, path: path, query: query}, &out)
	return out, err
}
