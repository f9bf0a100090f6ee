package fluentd

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// entry is a record as a receiver has it.
type entry struct {
	tag    string
	at     time.Time
	exact  bool // the time is an EventTime
	fields map[string]string
}

// receiver speaks the Forward protocol, with another library than the driver. It judges all that it gets.
type receiver struct {
	t      *testing.T
	l      net.Listener
	behave func(message int, c net.Conn, chunk string) error // after each message; nil: acknowledge what is asked for

	mu       sync.Mutex // guards the fields below
	entries  []entry
	messages int
	conns    int
	open     []net.Conn
	chunks   map[string]bool
	changed  chan struct{}
	wait     sync.WaitGroup
}

// serve takes connections until the end of the test or close.
func serve(t *testing.T, l net.Listener, behave func(int, net.Conn, string) error) *receiver {
	r := &receiver{t: t, l: l, behave: behave, changed: make(chan struct{}), chunks: map[string]bool{}}
	r.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns++
			r.open = append(r.open, c)
			r.mu.Unlock()
			r.wait.Go(func() { r.talk(c) })
		}
	})
	t.Cleanup(r.close)
	return r
}

// close ends the receiver with its connections.
func (r *receiver) close() {
	_ = r.l.Close()
	r.mu.Lock()
	for _, c := range r.open {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.wait.Wait()
}

// What a receiver does with a message beside keeping it.
var (
	errEnough = errors.New("it is kept, and the connection closed")
	errSkip   = errors.New("it is not kept, and the connection stays")
)

func (r *receiver) talk(c net.Conn) {
	defer func() { _ = c.Close() }()
	dec := msgpack.NewDecoder(c)
	for {
		entries, chunk, err := readMessage(dec)
		if err != nil {
			if !isEnd(err) {
				r.t.Errorf("message: %v", err)
			}
			return
		}
		r.mu.Lock()
		r.messages++
		number := r.messages
		if id, err := base64.StdEncoding.DecodeString(chunk); chunk != "" && (err != nil || len(id) != 16 || r.chunks[chunk]) {
			r.t.Errorf("chunk %q is not 128 new bits in base64: %v", chunk, err)
		}
		r.chunks[chunk] = true
		r.mu.Unlock()
		err = r.answer(number, c, chunk)
		if err == nil || errors.Is(err, errEnough) {
			r.mu.Lock()
			r.entries = append(r.entries, entries...)
			close(r.changed)
			r.changed = make(chan struct{})
			r.mu.Unlock()
		}
		if err != nil && !errors.Is(err, errSkip) {
			return
		}
	}
}

// isEnd tells whether an error is that of a connection's end.
func isEnd(err error) bool {
	_, network := errors.AsType[*net.OpError](err)
	_, handshake := errors.AsType[*tls.CertificateVerificationError](err)
	return network || handshake || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

func (r *receiver) answer(number int, c net.Conn, chunk string) error {
	if r.behave != nil {
		return r.behave(number, c, chunk)
	}
	return acknowledge(c, chunk)
}

func acknowledge(c net.Conn, chunk string) error {
	if chunk == "" {
		return nil
	}
	b, err := msgpack.Marshal(map[string]string{"ack": chunk})
	if err == nil {
		_, err = c.Write(b)
	}
	return err
}

// await returns the entries when there are n, and ends the test if there are more.
func (r *receiver) await(n int) []entry {
	r.t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		entries, changed := r.entries, r.changed
		r.mu.Unlock()
		if len(entries) > n {
			r.t.Fatalf("%d entries arrived, want %d", len(entries), n)
		}
		if len(entries) == n {
			return entries
		}
		select {
		case <-changed:
		case <-timeout:
			r.t.Fatalf("%d entries arrived, want %d", len(entries), n)
		}
	}
}

func (r *receiver) counts() (messages, conns int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.messages, r.conns
}

// readMessage reads [tag, entries, {size, chunk}] and judges it.
func readMessage(dec *msgpack.Decoder) (entries []entry, chunk string, err error) {
	if n, err := dec.DecodeArrayLen(); err != nil || n != 3 {
		return nil, "", fmt.Errorf("array of %d: %w", n, err)
	}
	tag, err := dec.DecodeString()
	if err != nil {
		return nil, "", fmt.Errorf("tag: %w", err)
	}
	packed, err := dec.DecodeBytes()
	if err != nil {
		return nil, "", fmt.Errorf("entries: %w", err)
	}
	var options struct {
		Size  int    `msgpack:"size"`
		Chunk string `msgpack:"chunk"`
	}
	dec.DisallowUnknownFields(true)
	if err := dec.Decode(&options); err != nil {
		return nil, "", fmt.Errorf("options: %w", err)
	}
	rest := bytes.NewReader(packed)
	for inner := msgpack.NewDecoder(rest); rest.Len() > 0; {
		e, err := readEntry(inner)
		if err != nil {
			return nil, "", fmt.Errorf("entry %d: %w", len(entries), errors.Join(err, errBroken))
		}
		e.tag = tag
		entries = append(entries, e)
	}
	if options.Size != len(entries) {
		return nil, "", fmt.Errorf("size is %d with %d entries", options.Size, len(entries))
	}
	return entries, options.Chunk, nil
}

var errBroken = errors.New("the message is broken")

func readEntry(dec *msgpack.Decoder) (e entry, err error) {
	if n, err := dec.DecodeArrayLen(); err != nil || n != 2 {
		return e, fmt.Errorf("array of %d: %w", n, err)
	}
	if e.at, e.exact, err = readTime(dec); err != nil {
		return e, fmt.Errorf("time: %w", err)
	}
	n, err := dec.DecodeMapLen()
	if err != nil {
		return e, err
	}
	e.fields = map[string]string{}
	for range n {
		name, err := dec.DecodeString()
		if err != nil {
			return e, err
		}
		if _, twice := e.fields[name]; twice {
			return e, fmt.Errorf("field %q is there twice", name)
		}
		if e.fields[name], err = dec.DecodeString(); err != nil {
			return e, err
		}
	}
	return e, nil
}

func readTime(dec *msgpack.Decoder) (at time.Time, exact bool, err error) {
	code, err := dec.PeekCode()
	if err != nil {
		return at, false, err
	}
	const fixext8 = 0xd7
	if code != fixext8 {
		seconds, err := dec.DecodeInt64()
		return time.Unix(seconds, 0), false, err
	}
	id, size, err := dec.DecodeExtHeader()
	if err != nil || id != 0 || size != 8 {
		return at, false, fmt.Errorf("extension %d of %d bytes: %w", id, size, err)
	}
	var p [8]byte
	if err := dec.ReadFull(p[:]); err != nil {
		return at, false, err
	}
	return time.Unix(int64(binary.BigEndian.Uint32(p[:])), int64(binary.BigEndian.Uint32(p[4:]))), true, nil
}
