package handler_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"moss/engine/container"
	"moss/engine/fault"
)

// dialWS opens a WebSocket.
func (a *api) dialWS(path string) (*websocket.Conn, *http.Response, error) {
	a.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return a.dial(), nil },
	}}
	ws, resp, err := websocket.Dial(a.t.Context(), "ws://moss"+path, &websocket.DialOptions{HTTPClient: client})
	if err == nil {
		a.t.Cleanup(func() { ws.CloseNow() }) //nolint:errcheck // It may be closed already.
	}
	return ws, resp, err
}

// TestLaterAttachWS: messages are binary from 1.28 on, and from 1.42 on only the streams that are named come.
func TestLaterAttachWS(t *testing.T) {
	a := newAPI(t)
	a.containers.record.Config.Tty = true
	a.containers.attach = func(_ context.Context, _ container.AttachOptions, open func() (io.ReadWriteCloser, error)) error {
		conn, err := open()
		if err != nil {
			return err
		}
		_, err = io.Copy(conn, conn)
		return errors.Join(err, conn.Close())
	}
	for version, want := range map[string]struct {
		kind    websocket.MessageType
		streams string
	}{
		"1.27": {websocket.MessageText, "Stdin:true Stdout:true Stderr:true"}, "1.28": {websocket.MessageBinary, "Stdin:true Stdout:true Stderr:true"},
		"1.41": {websocket.MessageBinary, "Stdin:true Stdout:true Stderr:true"}, "1.42": {websocket.MessageBinary, "Stdin:false Stdout:false Stderr:false"},
	} {
		ws, _, err := a.dialWS("/v" + version + "/containers/web/attach/ws?stream=1") //nolint:bodyclose // The library does.
		if err != nil {
			t.Fatal(err)
		}
		if err := ws.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if kind, _, err := ws.Read(t.Context()); err != nil || kind != want.kind {
			t.Errorf("at %s: a message of type %v, %v, want %v", version, kind, err, want.kind)
		}
		if said := a.containers.said(); !strings.Contains(said, want.streams) {
			t.Errorf("at %s: calls %q, want %q", version, said, want.streams)
		}
	}
}

// TestAttachWS has the fake echo what comes until the client closes.
func TestAttachWS(t *testing.T) {
	a := newAPI(t)
	a.containers.record.Config.Tty = true
	ended := make(chan error, 1)
	a.containers.attach = func(_ context.Context, _ container.AttachOptions, open func() (io.ReadWriteCloser, error)) error {
		conn, err := open()
		if err != nil {
			return err
		}
		_, err = io.Copy(conn, conn)
		ended <- errors.Join(err, conn.Close())
		return nil
	}
	for _, tc := range []struct{ path, want string }{
		{"/v1.24/containers/web/attach/ws?stream=1", "{Logs:false Stream:true Stdin:true Stdout:true Stderr:true DetachKeys:[]}"},
		{
			"/v1.27/containers/web/attach/ws?logs=1&stream=1&stdout=1&detachKeys=ctrl-a,x",
			"{Logs:true Stream:true Stdin:false Stdout:true Stderr:false DetachKeys:[1 120]}",
		},
		{
			"/v1.18/containers/web/attach/ws?stdin=1&stream=1&detachKeys=nonsense",
			"{Logs:false Stream:true Stdin:true Stdout:false Stderr:false DetachKeys:[]}",
		},
	} {
		ws, resp, err := a.dialWS(tc.path) //nolint:bodyclose // The library does.
		if err != nil {
			t.Fatalf("%s: %v", tc.path, err)
		}
		if resp.Header.Get("Api-Version") != "1.51" {
			t.Errorf("%s: headers %v", tc.path, resp.Header)
		}
		if err := ws.Write(t.Context(), websocket.MessageText, []byte("hällo")); err != nil {
			t.Fatal(err)
		}
		if kind, p, err := ws.Read(t.Context()); err != nil || kind != websocket.MessageText || string(p) != "hällo" {
			t.Errorf("%s: echo = %v %q, %v", tc.path, kind, p, err)
		}
		if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Errorf("%s: close = %v", tc.path, err)
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: the view ended with %v", tc.path, err)
		}
		if said := a.containers.said(); !strings.HasSuffix(said, "; attach 4fa6e0 "+tc.want) {
			t.Errorf("%s: calls %q, want %q", tc.path, said, tc.want)
		}
	}
}

func TestAttachWSErrors(t *testing.T) {
	a := newAPI(t)
	status, body := a.ask("GET", "/containers/web/attach/ws?stream=1", "")
	if status != 400 || !strings.Contains(body, "this endpoint is a WebSocket") {
		t.Errorf("a plain request = %d %s, want 400", status, body)
	}
	record := a.containers.record
	a.containers.record, a.containers.err = nil, noSuch()
	if status, body = a.ask("GET", "/containers/nope/attach/ws?stream=1", ""); status != 404 || !strings.Contains(body, "No such container") {
		t.Errorf("a plain request to nothing = %d %s, want 404", status, body)
	}
	a.containers.record, a.containers.err = record, nil
	a.containers.attach = func(context.Context, container.AttachOptions, func() (io.ReadWriteCloser, error)) error {
		return fault.Conflict("Container web is paused")
	}
	refused := func(path string, want int) {
		t.Helper()
		_, resp, err := a.dialWS(path)
		if err == nil || resp.StatusCode != want {
			t.Errorf("%s: %v, want %d", path, err, want)
			return
		}
		resp.Body.Close() //nolint:errcheck // The status says enough.
	}
	refused("/containers/web/attach/ws?stream=1", 409)
	refused("/containers/web/attach/ws?stream=1&detachKeys=ctrl-1", 400)
	a.containers.record, a.containers.err = nil, noSuch()
	refused("/containers/nope/attach/ws?stream=1", 404)
}
