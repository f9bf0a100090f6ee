package conn

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"syscall"

	"moss/api/compat"
	"moss/engine/fault"
	"moss/engine/stdio"
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

// Hijack takes the connection over and writes the head, with a media type: 101 with the upgrade's headers when the client
// asked for one, 200 otherwise. What follows is raw bytes both ways. Headers set on w before are not sent, but for the engine's
// own. The caller closes the stream. An error before the takeover leaves w usable.
//
// A body that comes with the request is the beginning of the input, without its chunks' heads; without an upgrade its end
// is that of the input too, since nothing but another request could follow it.
func Hijack(w http.ResponseWriter, r *http.Request, mediaType string) (*Stream, error) {
	if err := dropBody(w, r); err != nil {
		return nil, err
	}
	upgrade := Upgrades(r)
	head := compat.Takeover(w.Header(), upgrade, mediaType)
	raw, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fault.Internal("take over the connection: %v", err)
	}
	s := &Stream{conn: raw, done: make(chan struct{})}
	s.takeInput(r, buffered.Reader, upgrade)
	if hasBody(r) && r.ProtoAtLeast(1, 1) && hasToken(r.Header, "Expect", "100-continue") {
		head = "HTTP/1.1 100 Continue\r\n\r\n" + head
	}
	if _, err := io.WriteString(raw, head); err != nil {
		return nil, errors.Join(fmt.Errorf("write the head: %w", err), s.Close())
	}
	return s, nil
}

// maxBody is how many bytes of a request's own body are read before the takeover.
const maxBody = 1 << 20

func hasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0
}

// dropBody reads the JSON body that some clients send along: it repeats their query and is no input of the process. A
// body of any other type is input. One that is too long, or ends early, is fault.Invalid.
func dropBody(w http.ResponseWriter, r *http.Request) error {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // what is not one is empty
	if mediaType != compat.JSON || !hasBody(r) {
		return nil
	}
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return fault.Invalid("read the body: %v", err)
	}
	BodyRead(r)
	return nil
}

// BodyRead notes that a request's body has been read to its end: none of it is input of a process.
func BodyRead(r *http.Request) { r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil }

// takeInput makes the input of what the HTTP server has already taken from the connection, then the connection.
func (s *Stream) takeInput(r *http.Request, buffered *bufio.Reader, upgrade bool) {
	var ahead []byte
	if n := buffered.Buffered(); n > 0 {
		ahead, _ = buffered.Peek(n) // that many are there
	}
	s.ahead = bytes.NewReader(bytes.Clone(ahead))
	s.in = io.MultiReader(s.ahead, s.conn)
	switch {
	case !hasBody(r):
	case r.ContentLength < 0:
		lines := bufio.NewReader(s.in)
		s.in, s.coded = httputil.NewChunkedReader(lines), true
		if upgrade {
			s.in = io.MultiReader(s.in, &trailer{lines: lines}, lines)
		}
	case !upgrade:
		s.in, s.coded = io.LimitReader(s.in, r.ContentLength), true
	}
}

// trailer reads what follows the last chunk of a body, up to and with its empty line, and gives nothing of it.
type trailer struct {
	lines *bufio.Reader
	size  int
}

// Read returns io.EOF, or fault.Invalid for what is no trailer.
func (t *trailer) Read([]byte) (int, error) {
	for {
		line, err := t.lines.ReadSlice('\n')
		t.size += len(line)
		switch {
		case err != nil:
			return 0, fault.Invalid("read the body's trailer: %v", err)
		case len(bytes.TrimRight(line, "\r\n")) == 0:
			return 0, io.EOF
		case t.size > maxBody:
			return 0, fault.Invalid("the body's trailer has more than %d bytes", maxBody)
		}
	}
}

// Stream is a client's connection after the takeover. Reading and writing may happen at the same time.
type Stream struct {
	conn  net.Conn
	in    io.Reader
	ahead *bytes.Reader // of the raw input, what came with the request
	coded bool          // the input is not the connection's bytes as they are
	begin sync.Once     // of the output

	once sync.Once
	done chan struct{} // closed by Close
	err  error         // of closing
}

// Read reads what the client sent, beginning with what it sent along with its request. io.EOF means that it closed its
// side for writing; it may still be reading.
func (s *Stream) Read(p []byte) (int, error) { return s.in.Read(p) }

// DropInput reads until the client has ended its side, also beyond the body that was the input, or Close is called.
func (s *Stream) DropInput() {
	io.Copy(io.Discard, s.conn) //nolint:errcheck // either side may leave at any time
}

// AwaitInput blocks until Read would not, where the connection can be waited for.
func (s *Stream) AwaitInput() error {
	raw := socketOf(s.conn)
	if _, plain := s.conn.(syscall.Conn); raw == nil || !plain || s.coded || s.ahead.Len() > 0 {
		return nil
	}
	return stdio.AwaitInput(raw)
}

// Write sends to the client. The first call waits until the client has read the head, five seconds at most.
func (s *Stream) Write(p []byte) (int, error) {
	s.begin.Do(s.awaitHead)
	return s.conn.Write(p)
}

// CloseWrite tells the client that nothing more comes, and goes on reading. Where the connection knows no half-close it
// does nothing.
func (s *Stream) CloseWrite() error {
	if half, ok := s.conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// AwaitHangup blocks until the client has closed both of its sides or Close is called. A client that only ended its
// input is still there. Over TCP a client that went looks like one that ended its input until something is sent to it, or
// until its system says that it knows the connection no more.
func (s *Stream) AwaitHangup() {
	if !awaitHangup(s.conn, s.done) {
		<-s.done
	}
}

// Close ends the connection. Closing twice is safe.
func (s *Stream) Close() error {
	s.once.Do(func() {
		close(s.done)
		s.err = s.conn.Close()
	})
	return s.err
}
