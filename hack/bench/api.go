package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// api is a plain client of the container engine API, the same for every engine.
type api struct {
	http *http.Client
}

func newAPI(socket string) *api {
	return &api{http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: stressClients,
	}}}
}

func (a *api) close() { a.http.CloseIdleConnections() }

// call makes one request that moves little and decodes the answer into out, unless out is nil.
func (a *api) call(ctx context.Context, method, path string, body io.Reader, kind string, out any) error {
	return a.callWithin(ctx, callLimit, method, path, body, kind, out)
}

// callWithin makes one request that is answered within limit and decodes the answer into out, unless out is nil.
func (a *api) callWithin(ctx context.Context, limit time.Duration, method, path string, body io.Reader, kind string, out any) error {
	var raw bytes.Buffer
	err := withLimit(ctx, limit, method+" "+path, func(ctx context.Context) error {
		_, err := a.sendRequest(ctx, method, path, body, kind, &raw)
		return err
	})
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(raw.Bytes(), out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// drainAnswer makes one request and returns how many bytes were answered.
func (a *api) drainAnswer(ctx context.Context, method, path string, body io.Reader, kind string) (int64, error) {
	return a.copyAnswer(ctx, method, path, body, kind, io.Discard)
}

// copyAnswer makes one request that may move much and passes the body of the answer to out.
func (a *api) copyAnswer(ctx context.Context, method, path string, body io.Reader, kind string, out io.Writer) (n int64, err error) {
	err = withLimit(ctx, transferLimit, method+" "+path, func(ctx context.Context) error {
		n, err = a.sendRequest(ctx, method, path, body, kind, out)
		return err
	})
	return n, err
}

func (a *api) sendRequest(ctx context.Context, method, path string, body io.Reader, kind string, out io.Writer) (n int64, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, body)
	if err != nil {
		return 0, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		raw, err := io.ReadAll(resp.Body)
		return 0, errors.Join(fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, strings.TrimSpace(string(raw))), err, resp.Body.Close())
	}
	n, err = io.CopyBuffer(struct{ io.Writer }{out}, resp.Body, make([]byte, 1<<20))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return n, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return n, nil
}

// putArchive sends an archive into a container.
func (a *api) putArchive(ctx context.Context, id, path string, archive io.Reader) error {
	return a.callWithin(ctx, transferLimit, http.MethodPut, "/v1.24/containers/"+id+"/archive?path="+url.QueryEscape(path), archive, "application/x-tar", nil)
}

func (a *api) execCreate(ctx context.Context, id string, cmd ...string) (execID string, err error) {
	body, err := json.Marshal(map[string]any{"Cmd": cmd, "AttachStdout": true, "AttachStderr": true})
	if err != nil {
		return "", err
	}
	var made struct{ ID string }
	err = a.call(ctx, http.MethodPost, "/v1.24/containers/"+id+"/exec", bytes.NewReader(body), "application/json", &made)
	return made.ID, err
}

// execStart returns once the process has ended, with how much it has said.
func (a *api) execStart(ctx context.Context, execID string) (int64, error) {
	return a.drainAnswer(ctx, http.MethodPost, "/v1.24/exec/"+execID+"/start", strings.NewReader(`{"Detach":false,"Tty":false}`), "application/json")
}

func (a *api) importImage(ctx context.Context, tar []byte) error {
	repo, tag, _ := strings.Cut(imageRef, ":")
	query := url.Values{"fromSrc": {"-"}, "repo": {repo}, "tag": {tag}}
	return a.call(ctx, http.MethodPost, "/v1.24/images/create?"+query.Encode(), bytes.NewReader(tar), "application/x-tar", nil)
}

func (a *api) createContainer(ctx context.Context, network string, cmd ...string) (id string, err error) {
	return a.createWith(ctx, map[string]any{"Image": imageRef, "Cmd": cmd, "HostConfig": map[string]any{"NetworkMode": network}})
}

func (a *api) createWith(ctx context.Context, settings map[string]any) (id string, err error) {
	body, err := json.Marshal(settings)
	if err != nil {
		return "", err
	}
	var made struct{ ID string }
	err = a.call(ctx, http.MethodPost, "/v1.24/containers/create", bytes.NewReader(body), "application/json", &made)
	return made.ID, err
}

func (a *api) startContainer(ctx context.Context, id string) error {
	return a.call(ctx, http.MethodPost, "/v1.24/containers/"+id+"/start", nil, "", nil)
}

// waitContainer returns once the container has ended; an exit code other than 0 is an error.
func (a *api) waitContainer(ctx context.Context, id string) error {
	return a.waitWithin(ctx, callLimit, id)
}

func (a *api) waitWithin(ctx context.Context, limit time.Duration, id string) error {
	var ended struct{ StatusCode int }
	if err := a.callWithin(ctx, limit, http.MethodPost, "/v1.24/containers/"+id+"/wait", nil, "", &ended); err != nil {
		return err
	}
	if ended.StatusCode != 0 {
		return fmt.Errorf("container %s: exit code %d, want 0", id, ended.StatusCode)
	}
	return nil
}

func (a *api) removeContainer(ctx context.Context, id string) error {
	return a.call(ctx, http.MethodDelete, "/v1.24/containers/"+id+"?force=1", nil, "", nil)
}

// cycleContainer takes one container through its life.
func (a *api) cycleContainer(ctx context.Context, network string) (samples, error) {
	began := time.Now()
	id, err := a.createContainer(ctx, network, "true")
	if err != nil {
		return nil, err
	}
	s, last := samples{}, began
	s["create"], last = msSince(last)
	for _, step := range []struct {
		name string
		do   func(context.Context, string) error
	}{{"start", a.startContainer}, {"wait", a.waitContainer}, {"remove", a.removeContainer}} {
		if err := step.do(ctx, id); err != nil {
			return nil, err
		}
		s[step.name], last = msSince(last)
	}
	s["sum"] = toMilliseconds(last.Sub(began))
	return s, nil
}

func msSince(then time.Time) (ms float64, now time.Time) {
	now = time.Now()
	return toMilliseconds(now.Sub(then)), now
}

func toMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
