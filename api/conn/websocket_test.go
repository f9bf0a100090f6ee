package conn_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"moss/api/conn"
	"moss/engine/stdio"
)

// serveSocket has handle answer each WebSocket and returns a function that opens one.
func serveSocket(t *testing.T, tty bool, handle func(*conn.WebSocket)) func(subprotocols ...string) *websocket.Conn {
	t.Helper()
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := conn.CheckWebSocket(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s, err := conn.NewWebSocket(w, r, tty, false)
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close() //nolint:errcheck // It has no error.
		handle(s)
	})
	return func(subprotocols ...string) *websocket.Conn {
		client := &http.Client{Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil },
		}}
		ws, _, err := websocket.Dial(t.Context(), "ws://moss/", &websocket.DialOptions{HTTPClient: client, Subprotocols: subprotocols}) //nolint:bodyclose // The library does.
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ws.CloseNow() }) //nolint:errcheck // It may be closed already.
		return ws
	}
}

// receive reads messages, each as its type and text, until the other side closes, and then the code.
func receive(t *testing.T, ws *websocket.Conn) (messages []string, code websocket.StatusCode) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		kind, p, err := ws.Read(ctx)
		if err != nil {
			return messages, websocket.CloseStatus(err)
		}
		messages = append(messages, fmt.Sprintf("%s %s", strings.TrimPrefix(kind.String(), "Message"), p))
	}
}

func frame(stream stdio.Stream, text string) string {
	return string(stdio.AppendHeader(nil, stream, len(text))) + text
}

func TestWebSocketOutput(t *testing.T) {
	const two, three = "ä", "€"
	for _, tc := range []struct {
		name     string
		tty      bool
		protocol []string
		written  []string
		want     []string
	}{
		{"terminal", true, nil, []string{"one\n", "two\r\n"}, []string{"Text one\n", "Text two\r\n"}},
		{"frames", false, nil, []string{frame(1, "out") + frame(2, "err"), frame(0, "in")}, []string{"Text out", "Text err", "Text in"}},
		{
			"frames in pieces", false, nil,
			[]string{frame(1, "hello")[:3], frame(1, "hello")[3:10], frame(1, "hello")[10:] + frame(2, "")},
			[]string{"Text he", "Text llo"},
		},
		{"not UTF-8", true, nil, []string{"a\xffb", "c"}, []string{"Binary a\xffb", "Text c"}},
		{"rune in two writes", true, nil, []string{"x" + two[:1], two[1:] + "y"}, []string{"Text x", "Text " + two + "y"}},
		{"rune in three writes", true, nil, []string{three[:1], three[1:2], three[2:]}, []string{"Text " + three}},
		{
			"runes of two streams", false, nil,
			[]string{frame(1, two[:1]), frame(2, three[:2]), frame(1, two[1:]), frame(2, three[2:])},
			[]string{"Text " + two, "Text " + three},
		},
		{"rune that never ends", true, nil, []string{"x" + three[:2]}, []string{"Text x", "Binary " + three[:2]}},
		{"begun rune and another letter", true, nil, []string{three[:1], "a"}, []string{"Binary " + three[:1] + "a"}},
		{"only continuations", true, nil, []string{"\x80\x80\x80\x80"}, []string{"Binary \x80\x80\x80\x80"}},
		{"binary asked for", true, []string{"chat", "binary"}, []string{"x" + two[:1], two[1:]}, []string{"Binary x" + two[:1], "Binary " + two[1:]}},
		{"other protocol", true, []string{"chat"}, []string{"x"}, []string{"Text x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dial := serveSocket(t, tc.tty, func(s *conn.WebSocket) {
				for _, p := range tc.written {
					if n, err := io.WriteString(s, p); n != len(p) || err != nil {
						t.Errorf("Write(%q) = %d, %v", p, n, err)
					}
				}
			})
			got, code := receive(t, dial(tc.protocol...))
			if fmt.Sprint(got) != fmt.Sprint(tc.want) || code != websocket.StatusNormalClosure {
				t.Errorf("messages = %q, closed with %d, want %q and 1000", got, code, tc.want)
			}
		})
	}
}

func TestWebSocketWriteGarbage(t *testing.T) {
	dial := serveSocket(t, false, func(s *conn.WebSocket) {
		if n, err := io.WriteString(s, "no frames at all"); n != 0 || err == nil {
			t.Errorf("Write of what is no frame = %d, %v, want an error", n, err)
		}
	})
	if got, code := receive(t, dial()); got != nil || code != websocket.StatusNormalClosure {
		t.Errorf("messages = %q, closed with %d, want none and 1000", got, code)
	}
}

// TestWebSocketInput sends text and binary; the end comes with the client's close, and AwaitHangup with it.
func TestWebSocketInput(t *testing.T) {
	got := make(chan string, 1)
	dial := serveSocket(t, true, func(s *conn.WebSocket) {
		raw, err := io.ReadAll(s)
		if err != nil {
			t.Error(err)
		}
		s.AwaitHangup()
		got <- string(raw)
	})
	ws := dial()
	large := strings.Repeat("x", 1<<20)
	if err := errors.Join(
		ws.Write(t.Context(), websocket.MessageText, []byte("text ")), ws.Write(t.Context(), websocket.MessageText, nil),
		ws.Write(t.Context(), websocket.MessageBinary, []byte("\xff\x00 ")), ws.Write(t.Context(), websocket.MessageBinary, []byte(large)),
		ws.Close(websocket.StatusNormalClosure, "done"),
	); err != nil {
		t.Fatal(err)
	}
	if raw := <-got; raw != "text \xff\x00 "+large {
		t.Errorf("input = %.40q (%d bytes), want all that was sent", raw, len(raw))
	}
}

func TestWebSocketLargeMessage(t *testing.T) {
	dial := serveSocket(t, true, func(s *conn.WebSocket) {
		if n, err := io.Copy(io.Discard, s); err != nil || n > 1<<20+1 { // the library looks one byte ahead
			t.Errorf("input = %d bytes, %v, want little more than 1 MiB and the end", n, err)
		}
	})
	ws := dial()
	go ws.Write(t.Context(), websocket.MessageBinary, make([]byte, 1<<20+1)) //nolint:errcheck // The other side closes.
	if _, code := receive(t, ws); code != websocket.StatusMessageTooBig {
		t.Errorf("closed with %d, want 1009", code)
	}
}

// TestWebSocketPing asks while nothing else is sent, before anybody reads the input.
func TestWebSocketPing(t *testing.T) {
	release := make(chan struct{})
	dial := serveSocket(t, true, func(*conn.WebSocket) { <-release })
	ws := dial()
	ended := ws.CloseRead(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := ws.Ping(ctx); err != nil {
		t.Errorf("ping = %v", err)
	}
	close(release)
	<-ended.Done()
}

// TestWebSocketGone must be noticed although more input is there than anybody reads.
func TestWebSocketGone(t *testing.T) {
	done := make(chan struct{})
	dial := serveSocket(t, true, func(s *conn.WebSocket) {
		s.AwaitHangup()
		close(done)
	})
	ws := dial()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte("never read")); err != nil {
		t.Fatal(err)
	}
	if err := ws.CloseNow(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the client's going was not noticed")
	}
}

// TestWebSocketSilentClient does not answer the closing: the connection ends all the same, and soon.
func TestWebSocketSilentClient(t *testing.T) {
	closed := make(chan time.Duration, 1)
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		s, err := conn.NewWebSocket(w, r, true, false)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := io.WriteString(s, "hello"); err != nil {
			t.Error(err)
		}
		begin := time.Now()
		s.Close() //nolint:errcheck // It has no error.
		s.Close() //nolint:errcheck // Twice is safe.
		closed <- time.Since(begin)
	})
	c := dial()
	send(t, c, handshake(""))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close() //nolint:errcheck // There is none.
	const accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
	if got := resp.Header.Get("Sec-WebSocket-Accept"); resp.StatusCode != http.StatusSwitchingProtocols || got != accept {
		t.Errorf("head = %d %q, want 101 %q", resp.StatusCode, got, accept)
	}
	if took := <-closed; took > 30*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// handshake is the request of RFC 6455, 1.3, with other headers where given.
func handshake(changed string) string {
	var head strings.Builder
	head.WriteString("GET /attach/ws HTTP/1.1\r\nHost: x\r\n")
	for _, h := range []string{
		"Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
	} {
		name, _, _ := strings.Cut(h, ":")
		if !strings.Contains(changed, name+":") {
			head.WriteString(h + "\r\n")
		}
	}
	return head.String() + changed + "\r\n"
}

func TestCheckWebSocket(t *testing.T) {
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := conn.CheckWebSocket(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	for _, tc := range []struct {
		name, changed string
		status        int
	}{
		{"the example", "", http.StatusOK},
		{"no Connection", "Connection: keep-alive\r\n", http.StatusBadRequest},
		{"no Upgrade", "Upgrade: tcp\r\n", http.StatusBadRequest},
		{"another version", "Sec-WebSocket-Version: 8\r\n", http.StatusBadRequest},
		{"a short key", "Sec-WebSocket-Key: dGhl\r\n", http.StatusBadRequest},
		{"no base64", "Sec-WebSocket-Key: !!!\r\n", http.StatusBadRequest},
		{"HTTP/1.0", "HTTP/1.0", http.StatusBadRequest},
		{"two keys", "Sec-WebSocket-Key: a\r\nSec-WebSocket-Key: b\r\n", http.StatusBadRequest},
	} {
		c := dial()
		request := handshake(tc.changed)
		if tc.changed == "HTTP/1.0" {
			request = strings.Replace(handshake(""), "HTTP/1.1", tc.changed, 1)
		}
		send(t, c, request)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close() //nolint:errcheck // The status says enough.
		if resp.StatusCode != tc.status {
			t.Errorf("%s: %d, want %d", tc.name, resp.StatusCode, tc.status)
		}
		if got := resp.Header.Get("Sec-WebSocket-Version"); strings.Contains(tc.name, "version") && got != "13" {
			t.Errorf("%s: Sec-WebSocket-Version %q, want 13", tc.name, got)
		}
	}
}

// masked is a message's piece as clients send it (RFC 6455, 5.2), masked with zeros.
func masked(last bool, opcode byte, payload string) string {
	if last {
		opcode |= 0x80
	}
	return string([]byte{opcode, 0x80 | byte(len(payload)), 0, 0, 0, 0}) + payload
}

// TestWebSocketPieces: messages in pieces, with a ping between them, an empty one, and frames that are none.
func TestWebSocketPieces(t *testing.T) {
	input := make(chan string, 1)
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		s, err := conn.NewWebSocket(w, r, true, false)
		if err != nil {
			t.Error(err)
			return
		}
		got, err := io.ReadAll(s)
		if err != nil {
			t.Error(err)
		}
		input <- string(got)
		s.Close() //nolint:errcheck // It has no error.
	})
	const text, binary, more, closing, ping, pong, unknown = 1, 2, 0, 8, 9, 10, 3
	for _, tc := range []struct{ name, sent, input, answer string }{
		{
			"pieces", masked(false, text, "a") + masked(true, ping, "hi") + masked(false, more, "b") + masked(true, more, "c") +
				masked(true, binary, "") + masked(true, binary, "d") + masked(true, closing, "\x03\xe8"),
			"abcd", "\x8a\x02hi" + "\x88\x02\x03\xe8",
		},
		{"an answer nobody asked for", masked(true, pong, "x") + masked(true, closing, ""), "", "\x88\x00"},
		{"an unknown kind", masked(true, unknown, ""), "", "\x88\x02\x03\xea"},
		{"a piece of nothing", masked(true, more, "x"), "", "\x88\x02\x03\xea"},
		{"not masked", "\x81\x01x", "", "\x88\x02\x03\xe8"},
		{"cut off", masked(false, text, "a") + "\x81", "a", "\x88\x02\x03\xe8"},
	} {
		c := dial()
		send(t, c, handshake("")+tc.sent)
		c.CloseWrite() //nolint:errcheck // the answer tells
		if got := <-input; got != tc.input {
			t.Errorf("%s: input %q, want %q", tc.name, got, tc.input)
		}
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()        //nolint:errcheck // There is none.
		rest, _ := io.ReadAll(r) // it may be cut off after its last message
		// A reason may follow the code, and the length of both is that of the frame.
		want, got := tc.answer, string(rest)
		if strings.HasPrefix(want, "\x88\x02\x03\xea") && len(got) > 4 {
			got = got[:1] + "\x02" + got[2:4]
		}
		if got != want {
			t.Errorf("%s: answer %q, want %q", tc.name, rest, want)
		}
	}
}

// TestWebSocketSlowReader: one that never reads blocks what is written to it and nothing else; its going ends that.
func TestWebSocketSlowReader(t *testing.T) {
	done := make(chan int, 1)
	dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
		s, err := conn.NewWebSocket(w, r, true, false)
		if err != nil {
			t.Error(err)
			return
		}
		n, piece := 0, make([]byte, 64<<10)
		for n < 64<<20 && err == nil {
			_, err = s.Write(piece)
			n += len(piece)
		}
		s.Close() //nolint:errcheck // It has no error.
		done <- n
	})
	c := dial()
	send(t, c, handshake(""))
	select { // unless the write blocks, a memory copy of 64 MiB is over, or far beyond the limit below
	case n := <-done:
		t.Fatalf("%d bytes were taken for a client that does not read", n)
	case <-time.After(100 * time.Millisecond):
	}
	c.Close() //nolint:errcheck // It was not read.
	select {
	case n := <-done:
		if n > 2<<20 {
			t.Errorf("%d bytes were taken", n)
		}
	case <-time.After(time.Minute):
		t.Fatal("the write is still blocked")
	}
}
