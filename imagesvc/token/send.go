package token

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"moss/engine/fault"
	"moss/imagesvc/outage"
)

const (
	maxAnswer = 1 << 20 // bytes of a token server's answer; a real one has a few thousand

	attempts    = 3                      // requests for one answer
	onceAtMost  = 30 * time.Second       // for one request and its answer
	firstPause  = 250 * time.Millisecond // after a 5xx; four times as much after the next
	busyPause   = time.Second            // after a 429 that names no time; twice as much after the next
	longestWait = 20 * time.Second       // a server that wants us to wait longer is busy for now
)

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// sendRetrying makes a request, and again a few times where the server says that it is busy or in trouble.
func (x *exchange) sendRetrying(
	ctx context.Context, client *http.Client, build func(context.Context) (*http.Request, error),
) (*reply, error) {
	for n := 1; ; n++ {
		r, err := sendOnce(ctx, client, build)
		if text, ok := outage.Words(err); ok {
			return nil, fmt.Errorf("get a token for %s: the token server %s cannot be reached: %s", x.registry, x.realm.Host, text)
		}
		if err != nil {
			return nil, fmt.Errorf("get a token for %s from %s: %w", x.registry, x.realm.Host, err)
		}
		pause, again := r.retryDelay(n)
		if !again {
			return r, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// sendOnce makes one request. It takes the address out of the library's error: the query has the user's name.
func sendOnce(
	ctx context.Context, client *http.Client, build func(context.Context) (*http.Request, error),
) (*reply, error) {
	inner, cancel := context.WithTimeout(ctx, onceAtMost)
	defer cancel()
	req, err := build(inner)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := client.Do(req)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
		_ = res.Body.Close()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fault.Unavailable("no answer in time")
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return &reply{res.StatusCode, res.Header, body}, nil
}

// retryDelay tells whether to ask again after the nth request, and how long to wait before.
func (r *reply) retryDelay(n int) (time.Duration, bool) {
	busy := r.status == http.StatusTooManyRequests
	if n >= attempts || (!busy && (r.status < 500 || r.status == http.StatusNotImplemented)) {
		return 0, false
	}
	if wait, ok := r.retryAfter(); ok {
		return wait, wait <= longestWait
	}
	if busy {
		return busyPause << (n - 1), true
	}
	return firstPause << (2 * (n - 1)), true
}

// retryAfter reads Retry-After: seconds or a date (RFC 7231, 7.1.3).
func (r *reply) retryAfter() (time.Duration, bool) {
	text := r.header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(date)), true
	}
	return 0, false
}
