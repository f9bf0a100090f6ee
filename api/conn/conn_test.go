package conn_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"moss/api/compat"
	"moss/api/conn"
	"moss/engine/stdio"
)

// serve answers on a unix socket and returns a function that connects to it.
func serve(t *testing.T, handle http.HandlerFunc) func() *net.UnixConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handle)
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return func() *net.UnixConn {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() }) //nolint:errcheck // It may be closed already.
		return c
	}
}

func send(t *testing.T, c io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

const (
	plainHead = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.engine.raw-stream\r\n\r\n"
	upgraded  = "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.engine.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
	asking    = "Connection: Upgrade\r\nUpgrade: tcp\r\n"
)

// TestHijack sends input along with the request, which the HTTP server reads ahead, and more after the head; the stream
// echoes until the client ends its side, then answers and closes.
func TestHijack(t *testing.T) {
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		s, err := conn.Hijack(w, r, compat.RawStream)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close() //nolint:errcheck // The test reads to the end.
		if _, err := io.Copy(s, s); err != nil {
			t.Error(err)
		}
		send(t, s, "bye")
		if err := s.CloseWrite(); err != nil {
			t.Error(err)
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Errorf("closing twice = %v", err)
		}
	})
	for _, tc := range []struct{ name, headers, early, head string }{
		{"upgrade", asking, "", upgraded},
		{"upgrade, other case", "connection: keep-alive, upgrade\r\nupgrade: TCP\r\n", "", upgraded},
		{"plain", "", "", plainHead},
		{"upgrade to something else", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "", plainHead},
		{"Upgrade without Connection", "Upgrade: tcp\r\n", "", plainHead},
		{"early input", asking, "early ", upgraded},
		{"much early input", "", strings.Repeat("0123456789", 1000), plainHead},
		{"a body that repeats the query", asking + "Content-Type: application/json\r\nContent-Length: 2\r\n", "{}", upgraded},
		{"a body, plain", "Content-Type: application/json; charset=utf-8\r\nContent-Length: 4\r\n", "{ }\nearly ", plainHead},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := dial()
			send(t, c, "POST /attach HTTP/1.1\r\nHost: x\r\n"+tc.headers+"\r\n"+tc.early)
			got := make([]byte, len(tc.head))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != tc.head {
				t.Fatalf("head = %q, %v, want %q", got, err, tc.head)
			}
			send(t, c, "late")
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(c)
			if want := strings.TrimLeft(tc.early, "{ }\n") + "latebye"; err != nil || string(rest) != want {
				t.Errorf("stream = %.60q (%d bytes), %v, want %.60q (%d)", rest, len(rest), err, want, len(want))
			}
		})
	}
}

func TestHijackKeepsEngineHeaders(t *testing.T) {
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "moss/1 (linux)")
		w.Header().Set("Api-Version", "1.24")
		s, err := conn.Hijack(w, r, compat.RawStream)
		if err != nil {
			t.Error(err)
			return
		}
		s.Close() //nolint:errcheck // Nothing was sent.
	})
	c := dial()
	send(t, c, "POST /attach HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // It is empty.
	if resp.Header.Get("Server") != "moss/1 (linux)" || resp.Header.Get("Api-Version") != "1.24" {
		t.Errorf("headers = %v", resp.Header)
	}
}

// TestAwaitHangup must tell a client that ended its input from one that has gone, while somebody reads.
func TestAwaitHangup(t *testing.T) {
	gone, ended := make(chan struct{}), make(chan struct{})
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		s, err := conn.Hijack(w, r, compat.RawStream)
		if err != nil {
			t.Error(err)
			return
		}
		go func() { s.AwaitHangup(); close(gone) }()
		got, err := io.ReadAll(s)
		if err != nil || string(got) != "some input" {
			t.Errorf("input = %q, %v", got, err)
		}
		close(ended)
		<-gone
		s.Close() //nolint:errcheck // The client has gone.
	})
	c := dial()
	send(t, c, "POST /attach HTTP/1.1\r\nHost: x\r\n\r\n")
	head := make([]byte, len(plainHead))
	if _, err := io.ReadFull(c, head); err != nil {
		t.Fatal(err)
	}
	send(t, c, "some ")
	send(t, c, "input")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-ended
	select { // the poller has told the watch of the end of input by now; taken for a hang-up, it would end the watch at once
	case <-gone:
		t.Fatal("the end of input counts as hanging up")
	case <-time.After(50 * time.Millisecond):
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("the client's going was not noticed")
	}
}

func TestAwaitHangupEndsWithClose(t *testing.T) {
	done := make(chan struct{})
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		s, err := conn.Hijack(w, r, compat.RawStream)
		if err != nil {
			t.Error(err)
			return
		}
		go func() { s.AwaitHangup(); close(done) }()
		<-time.After(20 * time.Millisecond) // lets the watch begin; either order must work
		s.Close()                           //nolint:errcheck // Nothing was sent.
	})
	send(t, dial(), "POST /attach HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("Close did not end AwaitHangup")
	}
}

func TestJSON(t *testing.T) {
	step := make(chan struct{})
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		j := conn.NewJSON(w, r)
		if r.URL.Path == "/fails" {
			if j.Begun() {
				t.Error("Begun before a message")
			}
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		if r.URL.Path == "/open" {
			if err := j.Open(); err != nil || !j.Begun() {
				t.Errorf("Open = %v, begun %v", err, j.Begun())
			}
			<-step
		}
		message := []byte(`{"a":1}?`)[:7]
		if err := errors.Join(j.Send(message), j.Send([]byte("{}\n"))); err != nil {
			t.Error(err)
		}
		if string(message[:8]) != `{"a":1}?` {
			t.Errorf("Send wrote behind the message: %q", message[:8])
		}
		<-step
	})
	for _, path := range []string{"/", "/open"} {
		c := dial()
		send(t, c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if path == "/open" {
			step <- struct{}{} // the head was there without a message
		}
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "application/json" {
			t.Errorf("%s: %d %q, want 200 application/json", path, resp.StatusCode, got)
		}
		lines := bufio.NewReader(resp.Body)
		for _, want := range []string{"{\"a\":1}\n", "{}\n"} {
			if got, err := lines.ReadString('\n'); err != nil || got != want {
				t.Errorf("%s: message %q, %v, want %q at once", path, got, err, want)
			}
		}
		step <- struct{}{}
		resp.Body.Close() //nolint:errcheck // It was read.
	}
	c := dial()
	send(t, c, "GET /fails HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("error before the first message = %v, %v, want 404", resp, err)
	} else {
		resp.Body.Close() //nolint:errcheck // Not needed.
	}
}

// TestOutputArrives sends a little, in a hurry, and then nothing more: the client gets it all the same.
func TestOutputArrives(t *testing.T) {
	release := make(chan struct{})
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		out, err := conn.NewOutput(w, r, compat.RawStream, true)
		if err != nil {
			t.Error(err)
			return
		}
		for range 3 {
			if err := out.Send(stdio.Stdout, []byte("line\n")); err != nil {
				t.Error(err)
			}
		}
		<-release
		if err := errors.Join(out.Close(), out.Close()); err != nil {
			t.Errorf("closing twice = %v", err)
		}
	})
	c := dial()
	send(t, c, "GET / HTTP/1.1\r\nHost: x\r\n"+asking+"\r\n")
	want := upgraded + strings.Repeat("line\n", 3)
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("before the end = %q, %v, want %q", got[:n], err, want)
	}
	close(release)
	if rest, err := io.ReadAll(c); err != nil || len(rest) != 0 {
		t.Errorf("at the end = %q, %v, want nothing more", rest, err)
	}
}

func TestOutput(t *testing.T) {
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		out, err := conn.NewOutput(w, r, compat.RawStream, r.URL.Path == "/tty")
		if err != nil {
			t.Error(err)
			return
		}
		if err := errors.Join(
			out.Send(stdio.Stdout, []byte("stamp "), nil, []byte("one\n")), out.Send(stdio.Stderr, []byte("two\n")),
			out.Fail(errors.New("torn")), out.Close(),
		); err != nil {
			t.Error(err)
		}
	})
	const frames = "\x01\x00\x00\x00\x00\x00\x00\x0astamp one\n\x02\x00\x00\x00\x00\x00\x00\x04two\n\x02\x00\x00\x00\x00\x00\x00\x0cError: torn\n"
	for _, tc := range []struct{ path, headers, want string }{
		{"/", "", frames},
		{"/tty", "", "stamp one\ntwo\nError: torn\n"},
		{"/", asking, upgraded + frames},
		{"/tty", asking, upgraded + "stamp one\ntwo\nError: torn\n"},
	} {
		c := dial()
		send(t, c, "GET "+tc.path+" HTTP/1.1\r\nHost: x\r\n"+tc.headers+"\r\n")
		var got []byte
		var err error
		if tc.headers != "" {
			got, err = io.ReadAll(c)
		} else {
			resp, respErr := http.ReadResponse(bufio.NewReader(c), nil)
			if respErr != nil {
				t.Fatal(respErr)
			}
			if resp.StatusCode != http.StatusOK || len(resp.TransferEncoding) != 1 || resp.Header.Get("Content-Type") != compat.RawStream {
				t.Errorf("%s: head = %+v, want 200, chunked, %s", tc.path, resp, compat.RawStream)
			}
			got, err = io.ReadAll(resp.Body)
			resp.Body.Close() //nolint:errcheck // It was read.
		}
		if err != nil || string(got) != tc.want {
			t.Errorf("%s with %q = %q, %v, want %q", tc.path, tc.headers, got, err, tc.want)
		}
	}
}
