// Package download fetches one file from a web server: http and https alone, with bounds on redirects and silence. It knows
// nothing of what it brings.
package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"moss/engine/fault"
)

const (
	maxRedirects = 10                     // of one download
	stall        = 60 * time.Second       // the longest silence of a server
	maxURL       = 8 << 10                // bytes
	tick         = 100 * time.Millisecond // between two reports of progress
)

// Options say how a download is made.
type Options struct {
	What      string // that comes, for errors: "the archive"; empty: the file
	UserAgent string // empty: moss
	// Progress is told, now and then and at the end, how many bytes have come and how many there will be, 0 if the server does
	// not say. It may be nil.
	Progress func(current, total int64)
}

// Parse reads where a client wants something from. Without a scheme it is http, as clients expect. Only http and https are
// taken; hosts of any kind are, since the engine is the user's own. Errors are fault.Invalid and hold no password.
func Parse(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, fault.Invalid("the URL has %d bytes, more than %d", len(text), maxURL)
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fault.Invalid("invalid URL: %w", errors.Unwrap(err)) // the outer error repeats it with its password
	}
	if err := checkURL(u); err != nil {
		return nil, err
	}
	return u, nil
}

// checkURL refuses URLs that nothing is downloaded from.
func checkURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return fault.Invalid("downloads come from http:// or https://, not from %s://", u.Scheme)
	}
	if u.Hostname() == "" {
		return fault.Invalid("the URL %s has no host", u.Redacted())
	}
	return nil
}

// Body is a file on its way. It fails when the server falls silent, and tells how far it is.
type Body struct {
	URL    *url.URL    // where it was found, after all redirects
	Header http.Header // of the answer
	Size   int64       // bytes; -1: the server does not say

	body    io.ReadCloser
	ctx     context.Context //nolint:containedctx // its cause says why the body ended
	cancel  context.CancelCauseFunc
	client  *http.Client // to give up; may be nil
	watch   *time.Timer
	opt     Options
	current int64 // bytes
	told    time.Time
}

// Open asks for the file at u, which Parse made. The caller closes what it gets.
//
// Errors are fault.NotFound and fault.Forbidden as the server has it, fault.Invalid (a redirect to elsewhere) or internal;
// those of the body are internal.
func Open(ctx context.Context, u *url.URL, opt Options) (*Body, error) {
	if opt.What == "" {
		opt.What = "the file"
	}
	if opt.UserAgent == "" {
		opt.UserAgent = "moss"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, fault.Invalid("invalid URL %s: %w", u.Redacted(), err)
	}
	request.Header.Set("User-Agent", opt.UserAgent)
	client := newClient()
	response, err := client.Do(request) //nolint:bodyclose // the caller closes it
	if err != nil {
		cancel(nil)
		client.CloseIdleConnections()
		return nil, fmt.Errorf("download %s: %w", opt.What, err) // the URL in it comes without its password
	}
	b := newBody(ctx, cancel, response, u, opt)
	b.client = client
	if err := statusError(response, u, opt.What); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// newClient returns a client for one download: files are taken as they are, and proxies are those of the engine's environment.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: stall}).DialContext,
			TLSHandshakeTimeout:   stall,
			ResponseHeaderTimeout: stall,
			DisableCompression:    true,
			ForceAttemptHTTP2:     true,
		},
		CheckRedirect: func(next *http.Request, before []*http.Request) error {
			if len(before) > maxRedirects {
				return fault.Invalid("more than %d redirects", maxRedirects)
			}
			return checkURL(next.URL)
		},
	}
}

// statusError returns the error of an answer that brings no file.
func statusError(response *http.Response, u *url.URL, what string) error {
	text := fmt.Sprintf("download %s: %s answers %s", what, u.Redacted(), response.Status)
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusNotFound, http.StatusGone:
		return fault.NotFound("%s", text)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Forbidden("%s", text)
	default:
		return fault.Internal("%s", text)
	}
}

// newBody returns the body of an answer. ctx is the request's; cancel ends it.
func newBody(ctx context.Context, cancel context.CancelCauseFunc, response *http.Response, u *url.URL, opt Options) *Body {
	b := &Body{
		URL: u, Header: response.Header, Size: response.ContentLength,
		body: response.Body, ctx: ctx, cancel: cancel, opt: opt,
	}
	if response.Request != nil {
		b.URL = response.Request.URL
	}
	b.watch = time.AfterFunc(stall, func() { cancel(fault.Internal("%s sent nothing for %s", b.URL.Host, stall)) })
	b.watch.Stop() // it runs while somebody reads
	return b
}

// Read returns bytes of the file.
func (b *Body) Read(p []byte) (int, error) {
	b.watch.Reset(stall)
	n, err := b.body.Read(p)
	b.watch.Stop() // who reads may take their time
	b.current += int64(n)
	ended := errors.Is(err, io.EOF)
	if now := time.Now(); b.opt.Progress != nil && (ended || now.Sub(b.told) >= tick) {
		b.told = now
		b.opt.Progress(b.current, max(b.Size, 0))
	}
	if err == nil || ended {
		return n, err
	}
	if cause := context.Cause(b.ctx); cause != nil {
		err = cause
	}
	return n, fmt.Errorf("download %s: %w", b.opt.What, err)
}

// Close ends the download.
func (b *Body) Close() error {
	b.watch.Stop()
	b.cancel(nil)
	err := b.body.Close()
	if b.client != nil {
		b.client.CloseIdleConnections()
	}
	return err
}
