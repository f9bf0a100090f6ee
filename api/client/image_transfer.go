package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"moss/api/types"
)

// PullOptions say what to fetch from a registry.
type PullOptions struct {
	Name     string // may hold the tag or digest itself
	Tag      string // a tag or a digest; empty: that of Name, and all tags if Name has none
	Platform string // os[/arch[/variant]]; empty: the engine's
	Auth     types.AuthConfig
}

// PushOptions say what to send to a registry.
type PushOptions struct {
	Name string // may hold the tag itself
	Tag  string // empty: that of Name, and all tags if Name has none
	Auth types.AuthConfig

	Platforms []Platform // one at most: that the image must be for
}

// Pushed is what the last message of a push carries under aux.
type Pushed struct {
	Tag    string
	Digest string // of the manifest
	Size   int64  // bytes of the manifest
}

// ImportOptions describe an image made from a root filesystem archive.
type ImportOptions struct {
	Source   string // URL that the engine fetches the archive from; empty: it is sent along
	Repo     string
	Tag      string
	Message  string
	Platform string // os[/arch[/variant]]
	Changes  []string
	Size     int64 // bytes of the archive; 0 or negative: unknown
}

// Progress is one message of a long operation, with what it carries under aux as it came.
type Progress struct {
	types.Progress

	Aux json.RawMessage `json:"aux"`
}

// ImageImport makes an image of a root filesystem archive and calls each for every progress message. archive is not read
// if opts have a source. An error of archive comes back as it is.
func (c *Client) ImageImport(ctx context.Context, opts ImportOptions, archive io.Reader, each func(Progress) error) error {
	query := url.Values{"fromSrc": {"-"}}
	setTexts(query, map[string]string{
		"fromSrc": opts.Source, "repo": opts.Repo, "tag": opts.Tag, "message": opts.Message,
		"platform": opts.Platform,
	})
	if len(opts.Changes) > 0 {
		query["changes"] = opts.Changes
	}
	req := request{method: http.MethodPost, path: "/images/create", query: query}
	if opts.Source != "" {
		return c.streamProgress(ctx, req, each)
	}
	return c.uploadArchive(ctx, req, archive, opts.Size, each)
}

// ImagePull fetches an image from its registry and calls each for every progress message.
func (c *Client) ImagePull(ctx context.Context, opts PullOptions, each func(Progress) error) error {
	query := url.Values{"fromImage": {opts.Name}, "tag": {opts.Tag}}
	if opts.Platform != "" {
		query.Set("platform", opts.Platform)
	}
	return c.streamProgress(ctx, request{method: http.MethodPost, path: "/images/create", query: query, auth: &opts.Auth}, each)
}

// ImagePush sends an image to its registry and calls each for every progress message. One of each tag's messages carries a
// Pushed under aux.
func (c *Client) ImagePush(ctx context.Context, opts PushOptions, each func(Progress) error) error {
	path, err := imagePath(opts.Name, "/push")
	if err != nil {
		return err
	}
	query := url.Values{}
	if opts.Tag != "" {
		query.Set("tag", opts.Tag)
	}
	if err := encodePlatforms(query, "platform", opts.Platforms); err != nil {
		return err
	}
	return c.streamProgress(ctx, request{method: http.MethodPost, path: path, query: query, auth: &opts.Auth}, each)
}

// ImageSave writes images as an archive. One that breaks off is an error. Platforms are as in ImageInspect, one at most.
func (c *Client) ImageSave(ctx context.Context, names []string, w io.Writer, platforms ...Platform) error {
	req := request{method: http.MethodGet, path: "/images/get", query: url.Values{"names": names}}
	if err := encodePlatforms(req.query, "platform", platforms); err != nil {
		return err
	}
	resp, err := c.sendRequest(ctx, req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = CopyBulk(w, lostReader{resp.Body, c})
	return err
}

// ImageLoad takes the images of an archive in and calls each for every message; quiet leaves only those that name an
// image. size is that of the archive in bytes, 0 or negative if it is not known. An error of archive comes back as it is.
// Platforms are as in ImageInspect, one at most.
func (c *Client) ImageLoad(
	ctx context.Context, archive io.Reader, size int64, quiet bool, each func(Progress) error, platforms ...Platform,
) error {
	query := url.Values{"quiet": {formatBool(quiet)}}
	if err := encodePlatforms(query, "platform", platforms); err != nil {
		return err
	}
	return c.uploadArchive(ctx, request{method: http.MethodPost, path: "/images/load", query: query}, archive, size, each)
}

// uploadArchive sends an archive as the body and calls each for every message of the answer.
func (c *Client) uploadArchive(ctx context.Context, req request, archive io.Reader, size int64, each func(Progress) error) error {
	if size <= 0 {
		size = -1
	}
	body := &bulk{Reader: archive}
	req.body, req.size, req.kind = body, size, archiveKind
	err := c.streamProgress(ctx, req, each)
	if failed := body.sourceErr(); failed != nil {
		return failed // the engine only saw that the stream broke
	}
	return err
}

func (c *Client) streamProgress(ctx context.Context, req request, each func(Progress) error) error {
	resp, err := c.sendRequest(ctx, req)
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
