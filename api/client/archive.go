package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"moss/api/types"
)

// archiveKind is the Content-Type of a tar stream.
const archiveKind = "application/x-tar"

// PutOptions say how an archive is unpacked in a container.
type PutOptions struct {
	// NoOverwriteDirNonDir refuses to replace a folder by something else or the reverse.
	NoOverwriteDirNonDir bool
}

// ContainerStatPath returns what a path in a container is, without following it if it is a symbolic link.
func (c *Client) ContainerStatPath(ctx context.Context, ref, path string) (types.PathStat, error) {
	resp, err := c.requestArchive(ctx, request{method: http.MethodHead}, ref, path)
	if err != nil {
		return types.PathStat{}, err
	}
	_ = resp.Body.Close()
	return readPathStat(resp.Header)
}

// ContainerCopyFrom opens a tar stream of a path in a container. The caller closes it.
func (c *Client) ContainerCopyFrom(ctx context.Context, ref, path string) (io.ReadCloser, types.PathStat, error) {
	resp, err := c.requestArchive(ctx, request{method: http.MethodGet}, ref, path)
	if err != nil {
		return nil, types.PathStat{}, err
	}
	stat, err := readPathStat(resp.Header)
	if err != nil {
		_ = resp.Body.Close()
		return nil, types.PathStat{}, err
	}
	return lostReader{resp.Body, c}, stat, nil
}

// ContainerCopyTo unpacks a tar stream in a folder of a container. An error of the stream itself comes back as it is.
func (c *Client) ContainerCopyTo(ctx context.Context, ref, path string, archive io.Reader, opts PutOptions) error {
	query := url.Values{}
	if opts.NoOverwriteDirNonDir {
		query.Set("noOverwriteDirNonDir", "true")
	}
	body := &bulk{Reader: archive}
	resp, err := c.requestArchive(ctx, request{
		method: http.MethodPut, query: query, body: body, size: -1, kind: archiveKind,
	}, ref, path)
	if failed := body.sourceErr(); failed != nil {
		err = failed // the engine only saw that the stream broke
	}
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("read answer of %s: %w", path, err)
	}
	return nil
}

func (c *Client) requestArchive(ctx context.Context, req request, ref, path string) (*http.Response, error) {
	target, err := containerPath(ref, "/archive")
	if err != nil {
		return nil, err
	}
	req.path = target
	if req.query == nil {
		req.query = url.Values{}
	}
	req.query.Set("path", path)
	return c.sendRequest(ctx, req)
}

// readPathStat reads the header in either of its names.
func readPathStat(header http.Header) (types.PathStat, error) {
	text := header.Get("X-Engine-Container-Path-Stat")
	if text == "" {
		text = header.Get("X-Docker-Container-Path-Stat")
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return types.PathStat{}, fmt.Errorf("decode the path's stat: %w", err)
	}
	var stat types.PathStat
	if err := json.Unmarshal(raw, &stat); err != nil {
		return types.PathStat{}, fmt.Errorf("decode the path's stat: %w", err)
	}
	return stat, nil
}
