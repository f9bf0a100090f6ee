package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// AttachOptions say what to see and send.
type AttachOptions struct {
	Logs, Stream          bool
	Stdin, Stdout, Stderr bool
	DetachKeys            string
}

// LogsOptions select log lines.
type LogsOptions struct {
	Stdout, Stderr bool
	Follow         bool
	Timestamps     bool
	Details        bool
	Since, Until   string // Unix seconds, with a fraction if wanted; empty: all
	Tail           string // a number or all
}

// Stream is a hijacked connection: the engine's output is read, the container's stdin is written. A container without
// a terminal frames its output: see Demux. One goroutine may read while another writes.
type Stream struct {
	conn   net.Conn
	reader *bufio.Reader
}

// Read reads output.
func (s *Stream) Read(p []byte) (int, error) { return s.reader.Read(p) }

// Write sends stdin.
func (s *Stream) Write(p []byte) (int, error) { return s.conn.Write(p) }

// CloseWrite says that stdin ends. Output goes on.
func (s *Stream) CloseWrite() error {
	half, ok := s.conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.New("this connection cannot be closed halfway")
	}
	return half.CloseWrite()
}

// Close ends the stream. A Read that waits returns.
func (s *Stream) Close() error { return s.conn.Close() }

// ContainerAttach joins a container's streams. The container may be started after it returns without losing a byte.
// ctx bounds the joining only. The caller closes the stream.
func (c *Client) ContainerAttach(ctx context.Context, ref string, opts AttachOptions) (*Stream, error) {
	path, err := containerPath(ref, "/attach")
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	for key, on := range map[string]bool{
		"logs": opts.Logs, "stream": opts.Stream, "stdin": opts.Stdin, "stdout": opts.Stdout, "stderr": opts.Stderr,
	} {
		if on {
			query.Set(key, "1")
		}
	}
	if opts.DetachKeys != "" {
		query.Set("detachKeys", opts.DetachKeys)
	}
	return c.openStream(ctx, request{method: http.MethodPost, path: path, query: query})
}

// openStream writes the request by hand, on a connection of its own, and hands the connection over once the head has come.
func (c *Client) openStream(ctx context.Context, req request) (*Stream, error) {
	conn, err := c.dialEngine(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	stream, err := c.upgradeConnection(conn, req)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return stream, nil
}

func (c *Client) upgradeConnection(conn net.Conn, req request) (*Stream, error) {
	body, err := req.encodeJSON()
	if err != nil {
		return nil, err
	}
	head := req.method + " " + c.targetOf(req) + " HTTP/1.1\r\nHost: " + c.host.hostHeader() + "\r\nUser-Agent: " + c.agent +
		"\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
	if len(body) > 0 {
		head += "Content-Type: application/json\r\n"
	}
	head += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	if _, err := conn.Write(append([]byte(head), body...)); err != nil {
		return nil, &LostError{Err: err}
	}
	reader := bufio.NewReaderSize(conn, ioBuffer)
	resp, err := http.ReadResponse(reader, &http.Request{Method: req.method})
	if err != nil {
		return nil, &LostError{Err: err}
	}
	switch resp.StatusCode {
	case http.StatusSwitchingProtocols, http.StatusOK:
		// After a 200 the rest of the connection is raw as well; its body must not be touched.
		return &Stream{conn: conn, reader: reader}, nil
	default:
		defer func() { _ = resp.Body.Close() }()
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second)) // an error without a length ends with the connection
		return nil, readError(resp)
	}
}

// ContainerLogs opens a container's log, framed like an attach stream. The caller closes it.
func (c *Client) ContainerLogs(ctx context.Context, ref string, opts LogsOptions) (io.ReadCloser, error) {
	path, err := containerPath(ref, "/logs")
	if err != nil {
		return nil, err
	}
	query := url.Values{"stdout": {formatBool(opts.Stdout)}, "stderr": {formatBool(opts.Stderr)}}
	for key, on := range map[string]bool{"follow": opts.Follow, "timestamps": opts.Timestamps, "details": opts.Details} {
		if on {
			query.Set(key, "1")
		}
	}
	setTexts(query, map[string]string{"since": opts.Since, "until": opts.Until, "tail": opts.Tail})
	resp, err := c.sendRequest(ctx, request{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return nil, fmt.Errorf("logs of %s: %w", ref, err)
	}
	return resp.Body, nil
}
