package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"moss/api/types"
)

// DefaultVersion is the API version a client speaks when Options name none.
const DefaultVersion = "1.51"

// ioBuffer is the size of the buffers on connections that carry streams: attach, logs and import move 100 MB and more.
const ioBuffer = 128 << 10

// Dialer opens one connection to the engine. network is unix or tcp, address the socket's path or host:port.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Options say where the engine is and how to speak to it.
type Options struct {
	Host      string // unix:///path or tcp://host:port; a bare path counts as unix
	Version   string // of the API, such as 1.51; empty: DefaultVersion
	UserAgent string // empty: moss
	Dial      Dialer // empty: a plain net.Dialer
	// TLS is spoken on connections over TCP; nil: none. LoadTLS makes it of files.
	TLS *tls.Config
}

// Client calls one engine. It is safe for concurrent use. Whoever made it closes it.
type Client struct {
	host    Host
	version string
	agent   string
	dial    Dialer
	tls     *tls.Config // nil: none
	http    *http.Client
}

// New returns a client. It opens no connection: an engine that does not answer shows at the first call.
func New(opts Options) (*Client, error) {
	host, err := ParseHost(opts.Host)
	if err != nil {
		return nil, err
	}
	c := &Client{host: host, version: opts.Version, agent: opts.UserAgent, dial: opts.Dial}
	if host.Network == "tcp" {
		c.tls = opts.TLS
	}
	if c.version == "" {
		c.version = DefaultVersion
	}
	if c.agent == "" {
		c.agent = "moss"
	}
	if c.dial == nil {
		c.dial = (&net.Dialer{}).DialContext
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dialEngine(ctx) },
			DisableCompression:  true,
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     30 * time.Second,
			WriteBufferSize:     ioBuffer,
			ReadBufferSize:      32 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Close ends the idle connections. Streams in use go on until their owner closes them.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Host returns where the client's engine is.
func (c *Client) Host() Host { return c.host }

// APIVersion returns the version of the API that the client speaks.
func (c *Client) APIVersion() string { return c.version }

func (c *Client) dialEngine(ctx context.Context) (net.Conn, error) {
	conn, err := c.dial(ctx, c.host.Network, c.host.Address)
	if err == nil && c.tls != nil {
		conn, err = c.handshakeTLS(ctx, conn)
	}
	if err != nil {
		return nil, &ConnectError{Host: c.host, Err: err}
	}
	return conn, nil
}

// request is one call. Only method and path are needed.
type request struct {
	method string
	path   string // without the version prefix; what came from outside is escaped already
	query  url.Values
	json   any               // sent as the body when not nil
	body   io.Reader         // sent as the body when json is nil
	size   int64             // of body; negative: unknown
	kind   string            // Content-Type of body
	bare   bool              // no version prefix
	auth   *types.AuthConfig // sent as X-Registry-Auth when not nil
	header http.Header       // further ones
}

func (c *Client) targetOf(req request) string {
	target := req.path
	if !req.bare {
		target = "/v" + c.version + target
	}
	if len(req.query) > 0 {
		target += "?" + req.query.Encode()
	}
	return target
}

// encodeJSON returns a request's JSON body, empty without one.
func (r request) encodeJSON() ([]byte, error) {
	if r.json == nil {
		return nil, nil
	}
	raw, err := json.Marshal(r.json)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return raw, nil
}

// sendRequest makes a call and returns its response, whose body the caller closes. A status of 400 and above is an *Error.
func (c *Client) sendRequest(ctx context.Context, req request) (*http.Response, error) {
	body := req.body
	if req.json != nil {
		raw, err := req.encodeJSON()
		if err != nil {
			return nil, err
		}
		body, req.kind, req.size = bytes.NewReader(raw), "application/json", int64(len(raw))
	}
	hr, err := http.NewRequestWithContext(ctx, req.method, "http://"+c.host.hostHeader()+c.targetOf(req), body)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	if body != nil {
		hr.ContentLength = req.size
		hr.Header.Set("Content-Type", req.kind)
	}
	hr.Header.Set("User-Agent", c.agent)
	maps.Copy(hr.Header, req.header)
	if req.auth != nil {
		value, err := encodeAuth(*req.auth)
		if err != nil {
			return nil, err
		}
		hr.Header.Set("X-Registry-Auth", value)
	}
	resp, err := c.http.Do(hr)
	if err != nil {
		return nil, c.classifyError(err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices && resp.StatusCode != http.StatusNotModified {
		defer func() { _ = resp.Body.Close() }()
		return nil, readError(resp)
	}
	return resp, nil
}

// call makes a call and decodes its answer into out, unless out is nil.
func (c *Client) call(ctx context.Context, req request, out any) error {
	resp, err := c.sendRequest(ctx, req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		if err != nil {
			return fmt.Errorf("read answer of %s: %w", req.path, err)
		}
		return nil
	}
	return decodeResponse(resp, req.path, out)
}

// decodeResponse reads an answer to its end. One that ends early is a *LostError.
func decodeResponse(resp *http.Response, path string, out any) error {
	if err := json.NewDecoder(resp.Body).Decode(out); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &LostError{Err: err}
	} else if err != nil {
		return fmt.Errorf("decode answer of %s: %w", path, err)
	}
	// What is left is the end of the last chunk; reading it lets the connection be used again.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10))
	return nil
}

// classifyError drops the made-up URL that net/http puts in front of its errors.
func (c *Client) classifyError(err error) error {
	if connect, ok := errors.AsType[*ConnectError](err); ok {
		return connect
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &LostError{Err: err}
}

// containerPath returns the path of a verb on a container.
func containerPath(ref, verb string) (string, error) {
	ref = strings.TrimPrefix(ref, "/")
	if ref == "" {
		return "", errors.New("empty container name")
	}
	return "/containers/" + url.PathEscape(ref) + verb, nil
}

// imagePath returns the path of a verb on an image. Slashes of the name stay as they are.
func imagePath(ref, verb string) (string, error) {
	if strings.Trim(ref, "/") == "" {
		return "", errors.New("empty image name")
	}
	parts := strings.Split(ref, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return "/images/" + strings.Join(parts, "/") + verb, nil
}

// setTexts sets the parameters that are not empty.
func setTexts(query url.Values, texts map[string]string) {
	for key, value := range texts {
		if value != "" {
			query.Set(key, value)
		}
	}
}

func formatBool(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// encodeFilters writes filters as the documents ask: a JSON map of lists (document 1, 2.0).
func encodeFilters(query url.Values, filters map[string][]string) error {
	if len(filters) == 0 {
		return nil
	}
	raw, err := json.Marshal(filters)
	if err != nil {
		return fmt.Errorf("encode filters: %w", err)
	}
	query.Set("filters", string(raw))
	return nil
}
