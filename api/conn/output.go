package conn

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"moss/engine/fault"
	"moss/engine/session"
	"moss/engine/stdio"
)

const (
	// outputBatch is how many bytes are sent together at most, as soon as there are as many.
	outputBatch = 64 << 10
	// outputWindow is how long what is less may wait for more. What comes after a longer silence does not wait.
	outputWindow = 2 * time.Millisecond
)

// Output is an answer made of a container's output: raw for a tty, frames otherwise (document 2, 4.1: attach and logs).
// It is not safe for several goroutines.
type Output struct {
	w      io.Writer
	flush  func() error
	close  func() error
	stream *Stream // nil without an upgrade
	tty    bool

	mu      sync.Mutex // held while bytes are sent, by Send or by the timer; guards the fields below
	pending []byte     // not sent yet
	sent    time.Time  // when something was sent last
	waiting bool       // a timer will send what is pending
	closed  bool
	err     error // of sending, for the next call
}

// NewOutput begins the answer and sends its head at once: 101 and the connection itself when the client asked for an
// upgrade, 200 and chunks otherwise. The caller closes it.
func NewOutput(w http.ResponseWriter, r *http.Request, mediaType string, tty bool) (*Output, error) {
	if Upgrades(r) {
		s, err := Hijack(w, r, mediaType)
		if err != nil {
			return nil, err
		}
		return &Output{
			w: s, flush: func() error { return nil }, close: func() error { return session.End(s) }, stream: s,
			tty: tty,
		}, nil
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	return &Output{w: w, flush: out.Flush, close: func() error { return nil }, tty: tty}, out.Flush()
}

// Watch returns a context that ends when the client hangs up, for work that sends nothing for long. The caller cancels it.
// Without an upgrade the request's own context does that already.
func (o *Output) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.stream != nil {
		ctx = context.WithoutCancel(ctx) // the server takes a client that ended its side before the takeover for gone
	}
	ctx, cancel := context.WithCancel(ctx)
	if o.stream != nil {
		go func() {
			o.stream.AwaitHangup() // ends with Close at the latest
			cancel()
		}()
	}
	return ctx, cancel
}

// Send sends a piece of one stream, made of parts that are joined: at once, or together with those that follow it closely.
// An error is the client's hang-up.
func (o *Output) Send(stream stdio.Stream, parts ...[]byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	if !o.tty {
		o.pending = stdio.AppendHeader(o.pending, stream, size)
	}
	for _, part := range parts {
		o.pending = append(o.pending, part...)
	}
	if len(o.pending) >= outputBatch || !o.waiting && time.Since(o.sent) > outputWindow {
		o.sendLocked()
	}
	if !o.waiting {
		o.waiting = true
		time.AfterFunc(outputWindow, o.sendLate)
	}
	return o.err
}

// sendLate sends what was kept back, unless the answer has ended, and gives the buffer up: most answers are silent most of
// the time.
func (o *Output) sendLate() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = false
	if !o.closed {
		o.sendLocked()
	}
	o.pending = nil
}

func (o *Output) sendLocked() {
	if len(o.pending) == 0 || o.err != nil {
		return
	}
	if _, o.err = o.w.Write(o.pending); o.err == nil {
		o.err = o.flush()
	}
	o.pending, o.sent = o.pending[:0], time.Now()
}

// Fail tells the client of an error after the head: as a line of its error stream.
func (o *Output) Fail(err error) error {
	return o.Send(stdio.Stderr, []byte("Error: "+fault.Text(err)+"\n"))
}

// Close sends what is left and ends the answer. Closing twice is safe.
func (o *Output) Close() error {
	o.mu.Lock()
	again := o.closed
	o.sendLocked()
	o.closed = true
	err := o.err
	o.mu.Unlock()
	if again {
		return nil
	}
	return errors.Join(err, o.close())
}
