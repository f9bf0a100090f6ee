package handler_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/stdio"
)

const upgraded = "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.engine.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"

// TestAttach sends input together with the request; the fake echoes it.
func TestAttach(t *testing.T) {
	a := newAPI(t)
	a.containers.attach = func(ctx context.Context, _ container.AttachOptions, open func() (io.ReadWriteCloser, error)) error {
		conn, err := open()
		if err != nil {
			return err
		}
		if _, err := io.Copy(conn, conn); err != nil {
			t.Error(err)
		}
		if ctx.Err() != nil {
			t.Error("the end of the client's input has cancelled the view")
		}
		return conn.Close()
	}
	for _, tc := range []struct{ path, headers, head, said string }{
		{
			"/v1.24/containers/web/attach?stream=1&stdin=1&stdout=1&stderr=1", "Connection: Upgrade\r\nUpgrade: tcp\r\n", upgraded,
			"get web; attach 4fa6e0 {Logs:false Stream:true Stdin:true Stdout:true Stderr:true DetachKeys:[]}",
		},
		{
			"/v1.24/containers/web/attach?stream=1&logs=1&stdout=1&detachKeys=ctrl-a,x", "", "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.engine.raw-stream\r\n",
			"get web; attach 4fa6e0 {Logs:true Stream:true Stdin:false Stdout:true Stderr:false DetachKeys:[1 120]}",
		},
		{
			"/v1.21/containers/web/attach?stream=1&detachKeys=nonsense", "", "HTTP/1.1 200 OK\r\n",
			"get web; attach 4fa6e0 {Logs:false Stream:true Stdin:false Stdout:false Stderr:false DetachKeys:[]}",
		},
	} {
		c := a.dial()
		if _, err := io.WriteString(c, "POST "+tc.path+" HTTP/1.1\r\nHost: x\r\n"+tc.headers+"\r\nearly "); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "late"); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(got), tc.head) || !strings.HasSuffix(string(got), "\r\n\r\nearly late") {
			t.Errorf("%s = %q, %v, want %q and the echo", tc.path, got, err, tc.head)
		}
		if said := a.containers.said(); said != tc.said {
			t.Errorf("%s: calls %q, want %q", tc.path, said, tc.said)
		}
	}
	if status, body := a.ask("POST", "/containers/web/attach?stream=1&detachKeys=ctrl-1", ""); status != 400 {
		t.Errorf("bad detach keys = %d %q, want 400", status, body)
	}
}

func TestAttachErrors(t *testing.T) {
	a := newAPI(t)
	a.containers.attach = func(context.Context, container.AttachOptions, func() (io.ReadWriteCloser, error)) error {
		return fault.Conflict("Container web is paused")
	}
	if status, body := a.ask("POST", "/containers/web/attach?stream=1", ""); status != 409 || !strings.Contains(body, "is paused") {
		t.Errorf("an error before the head = %d %q, want 409", status, body)
	}
	a.containers.attach = func(_ context.Context, _ container.AttachOptions, open func() (io.ReadWriteCloser, error)) error {
		conn, err := open()
		if err != nil {
			return err
		}
		return errors.Join(errors.New("log is broken"), conn.Close())
	}
	resp := a.open("POST", "/containers/web/attach?stream=1", "") //nolint:bodyclose // The cleanup of open does.
	if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || err != nil || len(body) != 0 {
		t.Errorf("an error after the head = %d %q, %v, want 200 and the end", resp.StatusCode, body, err)
	}
}

func TestLogs(t *testing.T) {
	a := newAPI(t)
	a.containers.lines = []logLine{{stdio.Stdout, "one\n"}, {stdio.Stderr, "two\n"}}
	frame := func(stream stdio.Stream, text string) string {
		return string(stdio.AppendHeader(nil, stream, len(text))) + text
	}
	const stamp = "2015-11-21T00:00:00.000000005Z "
	frames := frame(stdio.Stdout, "one\n") + frame(stdio.Stderr, "two\n")
	for _, tc := range []struct{ path, want, said string }{
		{"/containers/web/logs?stdout=1&stderr=1", frames, "out=true err=true follow=false tail=-1 since=0"},
		{"/containers/web/logs?stdout=1&tail=all", frames, "out=true err=false follow=false tail=-1 since=0"},
		{"/containers/web/logs?stdout=1&tail=5", frames, "out=true err=false follow=false tail=5 since=0"},
		{"/containers/web/logs?stdout=1&tail=0", frames, "out=true err=false follow=false tail=0 since=0"},
		{"/containers/web/logs?stdout=1&tail=-7", frames, "out=true err=false follow=false tail=-1 since=0"},
		{"/containers/web/logs?stdout=1&since=5.25", frames, "out=true err=false follow=false tail=-1 since=5250000000"},
		{"/v1.19/containers/web/logs?stdout=1&since=5", frames, "out=true err=false follow=false tail=-1 since=0"},
		{
			"/containers/web/logs?stderr=1&timestamps=1", frame(stdio.Stdout, stamp+"one\n") + frame(stdio.Stderr, stamp+"two\n"),
			"out=false err=true follow=false tail=-1 since=0",
		},
		{
			"/containers/web/logs?stdout=1&details=1", frame(stdio.Stdout, "E=2%2C3,a=1 one\n") + frame(stdio.Stderr, "E=2%2C3,a=1 two\n"),
			"out=true err=false follow=false tail=-1 since=0",
		},
		{"/v1.22/containers/web/logs?stdout=1&details=1", frames, "out=true err=false follow=false tail=-1 since=0"},
	} {
		status, body := a.ask("GET", tc.path, "")
		if said := a.containers.said(); status != 200 || body != tc.want || said != "get web; logs 4fa6e0 "+tc.said {
			t.Errorf("%s = %d %q with calls %q, want %q, %q", tc.path, status, body, said, tc.want, tc.said)
		}
	}
	for _, tail := range []string{"x", "1.5", "99999999999999999999", "0x10"} {
		if status, body := a.ask("GET", "/containers/web/logs?stdout=1&tail="+tail, ""); status != 400 || !strings.Contains(body, "tail") {
			t.Errorf("tail=%s: %d %q, want 400 naming it", tail, status, body)
		}
		a.containers.said()
	}
	a.containers.record.Config.Tty = true
	if _, body := a.ask("GET", "/containers/web/logs?stdout=1", ""); body != "one\ntwo\n" {
		t.Errorf("logs of a tty = %q, want no frames", body)
	}
	for _, path := range []string{"/containers/web/logs", "/containers/web/logs?stdout=0", "/containers/web/logs?stdout=1&since=x", "/containers/web/logs?stdout=1&since=1.0000000001"} {
		if status, body := a.ask("GET", path, ""); status != 400 {
			t.Errorf("%s = %d %q, want 400", path, status, body)
		}
	}
}

func TestLogsErrors(t *testing.T) {
	a := newAPI(t)
	a.containers.logsErr = fault.Unsupported("this driver cannot be read")
	if status, body := a.ask("GET", "/containers/web/logs?stdout=1", ""); status != 501 {
		t.Errorf("an error before the first line = %d %q, want 501", status, body)
	}
	a.containers.lines = []logLine{{stdio.Stdout, "one\n"}}
	a.containers.record.Config.Tty = true
	if status, body := a.ask("GET", "/containers/web/logs?stdout=1", ""); status != 200 || body != "one\nError: this driver cannot be read\n" {
		t.Errorf("an error after the first line = %d %q, want 200 and the error", status, body)
	}
	a.containers.logsErr, a.containers.lines = nil, nil
	if status, body := a.ask("GET", "/containers/web/logs?stdout=1", ""); status != 200 || body != "" {
		t.Errorf("no lines = %d %q, want an empty 200", status, body)
	}
}

// TestLogsFollow wants the head before any line, and the end of the work when the client goes while there is none.
func TestLogsFollow(t *testing.T) {
	for name, headers := range map[string]string{"plain": "", "upgrade": "Connection: Upgrade\r\nUpgrade: tcp\r\n"} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			a.containers.waitDone = make(chan error, 1)
			c := a.dial()
			if _, err := io.WriteString(c, "GET /containers/web/logs?stdout=1&follow=1 HTTP/1.1\r\nHost: x\r\n"+headers+"\r\n"); err != nil {
				t.Fatal(err)
			}
			head := make([]byte, len("HTTP/1.1 200"))
			if _, err := io.ReadFull(c, head); err != nil {
				t.Fatalf("the head does not come at once: %v", err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-a.containers.waitDone:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the log saw %v, want %v", err, context.Canceled)
				}
			case <-time.After(time.Minute):
				t.Fatal("the log is followed without its client")
			}
		})
	}
}

// TestWaitHead: clients of today read the head before they go on and start the container, or attach to it.
func TestWaitHead(t *testing.T) {
	for _, tc := range []struct {
		query string
		err   error
		body  string
	}{
		{"", nil, `{"StatusCode":3}`},
		{"?condition=next-exit", nil, `{"StatusCode":3}`},
		{"?condition=removed", errors.New("the disk is full"), `{"StatusCode":-1,"Error":{"Message":"the disk is full"}}`},
	} {
		t.Run(tc.query, func(t *testing.T) { testWaitHead(t, tc.query, tc.err, tc.body) })
	}
}

func testWaitHead(t *testing.T, query string, failed error, want string) {
	a := newAPI(t)
	a.containers.waitErr = failed
	a.containers.waiting, a.containers.waitDone = make(chan struct{}), make(chan error, 1)
	c := a.dial()
	if _, err := io.WriteString(c, "POST /containers/web/wait"+query+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("the head = %+v, %v, want 200 of JSON at once", answer, err)
	}
	close(a.containers.waiting)
	body, err := io.ReadAll(answer.Body)
	if err != nil || strings.TrimSpace(string(body)) != want {
		t.Errorf("the body = %q, %v, want %s", body, err, want)
	}
	if err := errors.Join(answer.Body.Close(), c.Close()); err != nil {
		t.Error(err)
	}
}

func TestWaitEndsWithItsClient(t *testing.T) {
	a := newAPI(t)
	a.containers.waiting, a.containers.waitDone = make(chan struct{}), make(chan error, 1)
	c := a.dial()
	if _, err := io.WriteString(c, "POST /containers/web/wait HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); a.containers.said() == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody waits for the container")
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-a.containers.waitDone:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("wait saw %v, want %v", err, context.Canceled)
		}
	case <-time.After(time.Minute):
		t.Fatal("wait goes on without its client")
	}
}
