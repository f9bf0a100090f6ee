package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/imagesvc/token"
)

const (
	maxErrorBody = 64 << 10 // of an answer that tells of an error
	maxPage      = 8 << 20  // of a page of a list
	maxPages     = 1000

	// maxWait is how long a registry may let us wait before we ask again; what wants more is told at once.
	maxWait  = 15 * time.Second
	maxAsked = 4
)

// request is one request to a registry.
type request struct {
	method string
	url    string // whole, or a path below the server's address
	access access
	header http.Header
	body   []byte  // can be sent again; nil: none
	upload *upload // in the place of body; sent once
	slow   bool    // the registry has patience times longer to answer
}

// do sends a request and returns the answer if it is a success, 2xx. A token that is turned down is renewed once, and so
// is what was known of the server; where it wants to be asked again soon, it is, unless the request has an upload. A
// server of others, to which the registry has led, gets no credentials. The caller closes the answer's body, which
// bounds the time between two reads, and the client's idle connections.
func (e *endpoint) do(ctx context.Context, client *http.Client, r request) (*http.Response, error) {
	own, err := e.allowsTarget(ctx, r.url)
	if err != nil {
		return nil, err
	}
	renewed := false
	for asked := 1; ; asked++ {
		var g grant
		if own {
			if g, err = e.obtainGrant(ctx, client, r.access); err != nil {
				return nil, err
			}
		}
		res, err := e.sendOnce(ctx, client, r, g)
		if err != nil {
			e.forgetProbe()
			return nil, err
		}
		if res.StatusCode/100 == 2 {
			return res, nil
		}
		answer := readError(res)
		wait := retryAfter(res)
		throttled := res.StatusCode == http.StatusTooManyRequests
		switch {
		case res.StatusCode == http.StatusUnauthorized && !renewed && g.canBeRenewed(r.access):
			renewed, r.access = true, r.access.renewAfter(g, res)
			e.forgetProbe()
			if r.upload != nil {
				return nil, e.uploadRefused(ctx, client, r.access, answer)
			}
		case throttled && asked < maxAsked && wait <= maxWait && r.upload == nil:
			if err := awaitDelay(ctx, wait); err != nil {
				return nil, err
			}
		case throttled:
			answer.text += fmt.Sprintf(" (the registry wants to be left alone for %s)", wait)
			return nil, answer
		default:
			return nil, answer
		}
	}
}

// canBeRenewed reports whether another grant may be taken where this one was turned down.
func (g grant) canBeRenewed(a access) bool {
	return g.open || (g.bearer != "" && g.bearer != a.auth.RegistryToken)
}

// renewAfter returns what to ask for once a grant was turned down by an answer, which may name more than one repository.
func (a access) renewAfter(g grant, res *http.Response) access {
	a.refused = g.bearer
	if c, ok := token.Offer(token.Challenges(res.Header), "bearer"); ok {
		a.scopes = a.scopes.With(c.Scopes()...)
	}
	return a
}

// uploadRefused has the token replaced that an upload was sent with, and returns the error of that upload, which has no
// kind: with another reader the caller may send it again.
func (e *endpoint) uploadRefused(ctx context.Context, client *http.Client, a access, answer *answerError) error {
	if _, err := e.obtainGrant(ctx, client, a); err != nil {
		return err
	}
	return newTold("registry %s: its token was turned down in the middle of an upload: %s", e.host, answer.describeTrouble())
}

// repeatCall makes a call that does no harm twice, and again where the server fails on its side.
func (c *Client) repeatCall(ctx context.Context, call func() error) error {
	const tries = 3
	for try := 1; ; try++ {
		err := call()
		if !isServerFailure(err) || try == tries || ctx.Err() != nil {
			return err
		}
		if err := awaitDelay(ctx, c.cfg.Backoff<<try); err != nil {
			return err
		}
	}
}

// isServerFailure reports whether a server answered that it failed, or broke off.
func isServerFailure(err error) bool {
	return troubleOf(err).status >= http.StatusInternalServerError ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET)
}

// sendOnce sends a request once. The body of the answer is a watchedBody.
func (e *endpoint) sendOnce(ctx context.Context, client *http.Client, r request, g grant) (*http.Response, error) {
	stall := e.c.cfg.Stall
	limit := stall
	if r.slow {
		limit *= patience
	}
	w := newStallWatch(ctx, limit)
	req, err := e.newRequest(w, client, r, g)
	if err != nil {
		w.endRequest()
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		err = w.explainError(err)
		w.endRequest()
		return nil, err
	}
	w.pauseClock()
	res.Body = &watchedBody{watch: w, stall: stall, body: res.Body}
	return res, nil
}

// newRequest makes the HTTP request of w.
func (e *endpoint) newRequest(w *stallWatch, client *http.Client, r request, g grant) (*http.Request, error) {
	url := r.url
	if strings.HasPrefix(url, "/") {
		p, err := e.probeServer(w.ctx, client)
		if errors.Is(err, errNoRegistry) {
			p, err = probe{base: e.baseURLs()[0]}, nil
		}
		if err != nil {
			return nil, err
		}
		url = p.base + url
	}
	var body io.Reader = http.NoBody
	switch {
	case r.upload != nil:
		r.upload.watchWith(w)
		body = r.upload
	case r.body != nil:
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(w.ctx, r.method, url, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, r.header)
	req.Header.Set("User-Agent", e.c.cfg.UserAgent)
	if r.upload != nil {
		req.ContentLength = r.upload.size
	} else {
		// No header of this name is sent: it lets the HTTP client ask again where an idle connection has just been closed.
		req.Header["Idempotency-Key"] = []string{}
	}
	switch {
	case g.bearer != "":
		req.Header.Set("Authorization", "Bearer "+string(g.bearer))
	case g.username != "":
		req.SetBasicAuth(g.username, string(g.password))
	}
	return req, nil
}

// readError reads what a registry says about its refusal, and closes the answer's body.
func readError(res *http.Response) *answerError {
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	t := trouble{status: res.StatusCode, code: codeOf(res.StatusCode)}
	var doc struct {
		Errors  []struct{ Code, Message string }
		Details string
	}
	if json.Unmarshal(body, &doc) == nil {
		t.text = doc.Details
		if len(doc.Errors) > 0 {
			t.text = doc.Errors[0].Message
			if code := doc.Errors[0].Code; code != "" {
				t.code = strings.ToLower(strings.ReplaceAll(code, "_", " "))
			}
		}
	}
	t.code, t.text = printableText(t.code), printableText(t.text)
	return &answerError{t}
}

// retryAfter reads when to ask again (RFC 9110, 10.2.3); a second if the server does not say.
func retryAfter(res *http.Response) time.Duration {
	text := res.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second //nolint:gosec // 31 bits
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return time.Second
}

func awaitDelay(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// getJSON fetches one page of a list into to. next is the path of the following page, empty if there is none.
func (e *endpoint) getJSON(ctx context.Context, client *http.Client, r request, to any) (next string, err error) {
	r.method = http.MethodGet
	res, err := e.do(ctx, client, r)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxPage+1))
	if err != nil {
		return "", err
	}
	if len(body) > maxPage {
		return "", newTold("registry %s: a list of more than %d MiB", e.host, maxPage>>20)
	}
	if err := json.Unmarshal(body, to); err != nil {
		return "", newTold("registry %s: its answer is not what a registry sends: %s", e.host, printableText(err.Error()))
	}
	return nextPage(res), nil
}

// nextPage reads the Link header of a list: <PATH>; rel="next". Only path and query count, so that it leads nowhere else.
func nextPage(res *http.Response) string {
	target, rest, _ := strings.Cut(res.Header.Get("Link"), ">")
	target, ok := strings.CutPrefix(strings.TrimSpace(target), "<")
	if !ok || (strings.Contains(rest, "rel=") && !strings.Contains(rest, "next")) {
		return ""
	}
	u, err := res.Request.URL.Parse(target)
	if err != nil || !strings.HasPrefix(u.Path, "/v2/") {
		return ""
	}
	if u.RawQuery == "" {
		return u.EscapedPath()
	}
	return u.EscapedPath() + "?" + u.RawQuery
}

// repositoryScopes is the scope list of one repository.
func repositoryScopes(path string, actions ...string) token.Scopes {
	return token.Scopes{token.Repository(path, actions...)}
}
