package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// recorder is a transport that writes events down.
type recorder struct {
	engine http.RoundTripper

	mu   sync.Mutex // guards what follows
	out  *json.Encoder
	last int
	err  error // the first one of writing
}

// recordClient is a proxy from a listener, which it closes, to the socket of an engine, until ctx ends.
func recordClient(ctx context.Context, l net.Listener, engine, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer file.Close() //nolint:errcheck // Sync tells
	r := &recorder{engine: transportTo(engine), out: json.NewEncoder(file)}
	server := &http.Server{
		Handler: &httputil.ReverseProxy{
			Rewrite:       func(p *httputil.ProxyRequest) { p.Out.URL.Scheme, p.Out.URL.Host = "http", "engine" },
			Transport:     r,
			FlushInterval: -1,
		},
		ReadHeaderTimeout: time.Minute,
	}
	done := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer done()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.err, file.Sync())
}

func (r *recorder) addEvent(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, r.out.Encode(e))
}

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	r.mu.Lock()
	r.last++
	number := r.last
	r.mu.Unlock()
	begin := event{
		Kind: kindBegin, Exchange: number, Method: req.Method, Path: req.URL.RequestURI(),
		Type: req.Header.Get("Content-Type"), Upgrade: req.Header.Get("Upgrade"),
	}
	if utf8.Valid(body) {
		begin.Text = string(body)
	} else {
		begin.Data = body
	}
	r.addEvent(begin)
	resp, err := r.engine.RoundTrip(req)
	if err != nil {
		r.addEvent(event{Kind: kindEnd, Exchange: number, Left: true})
		return nil, err
	}
	head := event{Kind: kindHead, Exchange: number, Status: resp.StatusCode}
	if head.ID, err = idOf(resp); err != nil {
		return nil, err
	}
	r.addEvent(head)
	ended := func() { r.addEvent(event{Kind: kindEnd, Exchange: number, Left: req.Context().Err() != nil}) }
	if both, ok := resp.Body.(io.ReadWriteCloser); ok {
		resp.Body = &takenOver{ReadWriteCloser: both, ended: sync.OnceFunc(ended)}
	} else {
		resp.Body = &answer{ReadCloser: resp.Body, ended: sync.OnceFunc(ended)}
	}
	return resp, nil
}

// idOf returns the id in an answer that is one object. The answer can be read afterwards.
func idOf(resp *http.Response) (string, error) {
	if resp.ContentLength < 0 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return "", nil
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if err := resp.Body.Close(); err != nil {
		return "", err
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	var named struct{ ID string }
	if err := json.Unmarshal(text, &named); err != nil {
		return "", nil //nolint:nilerr // a list
	}
	return named.ID, nil
}

// answer and takenOver tell when the proxy has done with an answer.
type answer struct {
	io.ReadCloser

	ended func()
}

func (a *answer) Close() error {
	a.ended()
	return a.ReadCloser.Close()
}

type takenOver struct {
	io.ReadWriteCloser

	ended func()
}

// CloseWrite is what the proxy calls when the client has no more input.
func (t *takenOver) CloseWrite() error {
	if c, ok := t.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

func (t *takenOver) Close() error {
	t.ended()
	return t.ReadWriteCloser.Close()
}
