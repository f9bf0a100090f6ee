package gelf

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// message is a message as a receiver has it: strings, and json.Number.
type message map[string]any

// receiver takes messages by udp or tcp and judges them. It reads with the standard library alone.
type receiver struct {
	t     *testing.T
	wait  sync.WaitGroup
	after func(number int) error // after each message by tcp; an error closes the connection

	mu       sync.Mutex // guards the fields below
	messages []message
	kinds    []string // how each came: gzip, zlib, none
	sizes    []int    // of the payload of each
	chunks   []int    // datagrams of each
	conns    int
	changed  chan struct{}
}

func newReceiver(t *testing.T) *receiver {
	return &receiver{t: t, changed: make(chan struct{})}
}

// await returns the messages when there are n, and ends the test if there are more.
func (r *receiver) await(n int) []message {
	r.t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		r.mu.Lock()
		messages, changed := r.messages, r.changed
		r.mu.Unlock()
		if len(messages) == n {
			return messages
		}
		if len(messages) > n {
			r.t.Fatalf("%d messages arrived, want %d", len(messages), n)
		}
		select {
		case <-changed:
		case <-timeout:
			r.t.Fatalf("%d messages arrived, want %d", len(messages), n)
		}
	}
}

// take judges a payload and keeps its message.
func (r *receiver) take(payload []byte, chunks int) {
	text, kind, err := unpack(payload)
	var m message
	if err == nil {
		m, err = readMessage(text)
	}
	if err != nil {
		r.t.Errorf("message %.200q: %v", payload, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages, r.kinds = append(r.messages, m), append(r.kinds, kind)
	r.sizes, r.chunks = append(r.sizes, len(payload)), append(r.chunks, chunks)
	close(r.changed)
	r.changed = make(chan struct{})
}

// serveDatagrams takes datagrams until the end of the test.
func (r *receiver) serveDatagrams(c net.PacketConn) {
	r.t.Cleanup(func() {
		_ = c.Close()
		r.wait.Wait()
	})
	r.wait.Go(func() {
		parts := map[string][][]byte{}
		for {
			p := make([]byte, 64<<10)
			n, _, err := c.ReadFrom(p)
			if err != nil {
				return
			}
			p = p[:n]
			if len(p) > 1420 {
				r.t.Errorf("a datagram has %d bytes", len(p))
			}
			if !bytes.HasPrefix(p, []byte{0x1e, 0x0f}) {
				r.take(p, 1)
				continue
			}
			id, number, count := string(p[2:10]), int(p[10]), int(p[11])
			parts[id] = append(parts[id], p[12:])
			if number != len(parts[id])-1 || count > 128 || number >= count {
				r.t.Errorf("chunk %d of %d is the number %d", number, count, len(parts[id]))
			}
			if len(parts[id]) == count {
				r.take(bytes.Join(parts[id], nil), count)
				parts[id] = append(parts[id], nil) // no other message may have this id
			}
		}
	})
}

// serveStreams takes connections until l is closed, and ends them with the test.
func (r *receiver) serveStreams(l net.Listener) {
	r.t.Cleanup(func() {
		_ = l.Close()
		r.wait.Wait()
	})
	r.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns++
			r.mu.Unlock()
			r.t.Cleanup(func() { _ = c.Close() })
			r.wait.Go(func() { r.readStream(c) })
		}
	})
}

func (r *receiver) readStream(c net.Conn) {
	defer func() { _ = c.Close() }()
	for in := bufio.NewReader(c); ; {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		r.take(text[:len(text)-1], 0)
		r.mu.Lock()
		number := len(r.messages)
		r.mu.Unlock()
		if r.after != nil && r.after(number) != nil {
			return
		}
	}
}

// unpack returns what a payload says, and how it was packed.
func unpack(payload []byte) (text []byte, kind string, err error) {
	var in io.Reader
	switch {
	case bytes.HasPrefix(payload, []byte{0x1f, 0x8b}):
		kind = "gzip"
		in, err = gzip.NewReader(bytes.NewReader(payload))
	case bytes.HasPrefix(payload, []byte{0x78}):
		kind = "zlib"
		in, err = zlib.NewReader(bytes.NewReader(payload))
	default:
		kind = "none"
		in = bytes.NewReader(payload)
	}
	if err != nil {
		return nil, kind, err
	}
	text, err = io.ReadAll(in)
	return text, kind, err
}

var extraName = regexp.MustCompile(`^_[\w.\-]+$`)

// readMessage reads a message and judges it by the format: one object without a name twice, with strings and numbers only.
func readMessage(text []byte) (message, error) {
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, errors.New("not JSON in UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if first, err := dec.Token(); first != json.Delim('{') || err != nil {
		return nil, fmt.Errorf("it begins with %v, %w", first, err)
	}
	m := message{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		value, err := dec.Token()
		if err != nil {
			return nil, err
		}
		if err := judgeField(m, name.(string), value); err != nil {
			return nil, err
		}
		m[name.(string)] = value
	}
	for _, name := range []string{"version", "host", "short_message", "timestamp", "level"} {
		if m[name] == nil || m[name] == "" {
			return nil, fmt.Errorf("there is no %s", name)
		}
	}
	return m, nil
}

func judgeField(m message, name string, value any) error {
	if _, twice := m[name]; twice {
		return fmt.Errorf("%s is there twice", name)
	}
	number := false
	switch value.(type) {
	case string:
	case json.Number:
		number = true
	default:
		return fmt.Errorf("%s is a %T", name, value)
	}
	switch name {
	case "version", "host", "short_message":
		if number {
			return fmt.Errorf("%s is a number", name)
		}
	case "timestamp", "level":
		if !number {
			return fmt.Errorf("%s is no number", name)
		}
	default:
		if !extraName.MatchString(name) || name == "_id" {
			return fmt.Errorf("%q is no name of a field", name)
		}
	}
	return nil
}
