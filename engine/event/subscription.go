package event

import (
	"context"
	"io"
	"slices"
	"time"
)

// Subscription is one listener's view of a Bus. Next is for one goroutine at a time; Close may come from any.
type Subscription struct {
	bus     *Bus
	until   time.Time
	filter  func(*Event) bool
	wake    chan struct{} // holds one signal: something below has changed
	unwatch func() bool

	// Guarded by bus.mu.
	queue []Event
	read  int   // events of queue that Next has taken
	end   error // what Next returns once the queue is read
}

// Next returns the next event that the filter takes. It returns io.EOF after the last event of Options.Until, after
// Close, after the end of the context of Subscribe and after the bus was closed; fault.Unavailable when this listener
// was so slow that events were lost to it; and ctx's error when ctx ends first.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	var expired <-chan time.Time
	if !s.until.IsZero() {
		timer := time.NewTimer(time.Until(s.until))
		defer timer.Stop()
		expired = timer.C
	}
	over := false
	for {
		if err := ctx.Err(); err != nil {
			return Event{}, context.Cause(ctx)
		}
		ev, ok, err := s.take()
		switch {
		case err != nil:
			return Event{}, err
		case ok && !s.until.IsZero() && ev.Time.After(s.until):
			s.Close()
			return Event{}, io.EOF
		case ok && (s.filter == nil || s.filter(&ev)):
			return ev, nil
		case ok:
			continue
		case over:
			s.Close()
			return Event{}, io.EOF
		}
		select {
		case <-s.wake:
		case <-expired:
			over = true // once more: events of that very moment may be in the queue
		case <-ctx.Done():
		}
	}
}

// Close leaves the bus; Next returns io.EOF from then on. A second Close does nothing.
func (s *Subscription) Close() {
	s.unwatch()
	s.leave()
}

func (s *Subscription) leave() {
	b := s.bus
	b.mu.Lock()
	if i := slices.Index(b.subs, s); i >= 0 {
		b.subs = slices.Concat(b.subs[:i], b.subs[i+1:])
	}
	s.queue, s.read, s.end = nil, 0, io.EOF
	b.mu.Unlock()
	s.signal()
}

// signal wakes Next, now or when it next looks.
func (s *Subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take removes the first event of the queue. Without one it returns the error that ended the subscription, if any.
func (s *Subscription) take() (ev Event, ok bool, err error) {
	b := s.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.read == len(s.queue) {
		return Event{}, false, s.end
	}
	ev = s.queue[s.read]
	s.queue[s.read] = Event{} // lets go of the attributes
	s.read++
	if s.read == len(s.queue) || s.read == queueLen {
		s.queue, s.read = slices.Delete(s.queue, 0, s.read), 0 // a queue that never runs empty must not grow for ever
	}
	return ev, true, nil
}
