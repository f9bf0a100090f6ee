package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"moss/api/types"
)

// ContainerStats calls each for every sample until the stream ends, each fails or ctx ends. Without stream there is one.
func (c *Client) ContainerStats(ctx context.Context, ref string, stream bool, each func(types.Stats) error) error {
	path, err := containerPath(ref, "/stats")
	if err != nil {
		return err
	}
	query := url.Values{"stream": {formatBool(stream)}}
	resp, err := c.sendRequest(ctx, request{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return c.decodeStream(ctx, resp.Body, func(raw json.RawMessage) error {
		var sample types.Stats
		if err := json.Unmarshal(raw, &sample); err != nil {
			return fmt.Errorf("decode stats: %w", err)
		}
		return each(sample)
	})
}
