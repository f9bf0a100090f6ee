package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/api/client"
	"moss/api/client/clienttest"
	"moss/api/types"
)

func newClient(t *testing.T, engine *clienttest.Engine) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Host: engine.Host()})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestParseHost(t *testing.T) {
	for text, want := range map[string]string{
		"unix:///run/moss.sock": "unix:///run/moss.sock",
		"/run/moss.sock":        "unix:///run/moss.sock",
		"tcp://127.0.0.1:2375":  "tcp://127.0.0.1:2375",
		"tcp://:2375":           "tcp://127.0.0.1:2375",
		"tcp://box":             "tcp://box:2375",
		"tcp://[::1]:99":        "tcp://[::1]:99",
		"tcp://[::1]":           "tcp://[::1]:2375",
		"http://box:80/":        "tcp://box:80",
		"unix://moss.sock":      "",
		"moss.sock":             "",
		"ssh://box":             "",
		"tcp://box:80/path":     "",
		"tcp://a b":             "",
		"":                      "",
	} {
		host, err := client.ParseHost(text)
		if want == "" {
			if err == nil {
				t.Errorf("ParseHost(%q) = %v, want an error", text, host)
			}
			continue
		}
		if err != nil || host.String() != want {
			t.Errorf("ParseHost(%q) = %v, %v, want %s", text, host, err, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		name, kind, body, want string
		status                 int
	}{
		{"message", "application/json", `{"message":"No such container: web"}`, "No such container: web", 404},
		{"plain text", "text/plain", "No such container: web\n", "No such container: web", 404},
		{"empty", "text/plain", "", "the engine answered 500 Internal Server Error", 500},
		{"not a message", "application/json", `{"other":1}`, `{"other":1}`, 409},
	} {
		t.Run(tc.name, func(t *testing.T) {
			engine := clienttest.New(t)
			answer := func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.kind)
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			}
			engine.Override["GET /containers/web/json"] = answer
			engine.Override["POST /containers/web/attach"] = answer
			c := newClient(t, engine)
			_, err := c.ContainerInspect(t.Context(), "/web", false)
			if err == nil || err.Error() != tc.want || client.StatusOf(err) != tc.status {
				t.Errorf("inspect: %v with status %d, want %q with %d", err, client.StatusOf(err), tc.want, tc.status)
			}
			_, err = c.ContainerAttach(t.Context(), "web", client.AttachOptions{})
			if err == nil || err.Error() != tc.want || client.StatusOf(err) != tc.status {
				t.Errorf("attach: %v with status %d, want %q with %d", err, client.StatusOf(err), tc.want, tc.status)
			}
		})
	}
}

func TestNoEngine(t *testing.T) {
	c, err := client.New(client.Options{Host: filepath.Join(t.TempDir(), "none.sock")})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Ping(t.Context())
	var connect *client.ConnectError
	if !errors.As(err, &connect) || !strings.HasSuffix(err.Error(), "none.sock: no such file or directory") {
		t.Errorf("Ping = %v, want a ConnectError that names the socket and the reason", err)
	}
}

func TestLostConnection(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /info"] = func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	}
	_, err := newClient(t, engine).Info(t.Context())
	var lost *client.LostError
	if !errors.As(err, &lost) || err.Error() != "lost the connection to the engine: it hung up" {
		t.Errorf("Info = %v, want a LostError", err)
	}
}

func TestRequests(t *testing.T) {
	engine := clienttest.New(t)
	no := func(err error) {
		if client.StatusOf(err) != http.StatusNotFound {
			t.Errorf("got %v, want the fake's 404", err)
		}
	}
	c, ctx := newClient(t, engine), t.Context()
	_, err := c.Containers(ctx, client.ContainersOptions{All: true, Size: true, Limit: 3, Filters: map[string][]string{"name": {"a"}}})
	no(err)
	no(c.ContainerStop(ctx, "web", client.StopOptions{Timeout: new(-1), Signal: "HUP"}))
	no(c.ContainerStop(ctx, "web", client.StopOptions{}))
	no(c.ContainerRestart(ctx, "web", client.StopOptions{Timeout: new(0)}))
	no(c.ContainerKill(ctx, "web", "HUP"))
	no(c.ContainerRename(ctx, "a b", "new"))
	no(c.ContainerResize(ctx, "web", 24, 80))
	no(c.ContainerRemove(ctx, "web", client.RemoveOptions{Force: true, Volumes: true}))
	_, err = c.ContainerLogs(ctx, "web", client.LogsOptions{Stdout: true, Follow: true, Tail: "5", Since: "1.5", Until: "2", Timestamps: true})
	no(err)
	_, err = c.ImageInspect(ctx, "127.0.0.1:5000/a/b:t")
	no(err)
	_, err = c.ImageRemove(ctx, "sha256:abc", true, true)
	no(err)
	no(c.ImagePull(ctx, client.PullOptions{Name: "busybox", Tag: "latest"}, nil))
	no(c.ContainerStart(ctx, "web", "ctrl-x"))
	want := []string{
		`GET /containers/json?all=1&filters=%7B%22name%22%3A%5B%22a%22%5D%7D&limit=3&size=1`,
		"POST /containers/web/stop?signal=HUP&t=-1",
		"POST /containers/web/stop",
		"POST /containers/web/restart?t=0",
		"POST /containers/web/kill?signal=HUP",
		"POST /containers/a b/rename?name=new",
		"POST /containers/web/resize?h=24&w=80",
		"DELETE /containers/web?force=1&v=1",
		"GET /containers/web/logs?follow=1&since=1.5&stderr=0&stdout=1&tail=5&timestamps=1&until=2",
		"GET /images/127.0.0.1:5000/a/b:t/json",
		"DELETE /images/sha256:abc?force=1&noprune=1",
		"POST /images/create?fromImage=busybox&tag=latest",
		"POST /containers/web/start?detachKeys=ctrl-x",
	}
	if got := engine.Requests(); !slices.Equal(got, want) {
		t.Errorf("requests:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, err := range []error{c.ContainerStart(ctx, "/", ""), second(c.ImageInspect(ctx, "")), second(c.ContainerWait(ctx, ""))} {
		if err == nil || !strings.HasPrefix(err.Error(), "empty ") {
			t.Errorf("an empty name gives %v, want an error without a request", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestNotModifiedIsNoError(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["POST /containers/web/start"] = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotModified)
	}
	if err := newClient(t, engine).ContainerStart(t.Context(), "web", ""); err != nil {
		t.Errorf("start of a running container = %v, want nil", err)
	}
}

func TestAttach(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nearly",
		"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\nearly",
	} {
		engine := clienttest.New(t)
		engine.Override["POST /containers/web/attach"] = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != "tcp" || r.URL.Query().Get("stdin") != "1" {
				t.Errorf("attach asks with headers %v and query %s", r.Header, r.URL.RawQuery)
			}
			conn, both, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, answer)
			input, err := io.ReadAll(both)
			if err != nil {
				t.Error(err)
			}
			_, _ = conn.Write(append([]byte(" then "), input...))
		}
		stream, err := newClient(t, engine).ContainerAttach(t.Context(), "web", client.AttachOptions{Stream: true, Stdin: true})
		if err != nil {
			t.Fatalf("attach: %v", err)
		}
		if _, err := io.WriteString(stream, "input"); err != nil {
			t.Fatal(err)
		}
		if err := stream.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(stream)
		if err != nil || string(got) != "early then input" {
			t.Errorf("read %q, %v, want %q", got, err, "early then input")
		}
		_ = stream.Close()
	}
}

func TestAttachHonoursContext(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["POST /containers/web/attach"] = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := newClient(t, engine).ContainerAttach(ctx, "web", client.AttachOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("attach to a silent engine = %v, want the context's end", err)
	}
}

func TestDemux(t *testing.T) {
	frame := func(stream byte, text string) string {
		var out bytes.Buffer
		_, _ = (&clienttest.Frames{W: &out, Stream: stream}).Write([]byte(text))
		return out.String()
	}
	for _, tc := range []struct {
		name, stream, stdout, stderr string
		lost                         bool
		fails                        bool
	}{
		{name: "empty"},
		{name: "all streams", stream: frame(1, "out") + frame(2, "err") + frame(0, "in") + frame(1, ""), stdout: "outin", stderr: "err"},
		{name: "cut in a header", stream: frame(1, "out") + "\x01\x00\x00", stdout: "out", lost: true},
		{name: "cut in a payload", stream: frame(1, "output")[:10], stdout: "ou", lost: true},
		{name: "no frames", stream: "hello, world", fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			err := client.Demux(&stdout, &stderr, strings.NewReader(tc.stream))
			if stdout.String() != tc.stdout || stderr.String() != tc.stderr {
				t.Errorf("got %q and %q, want %q and %q", &stdout, &stderr, tc.stdout, tc.stderr)
			}
			var lost *client.LostError
			if errors.As(err, &lost) != tc.lost || (err != nil) != (tc.lost || tc.fails) {
				t.Errorf("error %v, want lost %t, any %t", err, tc.lost, tc.fails)
			}
		})
	}
	refuse := writer(func([]byte) (int, error) { return 0, io.ErrClosedPipe })
	var write *client.WriteError
	if err := client.Demux(refuse, refuse, strings.NewReader(frame(1, "out"))); !errors.As(err, &write) {
		t.Errorf("a writer that refuses gives %v, want a WriteError", err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func FuzzDemux(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x03out\x02\x00\x00\x00\x00\x00\x00\x03err"))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var stdout, stderr bytes.Buffer
		err := client.Demux(&stdout, &stderr, bytes.NewReader(stream))
		if stdout.Len()+stderr.Len() > len(stream) {
			t.Errorf("%d bytes out of %d, error %v", stdout.Len()+stderr.Len(), len(stream), err)
		}
	})
}

func TestImportStreams(t *testing.T) {
	engine := clienttest.New(t)
	archive := bytes.Repeat([]byte("moss"), 1<<20)
	var got []byte
	engine.Override["POST /images/create"] = func(w http.ResponseWriter, r *http.Request) {
		var err error
		if got, err = io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		clienttest.JSON(w, http.StatusOK, map[string]string{"status": "sha256:abc"})
	}
	var status string
	err := newClient(t, engine).ImageImport(t.Context(), client.ImportOptions{Repo: "a", Changes: []string{"CMD x", "ENV y=z"}},
		bytes.NewReader(archive), func(p client.Progress) error { status = p.Status; return nil })
	if err != nil || status != "sha256:abc" || !bytes.Equal(got, archive) {
		t.Errorf("import = %v, status %q, %d bytes arrived of %d", err, status, len(got), len(archive))
	}
	if want := "POST /images/create?changes=CMD+x&changes=ENV+y%3Dz&fromSrc=-&repo=a"; engine.Requests()[0] != want {
		t.Errorf("request %s, want %s", engine.Requests()[0], want)
	}
}

func TestErrorInsideStream(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["POST /images/create"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"begin"}{"error":"disk full","errorDetail":{"message":"disk full"}}`)
	}
	seen := 0
	err := newClient(t, engine).ImageImport(t.Context(), client.ImportOptions{}, strings.NewReader("x"),
		func(client.Progress) error { seen++; return nil })
	if err == nil || err.Error() != "disk full" || seen != 1 {
		t.Errorf("import = %v after %d messages, want disk full after one", err, seen)
	}
}

func TestEvents(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /events"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"Type":"container","Action":"die","Actor":{"ID":"x","Attributes":{"exitCode":"3"}},"timeNano":5}`+"\n")
	}
	var got types.Event
	var raw json.RawMessage
	err := newClient(t, engine).Events(t.Context(), client.EventsOptions{Since: "1"}, func(e types.Event, r json.RawMessage) error {
		got, raw = e, r
		return nil
	})
	if err != nil || got.Action != "die" || got.Actor.Attributes["exitCode"] != "3" || !strings.Contains(string(raw), `"timeNano":5`) {
		t.Errorf("events = %v, got %+v, raw %s", err, got, raw)
	}
}

func TestDialIsUsed(t *testing.T) {
	engine := clienttest.New(t)
	host, err := client.ParseHost(engine.Host())
	if err != nil {
		t.Fatal(err)
	}
	var asked string
	c, err := client.New(client.Options{Host: "unix:///elsewhere", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		asked = network + " " + address
		return (&net.Dialer{}).DialContext(ctx, host.Network, host.Address)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ping(t.Context()); err != nil || asked != "unix /elsewhere" {
		t.Errorf("Ping = %v, dialled %q", err, asked)
	}
}

// TestEventsOpened calls Opened when the engine has answered, and before any event.
func TestEventsOpened(t *testing.T) {
	engine := clienttest.New(t)
	listens := make(chan struct{})
	engine.Override["GET /events"] = func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-listens:
			_, _ = io.WriteString(w, `{"Action":"start"}`)
		case <-r.Context().Done():
		}
	}
	var seen []string
	opts := client.EventsOptions{Opened: func() { seen = append(seen, "opened"); close(listens) }}
	err := newClient(t, engine).Events(t.Context(), opts, func(e types.Event, _ json.RawMessage) error {
		seen = append(seen, e.Action)
		return nil
	})
	if want := []string{"opened", "start"}; err != nil || !slices.Equal(seen, want) {
		t.Errorf("Events saw %q, %v, want %q", seen, err, want)
	}
	refused := client.EventsOptions{Since: "x", Opened: func() { t.Error("Opened is called for an error") }}
	engine.Override["GET /events"] = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadRequest) }
	if err := newClient(t, engine).Events(t.Context(), refused, nil); client.StatusOf(err) != http.StatusBadRequest {
		t.Errorf("Events = %v, want status 400", err)
	}
}

// TestErrorKind is what the engine says of its error beside the status.
func TestErrorKind(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /info"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Fault-Kind", "unavailable")
		http.Error(w, "not now", http.StatusServiceUnavailable)
	}
	_, err := newClient(t, engine).Info(t.Context())
	var answered *client.Error
	if !errors.As(err, &answered) || answered.Kind != "unavailable" || answered.Message != "not now" {
		t.Errorf("Info = %#v, want the kind unavailable", err)
	}
}
