package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// TraceProfile is the name under which Profile gives a trace of the scheduler.
const TraceProfile = "trace"

// Profile writes one of the engine's profiles to out. seconds is how long to measure, empty for the engine's own choice.
// The engine gives profiles to its own user alone, and only when its settings allow it.
func (c *Client) Profile(ctx context.Context, name, seconds string, out io.Writer) error {
	query := url.Values{}
	if seconds != "" {
		query.Set("seconds", seconds)
	}
	req := request{method: http.MethodGet, path: "/debug/pprof/" + url.PathEscape(name), query: query, bare: true}
	resp, err := c.sendRequest(ctx, req)
	if err != nil {
		return fmt.Errorf("profile %s: %w", name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = CopyBulk(out, lostReader{resp.Body, c})
	return err
}
