package conn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"

	"moss/engine/fault"
)

// Upgrades reports whether the client asked for another protocol on its connection: Upgrade: tcp and Connection: Upgrade.
func Upgrades(r *http.Request) bool {
	return hasToken(r.Header, "Connection", "upgrade") && hasToken(r.Header, "Upgrade", "tcp")
}

func hasToken(h http.Header, key, token string) bool {
	for _, line := range h.Values(key) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// Hijack takes the connection over and writes the head: 101 with the upgrade's headers when the client asked for one, 200
// otherwise. What follows is raw bytes both ways. Headers set on w before are not sent, but for the engine's own. The
// caller closes the stream. An error before the takeover leaves w usable.
func Hijack(w http.ResponseWriter, r *http.Request) (*Stream, error) {
	if err := dropBody(w, r); err != nil {
		return nil, err
	}
	head := head(w.Header(), Upgrades(r))
	raw, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fault.Internal("take over the connection: %v", err)
	}
	s := &Stream{conn: raw, in: unread(raw, buffered.Reader), hangups: newHangups(raw), done: make(chan struct{})}
	if _, err := io.WriteString(raw, head); err != nil {
		return nil, errors.Join(fmt.Errorf("write the head: %w", err), s.Close())
	}
	return s, nil
}

// maxBody is how many bytes of a request's own body are read before the takeover.
const maxBody = 1 << 20

// dropBody reads the JSON body that some clients send along: it repeats their query and is no input of the process. A
// body of any other type is input. One that is too long, or ends early, is fault.Invalid.
func dropBody(w http.ResponseWriter, r *http.Request) error {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // what is not one is empty
	if mediaType != "application/json" || r.ContentLength <= 0 {
		return nil
	}
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return fault.Invalid("read the body: %v", err)
	}
	return nil
}

// head builds the answer's head. Its form is the one that clients of that time compare literally.
func head(set http.Header, upgrade bool) string {
	var b strings.Builder
	if upgrade {
		b.WriteString("HTTP/1.1 101 UPGRADED\r\nContent-Type: " + RawStream + "\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n")
	} else {
		b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: " + RawStream + "\r\n")
	}
	for _, key := range []string{"Api-Version", "Ostype", "Docker-Experimental", "Server"} {
		if value := set.Get(key); value != "" {
			b.WriteString(key + ": " + value + "\r\n")
		}
	}
	b.WriteString("\r\n")
	return b.String()
}

// unread returns a reader of the bytes that the HTTP server has already taken from the connection, then the connection.
func unread(raw net.Conn, buffered *bufio.Reader) io.Reader {
	n := buffered.Buffered()
	if n == 0 {
		return raw
	}
	early, err := buffered.Peek(n)
	if err != nil {
		return raw
	}
	return io.MultiReader(strings.NewReader(string(early)), raw)
}

// Stream is a client's connection after the takeover. Reading and writing may happen at the same time.
type Stream struct {
	conn    net.Conn
	in      io.Reader
	hangups *hangups // nil where the connection cannot be watched

	once sync.Once
	done chan struct{} // closed by Close
	err  error         // of closing
}

// Read reads what the client sent, beginning with what it sent along with its request. io.EOF means that it closed its
// side for writing; it may still be reading.
func (s *Stream) Read(p []byte) (int, error) { return s.in.Read(p) }

// Write sends to the client.
func (s *Stream) Write(p []byte) (int, error) { return s.conn.Write(p) }

// CloseWrite tells the client that nothing more comes, and goes on reading. Where the connection knows no half-close it
// does nothing.
func (s *Stream) CloseWrite() error {
	if half, ok := s.conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// AwaitHangup blocks until the client has closed both of its sides or Close is called. A client that only ended its
// input is still there. Over TCP a client that went looks like one that ended its input until something is sent to it.
func (s *Stream) AwaitHangup() {
	if s.hangups == nil || !s.hangups.wait() {
		<-s.done
	}
}

// Close ends the connection. Closing twice is safe.
func (s *Stream) Close() error {
	s.once.Do(func() {
		close(s.done)
		if s.hangups != nil {
			s.err = s.hangups.close()
		}
		s.err = errors.Join(s.conn.Close(), s.err)
	})
	return s.err
}
