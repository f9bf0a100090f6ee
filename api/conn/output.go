package conn

import (
	"context"
	"io"
	"net/http"

	"moss/engine/stdio"
)

// Output is an answer made of a container's output: raw for a tty, frames otherwise (document 2, 4.1: attach and logs).
// It is not safe for several goroutines.
type Output struct {
	w       io.Writer
	flush   func() error
	close   func() error
	stream  *Stream // nil without an upgrade
	tty     bool
	pending []byte
}

// NewOutput begins the answer and sends its head at once: 101 and the connection itself when the client asked for an
// upgrade, 200 and chunks otherwise. The caller closes it.
func NewOutput(w http.ResponseWriter, r *http.Request, tty bool) (*Output, error) {
	if Upgrades(r) {
		s, err := Hijack(w, r)
		if err != nil {
			return nil, err
		}
		return &Output{w: s, flush: func() error { return nil }, close: s.Close, stream: s, tty: tty}, nil
	}
	w.Header().Set("Content-Type", RawStream)
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	return &Output{w: w, flush: out.Flush, close: func() error { return nil }, tty: tty}, out.Flush()
}

// Watch returns a context that ends when the client hangs up, for work that sends nothing for long. The caller cancels it.
// Without an upgrade the request's own context does that already.
func (o *Output) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if o.stream != nil {
		go func() {
			o.stream.AwaitHangup() // ends with Close at the latest
			cancel()
		}()
	}
	return ctx, cancel
}

// Send sends a piece of one stream at once, made of parts that are joined. An error is the client's hang-up.
func (o *Output) Send(stream stdio.Stream, parts ...[]byte) error {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	o.pending = o.pending[:0]
	if !o.tty {
		o.pending = stdio.AppendHeader(o.pending, stream, size)
	}
	for _, part := range parts {
		o.pending = append(o.pending, part...)
	}
	if _, err := o.w.Write(o.pending); err != nil {
		return err
	}
	return o.flush()
}

// Fail tells the client of an error after the head: as a line of its error stream.
func (o *Output) Fail(err error) error {
	return o.Send(stdio.Stderr, []byte("Error: "+err.Error()+"\n"))
}

// Close ends the answer.
func (o *Output) Close() error { return o.close() }
