package event

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"moss/engine/fault"
)

const (
	// pastLen is how many events a Bus remembers for listeners that ask for the past.
	pastLen = 256
	// queueLen is how many events a listener may fall behind before it is cut off: room for a burst of some hundred
	// containers, about half a MiB at worst.
	queueLen = 4096
)

// Bus hands every published event to every listener, in one order, and remembers the last 256.
type Bus struct {
	mu     sync.Mutex // guards the fields below and the queues of all subscriptions
	past   []Event    // the oldest is at next once it is full
	next   int        // where the next event goes when past is full
	last   int64      // nanoseconds of the latest event
	subs   []*Subscription
	closed bool
}

// NewBus returns a bus without events.
func NewBus() *Bus { return &Bus{} }

// Publish gives the event to all listeners. It sets a zero Time to now, and moves the Time on where needed, so that
// times (in nanoseconds) strictly increase in the order of publication. It never waits for a listener. After Close it
// does nothing.
func (b *Bus) Publish(ev Event) {
	for _, s := range b.publish(ev) {
		s.signal()
	}
}

// Options say what a listener wants to hear.
type Options struct {
	// Since asks for the remembered events from that time on, before the new ones.
	Since time.Time
	// Until ends the subscription after the events of that time; zero never ends it.
	Until time.Time
	// Past asks for the remembered events without a lower bound.
	Past bool
	// Filter picks events; nil takes all. It runs in the listener's Next, and must not change the event.
	Filter func(*Event) bool
}

// Subscribe joins the bus. The look at the past and the joining are one step: the listener misses no event and gets none
// twice. The caller must Close the subscription; the end of ctx closes it as well.
func (b *Bus) Subscribe(ctx context.Context, opts Options) *Subscription {
	s := &Subscription{bus: b, until: opts.Until, filter: opts.Filter, wake: make(chan struct{}, 1)}
	b.mu.Lock()
	if opts.Past || !opts.Since.IsZero() {
		s.queue = b.pastLocked(opts.Since)
	}
	if b.closed {
		s.end = io.EOF
	} else {
		b.subs = append(slices.Clip(b.subs), s)
	}
	b.mu.Unlock()
	s.unwatch = context.AfterFunc(ctx, s.leave)
	return s
}

// Listeners returns the number of open subscriptions.
func (b *Bus) Listeners() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.subs)
}

// Close ends all subscriptions: each still gets what was published before, then io.EOF. A second Close does nothing.
func (b *Bus) Close() {
	b.mu.Lock()
	subs := b.subs
	b.subs, b.closed = nil, true
	for _, s := range subs {
		s.end = io.EOF
	}
	b.mu.Unlock()
	for _, s := range subs {
		s.signal()
	}
}

// publish puts the event into the past and all queues, and returns the listeners to wake. The slice of subscriptions is
// replaced, never changed in place, so the returned one may be read without the lock.
func (b *Bus) publish(ev Event) []*Subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	if ev.Time.IsZero() {
		ev.Time = time.Now()
	}
	if ev.Time.UnixNano() <= b.last {
		ev.Time = time.Unix(0, b.last+1)
	}
	b.last = ev.Time.UnixNano()
	if len(b.past) < pastLen {
		b.past = append(b.past, ev)
	} else {
		b.past[b.next] = ev
		b.next = (b.next + 1) % pastLen
	}
	subs, lost := b.subs, false
	for _, s := range subs {
		if len(s.queue)-s.read >= queueLen {
			s.end = fault.Unavailable("event listener fell behind by more than %d events", queueLen)
			lost = true
			continue
		}
		s.queue = append(s.queue, ev)
	}
	if lost {
		b.subs = slices.DeleteFunc(slices.Clone(subs), func(s *Subscription) bool { return s.end != nil })
	}
	return subs
}

// pastLocked returns a copy of the remembered events from since on, the oldest first.
func (b *Bus) pastLocked(since time.Time) []Event {
	out := slices.Concat(b.past[b.next:], b.past[:b.next])
	first := slices.IndexFunc(out, func(ev Event) bool { return !ev.Time.Before(since) })
	if first < 0 {
		return nil
	}
	return out[first:]
}
