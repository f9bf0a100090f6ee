package conn_test

import (
	"bufio"
	"context"
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
)

// TestHijackBodies: a body that comes along is the beginning of the input, and without an upgrade all of it.
func TestHijackBodies(t *testing.T) {
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/read" { // as one that was read by its handler
			io.Copy(io.Discard, r.Body) //nolint:errcheck // a test's own
			conn.BodyRead(r)
		}
		s, err := conn.Hijack(w, r, compat.RawStream)
		if err != nil {
			t.Error(err)
			return
		}
		got, err := io.ReadAll(s)
		if err != nil {
			got = append(got, " error"...)
		}
		send(t, s, string(got))
		s.CloseWrite() //nolint:errcheck // the client may have gone
		s.DropInput()
		s.Close() //nolint:errcheck // likewise
	})
	const proceed = "HTTP/1.1 100 Continue\r\n\r\n"
	in := "Transfer-Encoding: chunked\r\n"
	for _, tc := range []struct{ name, path, headers, sent, head, want string }{
		{"chunked", "/", in, "2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\nlate", plainHead, "abc"},
		{"chunked, upgrade", "/", asking + in, "2\r\nab\r\n0\r\n\r\nlate", upgraded, "ablate"},
		{"chunked with a trailer, upgrade", "/", asking + in, "0\r\nA: b\r\nC: d\r\n\r\nlate", upgraded, "late"},
		{"chunked JSON", "/", in + "Content-Type: application/json\r\n", "2\r\n{}\r\n0\r\n\r\nlate", plainHead, "late"},
		{"chunked and read", "/read", in, "2\r\n{}\r\n0\r\n\r\nlate", plainHead, "late"},
		{"no chunk", "/", in, "zz\r\n", plainHead, " error"},
		{"a chunk cut off", "/", in, "8\r\nab", plainHead, "ab error"},
		{"a trailer cut off", "/", asking + in, "0\r\nA: b", upgraded, " error"},
		{"sized", "/", "Content-Length: 3\r\n", "abclate", plainHead, "abc"},
		{"sized, upgrade", "/", asking + "Content-Length: 3\r\n", "abclate", upgraded, "abclate"},
		{"expects to be asked", "/", "Expect: 100-continue\r\nContent-Length: 3\r\n", "abc", proceed + plainHead, "abc"},
		{"expects, upgrade", "/", asking + "Expect: 100-continue\r\nContent-Length: 3\r\n", "abcd", proceed + upgraded, "abcd"},
		{"expects for nothing", "/", "Expect: 100-continue\r\n", "abc", plainHead, "abc"},
		{"expects, and it was read", "/read", "Expect: 100-continue\r\nContent-Length: 3\r\n", "{ }abc", proceed + plainHead, "abc"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := dial()
			send(t, c, "POST "+tc.path+" HTTP/1.1\r\nHost: x\r\n"+tc.headers+"\r\n"+tc.sent)
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(c); err != nil || string(got) != tc.head+tc.want {
				t.Errorf("answer = %q, %v, want %q", got, err, tc.head+tc.want)
			}
		})
	}
	c := dial()
	send(t, c, "POST / HTTP/1.0\r\n"+asking+"\r\nabc")
	c.CloseWrite() //nolint:errcheck // the answer tells
	if got, err := io.ReadAll(c); err != nil || string(got) != upgraded+"abc" {
		t.Errorf("HTTP/1.0 = %q, %v, want %q", got, err, upgraded+"abc")
	}
}

// TestAwaitInput: what is there, or the end, is told at once; and nothing is lost by waiting.
// TestHeadIsReadAlone: a client that reads late gets the head, and what follows in another read: one that reads the head
// through a buffer and the rest from the socket itself loses nothing.
func TestHeadIsReadAlone(t *testing.T) {
	writes := make(chan struct{})
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		s, err := conn.Hijack(w, r, compat.RawStream)
		if err != nil {
			t.Error(err)
			return
		}
		close(writes)
		send(t, s, "output")
		s.Close() //nolint:errcheck // a test's own
	})
	c := dial()
	send(t, c, "POST / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-writes
	time.Sleep(100 * time.Millisecond) // the output is there by then, unless it waits for the reading of the head
	buffer := make([]byte, 4096)
	for _, want := range []string{plainHead, "output"} {
		n, err := c.Read(buffer)
		if got := string(buffer[:n]); err != nil || got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
}

func TestAwaitInput(t *testing.T) {
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		s, err := conn.Hijack(w, r, compat.RawStream)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close() //nolint:errcheck // The test reads to the end.
		buf := make([]byte, 3)
		for {
			if err := s.AwaitInput(); err != nil {
				t.Errorf("AwaitInput = %v", err)
				return
			}
			n, err := s.Read(buf)
			send(t, s, string(buf[:n])+".")
			if err != nil {
				return
			}
		}
	})
	c := dial()
	send(t, c, "POST / HTTP/1.1\r\nHost: x\r\n\r\nearly")
	got := make([]byte, len(plainHead)+len("ear.ly."))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != plainHead+"ear.ly." {
		t.Fatalf("got %q, %v", got, err)
	}
	send(t, c, "x")
	if _, err := io.ReadFull(c, got[:2]); err != nil || string(got[:2]) != "x." {
		t.Fatalf("got %q, %v", got[:2], err)
	}
	c.CloseWrite() //nolint:errcheck // the answer tells
	if rest, err := io.ReadAll(c); err != nil || string(rest) != "." {
		t.Errorf("at the end %q, %v", rest, err)
	}
}

func FuzzHijackBody(f *testing.F) {
	f.Add("2\r\nab\r\n0\r\n\r\nlate", true)
	f.Add("0\r\nA: b\r\n\r\n", true)
	f.Add("ffffffffffffffff\r\n", false)
	f.Add("2\r\nab", false)
	f.Fuzz(func(t *testing.T, sent string, upgrade bool) {
		ours, theirs := net.Pipe()
		go func() {
			io.WriteString(theirs, sent) //nolint:errcheck // the other side may have seen enough
			theirs.Close()               //nolint:errcheck // a pipe in memory
		}()
		w := &taken{conn: ours, buffered: bufio.NewReadWriter(bufio.NewReader(strings.NewReader("")), bufio.NewWriter(io.Discard))}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("-"))
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
		if upgrade {
			r.Header.Set("Connection", "upgrade")
			r.Header.Set("Upgrade", "tcp")
		}
		s, err := conn.Hijack(w, r, compat.RawStream)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(s) // what is malformed is an error
		if len(got) > len(sent) {
			t.Errorf("%d bytes of %q, want no more than were sent", len(got), sent)
		}
		s.Close() //nolint:errcheck // a pipe in memory
	})
}

// taken is an answer whose connection can be taken over; the head is dropped.
type taken struct {
	httptest.ResponseRecorder

	conn     net.Conn
	buffered *bufio.ReadWriter
}

func (t *taken) Hijack() (net.Conn, *bufio.ReadWriter, error) { return silent{t.conn}, t.buffered, nil }

// silent is a connection that nobody reads from.
type silent struct{ net.Conn }

func (silent) Write(p []byte) (int, error) { return len(p), nil }

// TestPatient: the end of a client's side leaves its request alone, its going does not, nor does the server's end.
func TestPatient(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan string, 1)
	path := filepath.Join(t.TempDir(), "s")
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(t.Context())
	release := make(chan struct{})
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		BaseContext:       func(net.Listener) context.Context { return life },
		ConnContext:       conn.WithLine,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := conn.Patient(r)
			defer cancel()
			begun <- struct{}{}
			select {
			case <-ctx.Done():
				ended <- "ended"
			case <-release:
				ended <- "released"
				io.WriteString(w, "answer") //nolint:errcheck // the test reads it
			}
		}),
	}
	go server.Serve(l) //nolint:errcheck // the test ends it
	t.Cleanup(func() { server.Close() })
	ask := func() *net.UnixConn {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() }) //nolint:errcheck // It may be closed already.
		send(t, c, "GET / HTTP/1.0\r\n\r\n")
		<-begun
		return c
	}
	silence := func(what string) {
		t.Helper()
		select { // a hang-up is noticed at once, so that what is taken for one ends the request within the time
		case how := <-ended:
			t.Fatalf("%s: %s", what, how)
		case <-time.After(50 * time.Millisecond):
		}
	}
	c := ask()
	c.CloseWrite() //nolint:errcheck // the answer tells
	silence("the end of the client's side")
	release <- struct{}{}
	if got, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(got), "\r\n\r\nanswer") || <-ended != "released" {
		t.Errorf("answer = %q, %v", got, err)
	}
	for _, half := range []bool{false, true} {
		c = ask()
		if half {
			c.CloseWrite() //nolint:errcheck // the rest tells
			silence("half-closed")
		}
		c.Close() //nolint:errcheck // likewise
		if how := <-ended; how != "ended" {
			t.Errorf("after the client's going: %s", how)
		}
	}
	c = ask()
	c.CloseWrite() //nolint:errcheck // the rest tells
	silence("half-closed")
	end()
	if how := <-ended; how != "ended" {
		t.Errorf("after the server's end: %s", how)
	}
}
