package session

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipeStreams are the streams of a process that the test plays.
type pipeStreams struct {
	output *io.PipeReader
	input  *io.PipeWriter
}

func (p pipeStreams) Read(b []byte) (int, error)  { return p.output.Read(b) }
func (p pipeStreams) Write(b []byte) (int, error) { return p.input.Write(b) }
func (p pipeStreams) CloseWrite() error           { return p.input.Close() }
func (p pipeStreams) Close() error                { return errors.Join(p.output.Close(), p.input.Close()) }

// end is a client's connection that the test plays.
type end struct {
	in     *io.PipeReader
	out    *io.PipeWriter
	gone   chan struct{} // closed when the client goes, and by Close
	once   sync.Once
	closed bool
}

func (e *end) Read(b []byte) (int, error)  { return e.in.Read(b) }
func (e *end) Write(b []byte) (int, error) { return e.out.Write(b) }
func (e *end) CloseWrite() error           { return e.out.Close() }
func (e *end) AwaitHangup()                { <-e.gone }
func (e *end) leave()                      { e.once.Do(func() { close(e.gone) }) }
func (e *end) Close() error {
	e.closed = true
	e.leave()
	return errors.Join(e.in.Close(), e.out.Close())
}

// scene is a running session with both its ends in the test's hands.
type scene struct {
	conn    *end
	typed   *io.PipeWriter // what the client sends
	shown   *io.PipeReader // what it sees
	stdin   *io.PipeReader // what the process reads
	stdout  *io.PipeWriter // what it writes
	said    chan string
	over    chan struct{} // closed when Run has returned
	stopped context.CancelFunc
}

func play(t *testing.T, opt Options, over ...func(context.Context)) *scene {
	t.Helper()
	s := &scene{said: make(chan string, 4), over: make(chan struct{})}
	s.conn = &end{gone: make(chan struct{})}
	s.conn.in, s.typed = io.Pipe()
	s.shown, s.conn.out = io.Pipe()
	streams := pipeStreams{}
	streams.output, s.stdout = io.Pipe()
	s.stdin, streams.input = io.Pipe()
	opt.Over = func(ctx context.Context) {
		for _, f := range over {
			f(ctx)
		}
		s.said <- "over"
	}
	opt.Detached = func() { s.said <- "detached" }
	ctx, cancel := context.WithCancel(t.Context())
	s.stopped = cancel
	t.Cleanup(cancel)
	go func() {
		defer close(s.over)
		Run(ctx, s.conn, streams, opt)
	}()
	return s
}

// take returns what was said so far.
func (s *scene) take() string {
	var all []string
	for {
		select {
		case word := <-s.said:
			all = append(all, word)
		default:
			return strings.Join(all, " ")
		}
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, Options{Input: true, Keys: []byte("pq")})
		go func() { io.WriteString(s.typed, "pxin"); s.typed.Close() }() //nolint:errcheck // pipes in memory
		if got, err := io.ReadAll(s.stdin); string(got) != "pxin" || err != nil {
			t.Errorf("process read %q, %v, want the client's input and its end", got, err)
		}
		go func() { io.WriteString(s.stdout, "out"); s.stdout.Close() }() //nolint:errcheck // pipes in memory
		var told string
		buf := make([]byte, 3)
		if _, err := io.ReadFull(s.shown, buf); string(buf) != "out" || err != nil {
			t.Errorf("client saw %q, %v after ending its input", buf, err)
		}
		if _, err := s.shown.Read(buf); err != io.EOF { //nolint:errorlint // a pipe gives it bare
			t.Errorf("then %v, want the end", err)
		}
		if told = s.take(); told != "over" {
			t.Errorf("said %q when the client saw the end, want over", told)
		}
		<-s.over
		if !s.conn.closed {
			t.Error("the connection is still open")
		}
	})
}

func TestRunEndsWithTheKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, Options{Input: true, Keys: []byte("pq")})
		go func() { io.WriteString(s.typed, "apqb") }() //nolint:errcheck // pipes in memory
		buf := make([]byte, 1)
		if _, err := io.ReadFull(s.stdin, buf); string(buf) != "a" || err != nil {
			t.Errorf("process read %q, %v", buf, err)
		}
		<-s.over
		if got := s.take(); got != "detached" {
			t.Errorf("said %q, want detached", got)
		}
	})
}

func TestRunEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, Options{})
		s.typed.Close() //nolint:errcheck // a pipe in memory
		synctest.Wait()
		select {
		case <-s.over:
			t.Error("the end of the input has ended the session")
		default:
		}
		s.conn.leave()
		<-s.over
		if got := s.take(); got != "" {
			t.Errorf("said %q, want nothing", got)
		}
	})
}

func TestRunEndsWithTheInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, Options{Input: true, InputEnd: true})
		go func() { io.WriteString(s.typed, "in"); s.typed.Close() }() //nolint:errcheck // pipes in memory
		if got, err := io.ReadAll(s.stdin); string(got) != "in" || err != nil {
			t.Errorf("process read %q, %v, want the client's input and its end", got, err)
		}
		if got, err := io.ReadAll(s.shown); len(got) != 0 || err != nil {
			t.Errorf("client saw %q, %v, want the end", got, err)
		}
		<-s.over
		if got := s.take(); got != "" {
			t.Errorf("said %q, want nothing", got)
		}
	})
}

// TestOverEndsWithTheClient: a client that goes is not waited for by what runs at the end of the output.
func TestOverEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, Options{}, func(ctx context.Context) { <-ctx.Done() })
		s.stdout.Close() //nolint:errcheck // a pipe in memory
		s.typed.Close()  //nolint:errcheck // likewise
		synctest.Wait()
		select {
		case <-s.over:
			t.Error("the session has not waited")
		default:
		}
		s.conn.leave()
		<-s.over
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, Options{})
		s.stopped()
		<-s.over
	})
}

func TestClientThatGoesOnSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, Options{Input: true})
		go func() {
			for {
				if _, err := io.WriteString(s.typed, "more"); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
		go io.Copy(io.Discard, s.shown) //nolint:errcheck // pipes in memory
		go io.Copy(io.Discard, s.stdin) //nolint:errcheck // likewise
		before := time.Now()
		s.stdout.Close() //nolint:errcheck // a pipe in memory
		<-s.over
		if took := time.Since(before); took > linger {
			t.Errorf("the session ended after %s, want %s at most", took, linger)
		}
		time.Sleep(time.Second) // for the client to see it
	})
}
