package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"moss/engine/fault"
)

const (
	// streamGrace is how long an answer that was begun goes on once the server is to end. What lasts longer is a stream, or
	// might as well be one: it ends where it is.
	streamGrace = 100 * time.Millisecond
	// answerGrace is how long one may take of which nothing has been sent, and a client to ask that has just come. Those who
	// wait for something endless are told after this that it does not come.
	answerGrace = time.Second
	// partingPatience is how long a client may take to receive the message that is being sent to it.
	partingPatience = time.Second
	// drainPoll is the time between two looks. Nothing happens meanwhile but that clients wait for the next engine.
	drainPoll = 2 * time.Millisecond
)

// errEnding is the cause of requests that end because the engine does.
var errEnding = fault.Unavailable("the engine is ending, or being replaced: ask again") //nolint:gochecknoglobals // a constant

// Shutdown stops accepting, so that clients wait in the queue for whoever serves the sockets next, ends streams and
// connections that were taken over after what is being sent, and waits for the other requests until ctx is done, when it
// cuts them off and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	begun := time.Now()
	for _, t := range []*transport{s.local, s.remote} {
		t.http.SetKeepAlivesEnabled(false) // which closes the idle ones
	}
	err := s.stopListening()
	if left := s.drainConns(ctx, begun); err == nil {
		err = left
	}
	if closed := s.closeAll(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("shut the API down: %w", err)
	}
	return nil
}

func (s *Server) stopListening() (err error) {
	for _, l := range s.currentListeners() {
		if closed := ignoreClosed(l.Close()); err == nil {
			err = closed
		}
	}
	return err
}

// drainConns returns when no connection is left, or with ctx's error.
func (s *Server) drainConns(ctx context.Context, begun time.Time) error {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for {
		left := 0
		for _, t := range []*transport{s.local, s.remote} {
			for _, c := range t.limiter.listConns() {
				left++
				c.endIfDue(begun)
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// endIfDue ends a connection of a server that has been ending since begun, if its time is over.
func (t *tracked) endIfDue(begun time.Time) {
	if since := time.Unix(0, t.since.Load()); since.After(begun) {
		begun = since
	}
	age := time.Since(begun)
	switch http.ConnState(t.state.Load()) {
	case http.StateIdle: // it came to be after the idle ones were closed
		_ = t.Close() // It may be closing already.
	case http.StateNew:
		if age > answerGrace {
			_ = t.Close() // It may be closing already.
		}
	case http.StateActive:
		if age > answerGrace || age > streamGrace && t.wrote.Load() {
			t.cancelRequests(errEnding)
		}
	case http.StateHijacked:
		if age > streamGrace && t.parting.CompareAndSwap(false, true) {
			t.cancelRequests(errEnding)
			go t.endHijacked()
		}
	case http.StateClosed: // it is leaving
	}
}

// endHijacked ends a connection that a handler has taken over: the client gets the message that is being sent, then the end.
// What it still sends is not waited for longer than its handler takes.
func (t *tracked) endHijacked() {
	var c interface {
		net.Conn
		CloseWrite() error
	} = t
	if t.secure != nil {
		c = t.secure
	}
	// None of these has to succeed: the client may have gone.
	_ = c.SetWriteDeadline(time.Now().Add(partingPatience))
	_ = c.CloseWrite()
	timer := time.NewTimer(partingPatience)
	defer timer.Stop()
	select {
	case <-t.gone:
	case <-timer.C:
	}
	_ = t.Close()
}
