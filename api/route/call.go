package route

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"moss/api/apiver"
	"moss/engine/fault"
)

// MaxBody is how many bytes a JSON body may have.
const MaxBody = 8 << 20

// Call is one request under way, with what handlers need to read it and to answer.
type Call struct {
	w      http.ResponseWriter
	r      *http.Request
	params func(name string) string
	query  url.Values
}

// Ctx is cancelled when the client hangs up, and when the server shuts down.
func (c *Call) Ctx() context.Context { return c.r.Context() }

// Version is the API version of the request.
func (c *Call) Version() apiver.Version { return apiver.FromContext(c.r.Context()) }

// Request returns the HTTP request, for answers that are more than one body.
func (c *Call) Request() *http.Request { return c.r }

// Writer returns the HTTP answer, for answers that are more than one body.
func (c *Call) Writer() http.ResponseWriter { return c.w }

// Param returns a part of the path, unescaped, without the leading slash that clients keep from container names.
func (c *Call) Param(name string) string {
	raw := c.params(name)
	value, err := url.PathUnescape(raw)
	if err != nil {
		value = raw
	}
	return strings.TrimPrefix(value, "/")
}

// Text returns a query parameter, empty when it is missing.
func (c *Call) Text(name string) string { return c.query.Get(name) }

// Texts returns all values of a query parameter.
func (c *Call) Texts(name string) []string { return c.query[name] }

// Has reports whether a query parameter is there and not empty.
func (c *Call) Has(name string) bool { return c.query.Get(name) != "" }

// Bool returns a query parameter as a boolean. Everything that does not say no is true, as clients rely on.
func (c *Call) Bool(name string) bool {
	switch strings.ToLower(strings.TrimSpace(c.query.Get(name))) {
	case "", "0", "no", "false", "none":
		return false
	default:
		return true
	}
}

// Int returns a query parameter as a number, missing when it is not there. Another text is fault.Invalid.
func (c *Call) Int(name string, missing int) (int, error) {
	text := c.query.Get(name)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fault.Invalid("invalid value for %s: got %q, want an integer", name, text)
	}
	return n, nil
}

// Filters returns the query parameter filters: a JSON map of lists, or of maps to booleans as later clients send it.
// Anything else is fault.Invalid.
func (c *Call) Filters() (map[string][]string, error) {
	return parseFilters(c.query.Get("filters"))
}

func parseFilters(text string) (map[string][]string, error) {
	if strings.TrimSpace(text) == "" {
		return map[string][]string{}, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fault.Invalid("invalid value for filters: got %s, want a JSON map of lists of strings", wrong.Value)
		}
		return nil, fault.Invalid("invalid value for filters: want a JSON map of lists of strings: %v", err)
	}
	filters := make(map[string][]string, len(fields))
	for key, raw := range fields {
		var list []string
		if json.Unmarshal(raw, &list) == nil {
			filters[key] = append(filters[key], list...)
			continue
		}
		var set map[string]bool
		if err := json.Unmarshal(raw, &set); err != nil {
			return nil, fault.Invalid("invalid value for filters: %q: want a list of strings", key)
		}
		for value, on := range set {
			if on {
				filters[key] = append(filters[key], value)
			}
		}
	}
	return filters, nil
}

// JSONBody reads a JSON body whole. It is nil when the client sent none. A body of another media type is fault.Invalid,
// and so is one longer than MaxBody.
func (c *Call) JSONBody() ([]byte, error) {
	empty := c.r.Body == nil || c.r.ContentLength == 0
	contentType := c.r.Header.Get("Content-Type")
	if empty && contentType == "" {
		return nil, nil
	}
	if mediaType, _, err := mime.ParseMediaType(contentType); err != nil || mediaType != "application/json" {
		return nil, fault.Invalid("Content-Type specified (%s) must be 'application/json'", contentType)
	}
	raw, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, MaxBody))
	if err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, fault.Invalid("the body is longer than %d bytes", tooLarge.Limit)
		}
		return nil, fault.Invalid("read the body: %v", err)
	}
	return raw, nil
}

// Bytes answers with a body of a media type. An error is the client's hang-up.
func (c *Call) Bytes(status int, contentType string, body []byte) error {
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	if c.r.Method == http.MethodHead {
		return nil
	}
	_, err := c.w.Write(body)
	return hangUp(err)
}

// JSON answers with encoded JSON.
func (c *Call) JSON(status int, body []byte) error {
	return c.Bytes(status, "application/json", append(slices.Clip(body), '\n'))
}

// NoContent answers 204, or passes an error on.
func (c *Call) NoContent(err error) error {
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// Empty answers 200 without a body, or passes an error on.
func (c *Call) Empty(err error) error {
	if err != nil {
		return err
	}
	return c.Bytes(http.StatusOK, "text/plain; charset=utf-8", nil)
}

// hangUp drops an error of writing: the client is gone, and nobody can be told.
func hangUp(error) error { return nil }
