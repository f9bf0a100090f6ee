package conn

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"moss/engine/fault"
	"moss/engine/stdio"
)

const (
	// maxMessage is how many bytes a client's message may have. A longer one ends the connection with code 1009.
	maxMessage = 1 << 20
	// inputChunk is how much of a message is read at once, and inputAhead how many such pieces are kept for the process
	// before the client has to wait: who waits is not heard when it closes.
	inputChunk, inputAhead = 32 << 10, 64
	// closePatience is how long a client gets to answer the closing of the connection.
	closePatience = time.Second
	// binaryProtocol is the subprotocol that asks for binary messages only.
	binaryProtocol = "binary"
)

// CheckWebSocket reports what is wrong with a request for a WebSocket (RFC 6455, 4.2.1) as fault.Invalid. w gets the
// headers that tell a client what is spoken here.
func CheckWebSocket(w http.ResponseWriter, r *http.Request) error {
	keys := r.Header.Values("Sec-Websocket-Key")
	switch {
	case !r.ProtoAtLeast(1, 1) || !hasToken(r.Header, "Connection", "upgrade") || !hasToken(r.Header, "Upgrade", "websocket"):
		return fault.Invalid("this endpoint is a WebSocket: the request lacks Connection: Upgrade and Upgrade: websocket")
	case r.Header.Get("Sec-Websocket-Version") != "13":
		w.Header().Set("Sec-Websocket-Version", "13")
		return fault.Invalid("invalid Sec-WebSocket-Version %q: 13 is spoken here", r.Header.Get("Sec-Websocket-Version"))
	case len(keys) != 1:
		return fault.Invalid("%d headers Sec-WebSocket-Key: want one", len(keys))
	}
	const keySize = 16
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0])); err != nil || len(raw) != keySize {
		return fault.Invalid("invalid Sec-WebSocket-Key %q: want %d bytes in base64", keys[0], keySize)
	}
	return nil
}

// WebSocket is a client's connection that carries a container's streams in messages. What the client sends, as text or
// binary, is input. What is written is the container's output as attach gives it, and reaches the client without frames:
// as text where it is UTF-8, never cut inside a rune, as binary where it is not. The bytes of a rune that is not complete
// wait for the rest of it.
//
// One goroutine may read while another writes. To close the input alone has no form here: a client that closes has gone.
type WebSocket struct {
	ctx    context.Context //nolint:containedctx // of the connection, which outlives its request
	ws     *websocket.Conn
	raw    net.Conn
	binary bool // no message is text

	input chan []byte   // what the client sent; closed after the last of it
	ahead []byte        // of input, not read yet
	ended chan struct{} // closed when the client sends no more
	gone  chan struct{} // closed when the client is seen to have gone, whatever of its input is left
	over  chan struct{} // closed by Close: nobody wants input any more
	shut  chan struct{} // closed when the closing handshake is over

	begin   sync.Once // guards the start of the closing handshake
	end     sync.Once // guards Close
	workers sync.WaitGroup

	mu     sync.Mutex // held by Write; guards the fields below
	frames *unframer  // nil with a terminal
	halves [stdio.Stderr + 1][]byte
}

// NewWebSocket answers a request that CheckWebSocket has found good and takes its connection over. tty says that what will
// be written is a terminal's output, which has no frames; with binary no message is text. The caller closes the WebSocket.
//
// The origin of the request is not checked: the server does that for everything that takes a connection over.
func NewWebSocket(w http.ResponseWriter, r *http.Request, tty, binary bool) (*WebSocket, error) {
	recorder := &hijackRecorder{ResponseWriter: w}
	ws, err := websocket.Accept(recorder, r, &websocket.AcceptOptions{
		Subprotocols: []string{binaryProtocol}, InsecureSkipVerify: true,
	})
	if err != nil {
		return nil, fault.Internal("take over the connection: %v", err)
	}
	ws.SetReadLimit(maxMessage)
	s := &WebSocket{
		ctx: context.WithoutCancel(r.Context()), ws: ws, raw: recorder.raw, binary: binary || ws.Subprotocol() != "",
		input: make(chan []byte, inputAhead), ended: make(chan struct{}), gone: make(chan struct{}),
		over: make(chan struct{}), shut: make(chan struct{}),
	}
	if !tty {
		s.frames = &unframer{}
	}
	s.workers.Go(s.readMessages)
	s.workers.Go(func() {
		if awaitHangup(s.raw, s.over) {
			close(s.gone)
		}
	})
	return s, nil
}

// readMessages reads the client's messages until it closes. Pings are answered meanwhile.
func (s *WebSocket) readMessages() {
	defer close(s.ended)
	defer close(s.input)
	for {
		_, message, err := s.ws.Reader(s.ctx)
		if err != nil {
			return
		}
		for err == nil {
			chunk := make([]byte, inputChunk)
			var n int
			n, err = message.Read(chunk)
			if n == 0 {
				continue
			}
			select {
			case s.input <- chunk[:n:n]:
			case <-s.over:
			}
		}
		if !errors.Is(err, io.EOF) {
			return
		}
	}
}

// Read reads what the client sent. io.EOF means that it has closed, has gone, or sent what cannot be read.
func (s *WebSocket) Read(p []byte) (int, error) {
	if len(s.ahead) == 0 {
		chunk, more := <-s.input
		if !more {
			return 0, io.EOF
		}
		s.ahead = chunk
	}
	n := copy(p, s.ahead)
	s.ahead = s.ahead[n:]
	return n, nil
}

// Write sends output. fault.Invalid for bytes that are no frames where there should be some.
func (s *WebSocket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	send := s.sendLocked
	var err error
	if s.frames == nil {
		err = send(stdio.Stdout, p)
	} else {
		err = s.frames.emitPayloads(p, send)
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *WebSocket) sendLocked(stream stdio.Stream, p []byte) error {
	if s.binary {
		return s.sendMessage(websocket.MessageBinary, p)
	}
	if half := s.halves[stream]; len(half) > 0 {
		p = append(half, p...)
	}
	whole := len(p) - halfRune(p)
	s.halves[stream] = slices.Clone(p[whole:])
	if p = p[:whole]; utf8.Valid(p) {
		return s.sendMessage(websocket.MessageText, p)
	}
	return s.sendMessage(websocket.MessageBinary, p)
}

// sendMessage sends one message; an empty one is none.
func (s *WebSocket) sendMessage(kind websocket.MessageType, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	return s.ws.Write(s.ctx, kind, p)
}

// halfRune returns how many bytes at the end of p begin a rune and do not end it.
func halfRune(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// CloseWrite tells the client, with code 1000, that nothing more comes. It does not wait for the answer, after which Read
// gives io.EOF.
func (s *WebSocket) CloseWrite() error {
	s.begin.Do(func() {
		s.workers.Go(func() {
			defer close(s.shut)
			if s.mu.TryLock() { // a write that the client does not take is not waited for
				for _, half := range s.halves {
					s.sendMessage(websocket.MessageBinary, half) //nolint:errcheck // the client may have gone
				}
				s.mu.Unlock()
			}
			s.ws.Close(websocket.StatusNormalClosure, "") //nolint:errcheck // the client may have gone
		})
	})
	return nil
}

// AwaitHangup blocks until the client has closed or gone, or Close is called.
func (s *WebSocket) AwaitHangup() {
	select {
	case <-s.ended:
	case <-s.gone:
	case <-s.over:
	}
}

// Close ends the connection: as CloseWrite does, and by force when the client does not answer soon. Closing twice is safe.
func (s *WebSocket) Close() error {
	s.end.Do(func() {
		close(s.over)
		s.CloseWrite()                                                   //nolint:errcheck // it has no error
		force := time.AfterFunc(closePatience, func() { s.raw.Close() }) //nolint:errcheck // it may be closed already
		<-s.shut
		force.Stop()
		s.raw.Close() //nolint:errcheck // as a rule it is closed already
		s.workers.Wait()
	})
	return nil
}

// hijackRecorder writes the head of an answer before the library takes the connection over, and records that connection.
type hijackRecorder struct {
	http.ResponseWriter
	raw net.Conn
}

// WriteHeader writes the head at once: gin keeps it back otherwise, and forgets it with the takeover.
func (h *hijackRecorder) WriteHeader(status int) {
	h.ResponseWriter.WriteHeader(status)
	if now, ok := h.ResponseWriter.(interface{ WriteHeaderNow() }); ok {
		now.WriteHeaderNow()
	}
}

// Hijack takes the connection over.
func (h *hijackRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.raw = raw
	return raw, buffered, err
}
