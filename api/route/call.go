package route

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"moss/api/apiver"
	"moss/api/compat"
	"moss/engine/fault"
)

// Refuses makes 400 the status of what is invalid from here on, at every version: for refusals by which clients know what to
// do, and for errors that are not of the request.
func (c *Call) Refuses() { c.x.no400 = false }

// MaxBody is how many bytes a JSON body may have.
const MaxBody = 8 << 20

// Call is one request under way, with what handlers need to read it and to answer.
type Call struct {
	w      http.ResponseWriter
	r      *http.Request
	x      *exchange
	params func(name string) string // the parts of the path
	query  url.Values

	declared []Param // what the route says that it reads
}

// Ctx is cancelled when the client hangs up, and when the server shuts down. Its logger names the request.
func (c *Call) Ctx() context.Context { return c.x.scopedRequest().Context() }

// Reason returns why the server has ended the request if err says that Ctx was cancelled for that, and any other error as it is.
func (c *Call) Reason(err error) error { return c.x.causeOf(err) }

// Log returns a logger that names the request.
func (c *Call) Log() *zerolog.Logger { return zerolog.Ctx(c.Ctx()) }

// Version is the API version of the request.
func (c *Call) Version() apiver.Version { return c.x.version }

// Served are the API versions that the engine serves.
func (c *Call) Served() apiver.Range { return c.x.served }

// Request returns the HTTP request, for answers that are more than one body.
func (c *Call) Request() *http.Request { return c.x.scopedRequest() }

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

// Text returns a query parameter, empty when it is missing. As with all that read parameters, one that the route has in
// other versions only is missing, whatever the client sent.
func (c *Call) Text(name string) string {
	if values := c.queryValues(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Texts returns all values of a query parameter.
func (c *Call) Texts(name string) []string { return c.queryValues(name) }

// Has reports whether a query parameter is there and not empty.
func (c *Call) Has(name string) bool { return c.Text(name) != "" }

// Bool returns a query parameter as a boolean. Everything that does not say no is true, as clients rely on.
func (c *Call) Bool(name string) bool {
	return compat.Yes(c.Text(name))
}

// Int returns a query parameter as a number, missing when it is not there. Another text is fault.Invalid.
func (c *Call) Int(name string, missing int) (int, error) {
	text := c.Text(name)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fault.Invalid("invalid value for %s: got %q, want an integer", name, text)
	}
	return n, nil
}

// filtersName is the one parameter that holds filters.
const filtersName = "filters"

// Filters returns the query parameter filters: a JSON map of lists, or of maps to booleans as later clients send it.
// Anything else is fault.Invalid, and so is a filter that the route has in other versions only.
func (c *Call) Filters() (map[string][]string, error) {
	filters, err := compat.Filters(c.Text(filtersName))
	if err != nil {
		return nil, err
	}
	if p := findParam(c.declared, filtersName, false); p != nil {
		err = p.refuseLate(filters, c.Version())
	}
	return filters, err
}

// Header returns a header of the request, empty when it is missing or the route has it in other versions only.
func (c *Call) Header(name string) string {
	if p := findParam(c.declared, name, true); p != nil && !p.Versions.Has(c.Version()) {
		return ""
	}
	return c.r.Header.Get(name)
}

// queryValues returns the values of a query parameter. One that the route does not declare is a mistake that the tests of
// package handler find; it is read as it came.
func (c *Call) queryValues(name string) []string {
	if p := findParam(c.declared, name, false); p != nil && !p.Versions.Has(c.Version()) {
		return nil
	}
	return c.query[name]
}

// JSONBody reads a JSON body whole. It is nil when the client sent none. A body of another media type is fault.Invalid,
// and so is one longer than MaxBody.
func (c *Call) JSONBody() ([]byte, error) {
	empty := c.r.Body == nil || c.r.ContentLength == 0
	contentType := c.r.Header.Get("Content-Type")
	if empty && contentType == "" {
		return nil, nil
	}
	if mediaType, _, err := mime.ParseMediaType(contentType); err != nil || mediaType != compat.JSON {
		return nil, fault.Invalid("Content-Type specified (%s) must be '"+compat.JSON+"'", contentType)
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

// keptBack is how many bytes of a body the HTTP server holds back at least before it has to say how long it is.
const keptBack = 1024

// Bytes answers with a body of a media type. An error is the client's hang-up.
func (c *Call) Bytes(status int, contentType string, body []byte) error {
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	if len(body) > keptBack || c.r.Method == http.MethodHead { // of a shorter one the HTTP server tells the length itself
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	c.w.WriteHeader(status)
	if c.r.Method == http.MethodHead {
		return nil
	}
	_, err := c.w.Write(body)
	return hangUp(err)
}

// JSON answers with encoded JSON, which nobody else may use.
func (c *Call) JSON(status int, body []byte) error {
	return c.Bytes(status, compat.JSON, append(body, '\n'))
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
	return c.Bytes(http.StatusOK, compat.Text, nil)
}

// hangUp drops an error of writing: the client is gone, and nobody can be told.
func hangUp(error) error { return nil }
