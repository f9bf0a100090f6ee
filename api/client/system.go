package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"moss/api/types"
)

// EventsOptions select events (API document 3, section 6).
type EventsOptions struct {
	Since, Until string // Unix seconds, with a fraction if wanted; empty: now and for ever
	Filters      map[string][]string
	Opened       func() // called once the engine listens: nothing that happens from then on is missed; nil: nobody
}

// Ping asks whether the engine answers.
func (c *Client) Ping(ctx context.Context) error {
	return c.call(ctx, request{method: http.MethodGet, path: "/_ping", bare: true}, nil)
}

// Version returns the engine's version.
func (c *Client) Version(ctx context.Context) (types.Version, error) {
	var out types.Version
	err := c.call(ctx, request{method: http.MethodGet, path: "/version"}, &out)
	return out, err
}

// Info returns the engine's info record as it came.
func (c *Client) Info(ctx context.Context) (json.RawMessage, error) {
	var out json.RawMessage
	err := c.call(ctx, request{method: http.MethodGet, path: "/info"}, &out)
	return out, err
}

// Events calls each for every event, with the event's JSON as it came, until the stream ends, each fails or ctx ends.
func (c *Client) Events(ctx context.Context, opts EventsOptions, each func(types.Event, json.RawMessage) error) error {
	query := url.Values{}
	if opts.Since != "" {
		query.Set("since", opts.Since)
	}
	if opts.Until != "" {
		query.Set("until", opts.Until)
	}
	if err := encodeFilters(query, opts.Filters); err != nil {
		return err
	}
	resp, err := c.sendRequest(ctx, request{method: http.MethodGet, path: "/events", query: query})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if opts.Opened != nil {
		opts.Opened()
	}
	return c.decodeStream(ctx, resp.Body, func(raw json.RawMessage) error {
		var event types.Event
		if err := json.Unmarshal(raw, &event); err != nil {
			return fmt.Errorf("decode event: %w", err)
		}
		return each(event, raw)
	})
}

// decodeStream reads JSON values until the end. An error object inside the stream becomes an *Error.
func (c *Client) decodeStream(ctx context.Context, stream io.Reader, each func(json.RawMessage) error) error {
	decoder := json.NewDecoder(stream)
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return c.classifyError(err)
		}
		if err := streamError(raw); err != nil {
			return err
		}
		if err := each(raw); err != nil {
			return err
		}
	}
}

// streamError looks for the error message that a stream failing midway carries (API document 3, 7.3).
func streamError(raw json.RawMessage) error {
	var message struct {
		Error       string `json:"error"`
		ErrorDetail struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"errorDetail"`
	}
	// What is no such object is not for this function to complain about: message stays empty.
	_ = json.Unmarshal(raw, &message)
	if text := cmp.Or(message.ErrorDetail.Message, message.Error); text != "" {
		return &Error{Message: text, Code: message.ErrorDetail.Code}
	}
	return nil
}
