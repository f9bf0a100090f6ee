package imagesvc

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
	"moss/engine/image"
)

const (
	maxRedirects = 10               // of one download
	stall        = 60 * time.Second // the longest silence of a server
	maxURL       = 8 << 10          // bytes
)

// importURL reads where a client wants an archive from. Without a scheme it is http, as clients expect. Only http and https
// are taken; hosts of any kind are, since the engine is the user's own.
func importURL(text string) (*url.URL, error) {
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

func checkURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return fault.Invalid("an archive comes from http:// or https://, not from %s://", u.Scheme)
	}
	if u.Hostname() == "" {
		return fault.Invalid("the URL %s has no host", u.Redacted())
	}
	return nil
}

// download opens the archive at u. progress, which may be nil, is told where it comes from and how much has come. The caller
// closes it.
//
// Errors are fault.NotFound and fault.Forbidden as the server has it, fault.Invalid (a redirect to elsewhere) or internal.
func (s *Service) download(ctx context.Context, u *url.URL, progress func(image.Progress)) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, fault.Invalid("invalid URL %s: %w", u.Redacted(), err)
	}
	request.Header.Set("User-Agent", "moss/"+s.version)
	client := downloadClient()
	response, err := client.Do(request) //nolint:bodyclose // the caller closes it
	if err != nil {
		cancel(nil)
		client.CloseIdleConnections()
		return nil, fmt.Errorf("download the archive: %w", err) // the URL in it comes without its password
	}
	d := newDownloaded(ctx, cancel, response, u, progress)
	d.client = client
	if err := refusal(response, u); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if progress != nil {
		progress(image.Progress{Status: "Downloading from " + u.Redacted()})
	}
	return d, nil
}

// downloadClient returns a client for one download: archives are taken as they are, and proxies are those of the engine's
// environment.
func downloadClient() *http.Client {
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

// refusal words an answer that brings no archive.
func refusal(response *http.Response, u *url.URL) error {
	what := fmt.Sprintf("download the archive: %s answers %s", u.Redacted(), response.Status)
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusNotFound, http.StatusGone:
		return fault.NotFound("%s", what)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.Forbidden("%s", what)
	default:
		return fault.Internal("%s", what)
	}
}

// downloaded is an archive on its way. It fails when the server falls silent, and tells how far it is.
type downloaded struct {
	body     io.ReadCloser
	ctx      context.Context //nolint:containedctx // its cause says why the body ended
	cancel   context.CancelCauseFunc
	client   *http.Client // to give up; may be nil
	watch    *time.Timer
	progress func(image.Progress)

	current, total int64 // bytes; total 0: unknown
	told           time.Time
}

// newDownloaded returns the body of an answer. ctx is the request's; cancel ends it.
func newDownloaded(
	ctx context.Context, cancel context.CancelCauseFunc, response *http.Response, u *url.URL, progress func(image.Progress),
) *downloaded {
	d := &downloaded{body: response.Body, ctx: ctx, cancel: cancel, total: max(response.ContentLength, 0), progress: progress}
	d.watch = time.AfterFunc(stall, func() { cancel(fault.Internal("%s sent nothing for %s", u.Host, stall)) })
	d.watch.Stop() // it runs while somebody reads
	return d
}

// Read returns bytes of the archive.
func (d *downloaded) Read(p []byte) (int, error) {
	d.watch.Reset(stall)
	n, err := d.body.Read(p)
	d.watch.Stop() // who reads may take their time
	d.current += int64(n)
	ended := errors.Is(err, io.EOF)
	if now := time.Now(); d.progress != nil && (ended || now.Sub(d.told) >= tick) {
		d.told = now
		d.progress(image.Progress{Status: "Downloading", Current: d.current, Total: d.total})
	}
	if err == nil || ended {
		return n, err
	}
	if cause := context.Cause(d.ctx); cause != nil {
		err = cause
	}
	return n, fmt.Errorf("download the archive: %w", err)
}

// Close ends the download.
func (d *downloaded) Close() error {
	d.watch.Stop()
	d.cancel(nil)
	err := d.body.Close()
	if d.client != nil {
		d.client.CloseIdleConnections()
	}
	return err
}
