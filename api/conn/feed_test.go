package conn_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"moss/api/conn"
)

// gate is an answer whose client takes what is written only when it is told to.
type gate struct {
	header http.Header
	enter  chan struct{} // gets one for each write that waits
	let    chan error    // lets one write go on, or fail

	mu  sync.Mutex // guards got
	got []string
}

func newGate() *gate {
	return &gate{header: http.Header{}, enter: make(chan struct{}), let: make(chan error)}
}

func (g *gate) Header() http.Header { return g.header }
func (g *gate) WriteHeader(int)     {}
func (g *gate) Flush()              {}

func (g *gate) Write(p []byte) (int, error) {
	g.enter <- struct{}{}
	err := <-g.let
	g.mu.Lock()
	defer g.mu.Unlock()
	g.got = append(g.got, string(p))
	return len(p), err
}

func newFeed(t *testing.T, g *gate) *conn.Feed {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return conn.NewFeed(conn.NewJSON(g, r))
}

func TestFeed(t *testing.T) {
	g := newGate()
	f := newFeed(t, g)
	if f.Begun() {
		t.Error("begun without a message")
	}
	f.Put("a", "", []byte("first"))
	<-g.enter // from here on messages queue
	f.Put("a", "down", []byte("a 1"))
	f.Put("b", "down", []byte("b 1"))
	f.Put("a", "down", []byte("a 2")) // in place of a 1
	f.Put("a", "", []byte("a verified"))
	f.Put("a", "", []byte("a complete")) // without a step nothing is lost
	f.Put("a", "down", []byte("a again"))
	f.Put("b", "out", []byte("b 2")) // another step
	f.Put("b", "out", []byte("b 3")) // in place of b 2
	g.let <- nil
	<-g.enter
	g.let <- nil
	f.Close()
	f.Put("a", "", []byte("too late"))
	want := "first\n|a 2\nb 1\na verified\na complete\na again\nb 3\n"
	if got := strings.Join(g.got, "|"); got != want || !f.Begun() {
		t.Errorf("sent %q, begun %t, want %q", got, f.Begun(), want)
	}
}

func TestFeedWithoutMessages(t *testing.T) {
	g := newGate()
	f := newFeed(t, g)
	f.Close() // does not wait for the gate
	if f.Begun() || len(g.got) != 0 || len(g.header) != 0 {
		t.Errorf("sent %q with head %v, want nothing", g.got, g.header)
	}
}

func TestFeedOfOneWhoHangsUp(t *testing.T) {
	g := newGate()
	f := newFeed(t, g)
	f.Put("a", "", []byte("first"))
	<-g.enter
	f.Put("a", "", []byte("second"))
	g.let <- errors.New("broken pipe")
	f.Close() // nothing waits for the one who has gone
	f.Put("a", "", []byte("third"))
	if got := strings.Join(g.got, "|"); got != "first\n" || !f.Begun() {
		t.Errorf("sent %q, begun %t, want the first message alone", got, f.Begun())
	}
}

func TestFeedWait(t *testing.T) {
	g := newGate()
	f := newFeed(t, g)
	f.Put("", "", []byte("first"))
	<-g.enter
	f.Put("", "", []byte("12345"))
	f.Wait(t.Context(), 5) // no more than that: it does not wait
	f.Put("a", "down", []byte("6"))
	f.Put("a", "down", []byte("")) // in place of the 6
	f.Wait(t.Context(), 5)
	f.Put("", "", []byte("7"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.Wait(ctx, 5) // nobody waits for an answer any more
	waited := make(chan struct{})
	go func() { f.Wait(t.Context(), 5); close(waited) }()
	select {
	case <-waited:
		t.Error("Wait went on with more than it allows")
	case g.let <- nil:
	}
	<-waited
	<-g.enter
	f.Put("", "", []byte("123456"))
	go func() { g.let <- errors.New("broken pipe") }()
	f.Wait(t.Context(), 5) // until the client has gone
	f.Close()
	f.Wait(t.Context(), 0)
}
