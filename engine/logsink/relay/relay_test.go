package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/logforward"
	"moss/engine/logsink"
	"moss/engine/shim/proto"
	"moss/engine/stdio"
)

// receiver is what records come to. Its senders take what it lets them.
type receiver struct {
	batch logsink.Batch
	retry logsink.RetryPolicy // zero: none

	mu     sync.Mutex
	change sync.Cond
	got    []string
	sizes  []int // of the batches
	away   bool
	failed int // calls while it was away
	most   int // records per call; 0: all
	refuse error
}

func newReceiver() *receiver {
	r := &receiver{}
	r.change.L = &r.mu
	return r
}

func (r *receiver) open(_ context.Context, s logsink.Setup) (logsink.Sender, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil && !s.Resume {
		return nil, r.refuse
	}
	if r.retry != (logsink.RetryPolicy{}) {
		return &retrier{sender{r, s.Container.Name}}, nil
	}
	return &sender{r, s.Container.Name}, nil
}

// retrier is a sender with a policy of its own.
type retrier struct{ sender }

func (r *retrier) Retry() logsink.RetryPolicy { return r.r.retry }

type sender struct {
	r    *receiver
	name string
}

func (s *sender) Batch() logsink.Batch { return s.r.batch }
func (s *sender) Close() error         { return nil }

func (s *sender) Send(_ context.Context, records []logsink.Record, _ bool) (int, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	defer s.r.change.Broadcast()
	if s.r.away {
		s.r.failed++
		return 0, errors.New("nobody there")
	}
	n := len(records)
	if s.r.most > 0 {
		n = min(n, s.r.most)
	}
	for _, r := range records[:n] {
		s.r.got = append(s.r.got, text(s.name, r))
	}
	s.r.sizes = append(s.r.sizes, n)
	return n, nil
}

const fillerSize = 1000

func text(name string, r logsink.Record) string {
	piece := ""
	if r.Ordinal > 0 {
		piece = fmt.Sprintf(" piece %d %t", r.Ordinal, r.Last)
	}
	short, filler, filled := strings.Cut(string(r.Text), " ") // long lines are a number and a filler
	switch {
	case filled && len(filler) != fillerSize:
		piece += fmt.Sprintf(" with %d bytes", len(filler))
	case len(short) > 40:
		short = fmt.Sprintf("%c…%d", short[0], len(short))
	}
	return fmt.Sprintf("%s %s %s%s", name, r.Stream, short, piece)
}

// await waits until the receiver has got so many records, and returns all it has.
func (r *receiver) await(records int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.got) < records {
		r.change.Wait()
	}
	return slices.Clone(r.got)
}

func (r *receiver) setAway(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

// serve runs a relay at a socket. It ends with leave, or the test.
func serve(t *testing.T, socket string, rec *receiver) (r *Relay, leave func()) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	r = New(map[string]logsink.OpenFunc{"test": rec.open}, func(text string) { t.Log(text) })
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	leave = sync.OnceFunc(func() {
		r.leave()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(leave)
	return r, leave
}

func newSocket(t *testing.T) string { return filepath.Join(t.TempDir(), "sock") }

func target(t *testing.T, driver, name string) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(logforward.Target{Driver: driver, Container: logsink.Container{ID: name, Name: name}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func open(t *testing.T, socket, name string) *logforward.Writer {
	t.Helper()
	w, err := logforward.Open(socket, target(t, "test", name), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Expire(0)
		_ = w.Close()
	})
	return w
}

func write(t *testing.T, w *logforward.Writer, stream stdio.Stream, chunks ...string) {
	t.Helper()
	for _, chunk := range chunks {
		if err := w.Write(stream, []byte(chunk), time.Now()); err != nil {
			t.Error(err)
		}
	}
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestLinesAndPieces(t *testing.T) {
	socket, rec := newSocket(t), newReceiver()
	serve(t, socket, rec)
	w := open(t, socket, "web")
	long := strings.Repeat("x", logforward.MaxText)
	write(t, w, stdio.Stdout, "one\ntw", "o\n\n")
	write(t, w, stdio.Stderr, "bad\x00\xff\n")
	write(t, w, stdio.Stdout, long+"tail\n", long+"\n", long[1:], "y", "\n", "whole\nun")
	write(t, w, stdio.Stderr, "ended")
	write(t, w, stdio.Stdout, "finished")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	equal(
		t, rec.await(12), "web stdout one", "web stdout two", "web stdout ", "web stderr bad\x00\xff",
		"web stdout x…16384 piece 1 false", "web stdout tail piece 2 true",
		"web stdout x…16384", "web stdout x…16384 piece 1 false", "web stdout  piece 2 true",
		"web stdout whole", "web stdout unfinished", "web stderr ended",
	)
	if n := w.DroppedLines(); n != 0 {
		t.Errorf("%d lines dropped", n)
	}
	if err := w.Write(stdio.Stdout, []byte("x"), time.Now()); err == nil {
		t.Error("Write after Close: got no error")
	}
}

// numbered returns a long line.
func numbered(i int) string { return fmt.Sprintf("%d %s\n", i, strings.Repeat(".", fillerSize)) }

// inOrder is what comes of the lines from 0 to n-1.
func inOrder(name string, n int) (want []string) {
	for i := range n {
		want = append(want, fmt.Sprintf("%s stdout %d", name, i))
	}
	return want
}

// TestBatches lingers longer, where a busy machine spends the time elsewhere and lines that belong together go one by one.
func TestBatches(t *testing.T) {
	var sizes []int
	want := []int{5, 2, 3, 1, 1}
	for linger := 100 * time.Millisecond; linger < 10*time.Second && !slices.Equal(sizes, want); linger *= 4 {
		sizes = batchSizes(t, linger)
		t.Logf("batches of %v with a linger of %s", sizes, linger)
	}
	if !slices.Equal(sizes, want) {
		t.Errorf("batches of %v, want %v", sizes, want)
	}
}

// batchSizes returns the sizes of the batches in which lines come.
func batchSizes(t *testing.T, linger time.Duration) []int {
	t.Helper()
	socket, rec := newSocket(t), newReceiver()
	rec.batch = logsink.Batch{Records: 5, Bytes: 4 * fillerSize, Linger: linger}
	serve(t, socket, rec)
	w := open(t, socket, "web")
	write(t, w, stdio.Stdout, "1\n2\n3\n4\n5\n6\n")
	rec.await(5)
	write(t, w, stdio.Stdout, "7\n")
	rec.await(7)
	write(t, w, stdio.Stdout, numbered(1), numbered(2), numbered(3), numbered(4))
	rec.await(11)
	write(t, w, stdio.Stdout, strings.Repeat("x", 5*fillerSize)+"\n")
	rec.await(12)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return slices.Clone(rec.sizes)
}

// TestFullWindow: a batch that is larger than the window does not wait for records that the monitor may not send.
func TestFullWindow(t *testing.T) {
	socket, rec := newSocket(t), newReceiver()
	rec.batch = logsink.Batch{Records: 1 << 20, Bytes: 1 << 30, Linger: time.Hour}
	serve(t, socket, rec)
	w := open(t, socket, "web")
	const lines = 4 * logforward.Window / fillerSize
	for i := range lines {
		write(t, w, stdio.Stdout, numbered(i))
	}
	if err := w.Close(); err != nil || w.DroppedLines() != 0 {
		t.Errorf("Close: got %v, %d lines dropped", err, w.DroppedLines())
	}
	equal(t, rec.await(lines), inOrder("web", lines)...)
	if least := slices.Min(rec.sizes[:len(rec.sizes)-1]); least < lines/16 {
		t.Errorf("batches of %v records, want some at once", rec.sizes)
	}
}

func TestOpenErrors(t *testing.T) {
	socket, rec := newSocket(t), newReceiver()
	rec.refuse = fault.Unavailable("dial 192.0.2.1:514: refused")
	serve(t, socket, rec)
	for _, tc := range []struct {
		driver, want string
		kind         fault.Constructor
	}{
		{"test", "log driver test: dial 192.0.2.1:514: refused", fault.Unavailable},
		{"nosuch", "log driver nosuch: moss-log has no such driver", fault.Unsupported},
	} {
		_, err := logforward.Open(socket, target(t, tc.driver, "web"), time.Minute)
		if err == nil || err.Error() != tc.want || !fault.Is(err, tc.kind) {
			t.Errorf("Open of %s: got %v, want %s", tc.driver, err, tc.want)
		}
	}
	if _, err := logforward.Open(socket, json.RawMessage(`[]`), time.Minute); !fault.Is(err, fault.Invalid) {
		t.Errorf("Open without a target: got %v, want fault.Invalid", err)
	}
}

// TestBadMonitors: what breaks the protocol ends its connection, and nothing else.
func TestBadMonitors(t *testing.T) {
	socket, rec := newSocket(t), newReceiver()
	rec.setAway(true)
	serve(t, socket, rec)
	hello := func() net.Conn {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for name, bytes := range map[string][]byte{
		"a long record": {0xff, 0xff, 0xff, 0xff}, "too much": make([]byte, mostHeld+1),
	} {
		conn := hello()
		if err := proto.Write(conn, logforward.Hello{Target: target(t, "test", name)}); err != nil {
			t.Fatal(err)
		}
		var reply proto.Reply
		if err := proto.Read(conn, &reply); err != nil || reply.Err() != nil {
			t.Fatal(err, reply.Err())
		}
		bytes = append(bytes, make([]byte, 64)...)
		go func() { _, _ = conn.Write(bytes) }() // it need not be read
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("%s: the connection did not end: %v", name, err)
		}
	}
	for _, text := range []string{"", "GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x02{}", "\x00\x00\x00\x02}{"} {
		_, _ = hello().Write([]byte(text))
	}
	rec.setAway(false)
	w := open(t, socket, "web")
	write(t, w, stdio.Stdout, "here\n")
	if got := rec.await(1); !slices.Contains(got, "web stdout here") {
		t.Errorf("got %q", got)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
