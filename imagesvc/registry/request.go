package registry

import (
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

// request is one of our own, for what the image library cannot do or does without bounds.
type request struct {
	method string
	url    string // whole, or a path below the server's address
	access access
	header http.Header
}

// do sends a request without a body and returns the answer if it is a success, 2xx. A token that is turned down is
// renewed once, and so is what was known of the server; where it wants to be asked again soon, it is. The caller closes the answer's body, and the
// client's idle connections.
func (e *endpoint) do(ctx context.Context, client *http.Client, r request) (*http.Response, error) {
	renewed := false
	for asked := 1; ; asked++ {
		g, err := e.obtainGrant(ctx, client, r.access)
		if err != nil {
			return nil, err
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
		switch {
		case res.StatusCode == http.StatusUnauthorized && !renewed && (g.open || (g.bearer != "" && g.bearer != r.access.auth.RegistryToken)):
			renewed, r.access.refused = true, g.bearer
			if c, ok := token.Offer(token.Challenges(res.Header), "bearer"); ok {
				r.access.scopes = r.access.scopes.With(c.Scopes()...) // it may take more than one repository
			}
			e.forgetProbe()
		case res.StatusCode == http.StatusTooManyRequests && asked < maxAsked && wait <= maxWait:
			if err := sleep(ctx, wait); err != nil {
				return nil, err
			}
		case res.StatusCode == http.StatusTooManyRequests:
			answer.text += fmt.Sprintf(" (the registry wants to be left alone for %s)", wait)
			return nil, answer
		default:
			return nil, answer
		}
	}
}

// sendOnce sends a request once.
func (e *endpoint) sendOnce(ctx context.Context, client *http.Client, r request, g grant) (*http.Response, error) {
	url := r.url
	if strings.HasPrefix(url, "/") {
		p, err := e.probeServer(ctx, client)
		if errors.Is(err, errNoRegistry) {
			p, err = probe{base: e.baseURLs()[0]}, nil
		}
		if err != nil {
			return nil, err
		}
		url = p.base + url
	}
	req, err := http.NewRequestWithContext(ctx, r.method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, r.header)
	req.Header.Set("User-Agent", e.c.cfg.UserAgent)
	switch {
	case g.bearer != "":
		req.Header.Set("Authorization", "Bearer "+string(g.bearer))
	case g.auth.Username != "":
		req.SetBasicAuth(g.auth.Username, g.auth.Password)
	}
	return client.Do(req)
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

func sleep(ctx context.Context, d time.Duration) error {
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
