package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	streamsOfAKind = 1000
	streamsLine    = "one line for everybody"
)

// measureStreams measures what 1000 streams of each kind weigh in which nothing happens, engine and monitors together,
// and how long a line of output is on its way to all of 1000 viewers.
func (b *bench) measureStreams(ctx context.Context, i *instance) error {
	id, err := i.api.createContainer(ctx, "none", "sh", "-c", "mkfifo /line; while :; do cat /line; done")
	if err != nil {
		return err
	}
	measured := func() error {
		if err := errors.Join(i.api.startContainer(ctx, id), pause(ctx, settle)); err != nil {
			return err
		}
		s := samples{}
		for _, kind := range []struct{ name, request string }{
			{"1000 attach", "POST /v1.24/containers/" + id + "/attach?stream=1&stdout=1&stderr=1"},
			{"1000 logs", "GET /v1.24/containers/" + id + "/logs?follow=1&stdout=1&tail=0"},
			{"1000 wait", "POST /v1.24/containers/" + id + "/wait"},
		} {
			if err := b.streamsOf(ctx, i, id, kind.name, kind.request, s); err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
		}
		b.report.add(i.name, "streams", s)
		return nil
	}
	return errors.Join(measured(), i.api.removeContainer(context.WithoutCancel(ctx), id))
}

// streamsOf measures those of one kind.
func (b *bench) streamsOf(ctx context.Context, i *instance, id, name, request string, s samples) (err error) {
	before, _, err := memoryOf(i.cmd.Process.Pid)
	if err != nil {
		return err
	}
	silent := strings.HasSuffix(request, "/wait") // its head comes with the end
	var all []listener
	defer func() { err = errors.Join(err, hangUp(all)) }()
	for range streamsOfAKind {
		l, err := openStream(ctx, i.socket, request, silent)
		if err != nil {
			return fmt.Errorf("after %d: %w", len(all), err)
		}
		all = append(all, l)
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	after, _, err := memoryOf(i.cmd.Process.Pid)
	if err != nil {
		return err
	}
	s[name] = after - before
	if silent {
		return nil
	}
	began := time.Now()
	writer, err := i.api.execCreate(ctx, id, "sh", "-c", "echo "+streamsLine+" >/line")
	if err != nil {
		return err
	}
	if _, err := i.api.drainAnswer(ctx, http.MethodPost, "/v1.24/exec/"+writer+"/start", strings.NewReader("{}"), "application/json"); err != nil {
		return err
	}
	for n, l := range all {
		if err := l.awaitText(streamsLine); err != nil {
			return fmt.Errorf("number %d: %w", n, err)
		}
	}
	s["a line to "+name] = toMilliseconds(time.Since(began))
	return nil
}

// openStream sends a request and reads the head of its answer, unless none comes yet.
func openStream(ctx context.Context, socket, request string, silent bool) (listener, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return listener{}, err
	}
	l := listener{conn: conn, body: bufio.NewReaderSize(conn, 4<<10)}
	if err := errors.Join(conn.SetDeadline(time.Now().Add(2*time.Minute)), l.sendRequest(request, silent)); err != nil {
		return listener{}, errors.Join(err, conn.Close())
	}
	return l, nil
}

func (l listener) sendRequest(request string, silent bool) error {
	if _, err := io.WriteString(l.conn, request+" HTTP/1.1\r\nHost: engine\r\nContent-Length: 0\r\n\r\n"); err != nil || silent {
		return err
	}
	status, err := l.body.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.Contains(status, " 200 ") {
		return fmt.Errorf("answer: %s", strings.TrimSpace(status))
	}
	return l.awaitText("\r\n\r\n")
}

// awaitText reads until text has come by.
func (l listener) awaitText(text string) error {
	var got []byte
	for !bytes.HasSuffix(got, []byte(text)) {
		c, err := l.body.ReadByte()
		if err != nil {
			return fmt.Errorf("wait for %q: %w", text, err)
		}
		got = append(got, c)
	}
	return nil
}
