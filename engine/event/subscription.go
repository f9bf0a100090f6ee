package event

import (
	"context"
	"io"
	"math"
	"time"

	"moss/engine/fault"
)

// Options say what a listener wants to hear.
type Options struct {
	// Since asks for the events from that time on that are still known, before the new ones.
	Since time.Time
	// Until ends the subscription after the events of that time; zero never ends it.
	Until time.Time
	// Past asks for all events that are still known.
	Past bool
	// Filter picks events; nil takes all. It runs in several goroutines, and must not change the event.
	Filter func(*Event) bool
}

// Subscription is one listener's place in the events of a Bus. Wait and Take are for one goroutine at a time; Close may
// come from any.
type Subscription struct {
	bus     *Bus
	until   int64
	filter  func(*Event) bool
	woken   chan struct{}    // holds one signal: Wait is to look again
	expired <-chan time.Time // nil: there is no Until
	timer   *time.Timer
	reader  JournalReader // nil while the ring has what comes next
	ended   error         // what Take returns from now on

	// Guarded by bus.mu.
	next   uint64 // number of the event that comes next; 0: the first after the time below
	after  int64  // time of the event before that
	must   uint64 // number of the event from which on nothing may be missing
	over   bool   // Until has passed
	closed bool
	waits  int // its index in bus.waiting, -1 if it does not wait
}

// Subscribe joins the bus: the listener misses no event and gets none twice, old and new ones together. The caller must
// Close the subscription.
func (b *Bus) Subscribe(opts Options) *Subscription {
	s := &Subscription{bus: b, until: math.MaxInt64, filter: opts.Filter, woken: make(chan struct{}, 1), waits: -1}
	if !opts.Until.IsZero() {
		s.until = unixNanos(opts.Until)
		s.timer = time.NewTimer(time.Until(opts.Until))
		s.expired = s.timer.C
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
	switch {
	case opts.Past:
		s.after = math.MinInt64
	case !opts.Since.IsZero():
		s.after = max(unixNanos(opts.Since), math.MinInt64+1) - 1
	default:
		s.next, s.after, s.must = b.ring.next, b.last, b.ring.next
		return s
	}
	if s.after >= b.ring.gone || b.journal == nil {
		s.next = b.ring.firstAfter(s.after)
		s.must = s.next
		return s
	}
	// What the journal does not have of the time before is in the log, and cannot be told. From here on it would be a gap.
	s.must = b.ring.first
	return s
}

// Wait returns nil once Take will give something or end, and ctx's error when ctx ends before that.
func (s *Subscription) Wait(ctx context.Context) error {
	for !s.readyOrWait() {
		select {
		case <-s.woken:
		case <-s.expired:
			s.bus.mu.Lock()
			s.over = true
			s.bus.stopWaiting(s)
			s.bus.mu.Unlock()
		case <-ctx.Done():
			s.bus.mu.Lock()
			s.bus.stopWaiting(s)
			s.bus.mu.Unlock()
			if !s.readyOrWait() {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// readyOrWait reports whether there is something to take. If not, the subscription waits from now on.
func (s *Subscription) readyOrWait() bool {
	b := s.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.ended != nil || s.closed || s.over || b.closed || s.next < b.ring.next {
		b.stopWaiting(s)
		return true
	}
	if s.waits < 0 {
		s.waits = len(b.waiting)
		b.waiting = append(b.waiting, s)
	}
	return false
}

// Take fills into with the next events that the filter takes and returns how many there were: none if there are none now.
// It reads the journal where it must, and waits for nothing else. It returns io.EOF after the last event of
// Options.Until, after Close, and after the last event of a closed bus; fault.Unavailable when events were lost to this
// listener because it was too slow; ctx's error when ctx ends while the journal is behind.
func (s *Subscription) Take(ctx context.Context, into []*Published) (int, error) {
	for s.ended == nil {
		n, err := s.fetchNext(ctx, into)
		if err != nil {
			s.endWith(err)
			break
		}
		if n == 0 {
			return 0, nil
		}
		if taken := s.filterEvents(into, n); taken > 0 {
			return taken, nil
		}
		if s.ended == nil && ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
	return 0, s.ended
}

// Close leaves the bus; Take returns io.EOF from then on. A second Close does nothing.
func (s *Subscription) Close() {
	s.leaveBus()
	sendSignal(s.woken)
}

// endWith remembers why Take gives nothing more, and leaves the bus.
func (s *Subscription) endWith(err error) {
	s.ended, s.reader = err, nil
	s.leaveBus()
}

func (s *Subscription) leaveBus() {
	b := s.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	b.open--
	b.stopWaiting(s)
	if s.timer != nil {
		s.timer.Stop()
	}
}

// wantsAny reports whether one of the events is for this listener, or ends it.
func (s *Subscription) wantsAny(events []*Published) bool {
	for _, p := range events {
		if s.filter == nil || s.filter(&p.Event) || p.Time.UnixNano() > s.until {
			return true
		}
	}
	return false
}

// filterEvents moves those of the first n events that the filter takes to the front and returns their number.
func (s *Subscription) filterEvents(into []*Published, n int) int {
	taken := 0
	for _, p := range into[:n] {
		if p.Time.UnixNano() > s.until {
			s.endWith(io.EOF)
			break
		}
		if s.filter == nil || s.filter(&p.Event) {
			into[taken] = p
			taken++
		}
	}
	clear(into[taken:n])
	return taken
}

// fetchNext fills into with the next events, whatever they are, and returns how many there were.
func (s *Subscription) fetchNext(ctx context.Context, into []*Published) (int, error) {
	for {
		n, place, err := s.fromRing(into)
		if n > 0 || err != nil || !place.behind {
			return n, err
		}
		if n, err = s.fromJournal(ctx, into, place); n > 0 || err != nil {
			return n, err
		}
	}
}

// ringPlace is what fetchNext must know of the ring to read the journal.
type ringPlace struct {
	behind bool   // the next event is not in the ring
	first  uint64 // the ring's oldest
	kept   uint64 // the journal's latest
}

func (s *Subscription) fromRing(into []*Published) (int, ringPlace, error) {
	b := s.bus
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.closed {
		return 0, ringPlace{}, io.EOF
	}
	if s.next < b.ring.first {
		if b.journal == nil {
			return 0, ringPlace{}, lostError()
		}
		return 0, ringPlace{behind: true, first: b.ring.first, kept: b.kept}, nil
	}
	s.reader = nil
	n := b.ring.copyTo(into, s.next)
	if n > 0 {
		s.next, s.after = s.next+uint64(n), into[n-1].Time.UnixNano() //nolint:gosec // not negative
		return n, ringPlace{}, nil
	}
	if s.over || b.closed {
		return 0, ringPlace{}, io.EOF
	}
	return 0, ringPlace{}, nil
}

// fromJournal reads what the ring no longer has. Nothing and no error: look at the ring again.
func (s *Subscription) fromJournal(ctx context.Context, into []*Published, place ringPlace) (int, error) {
	if s.reader == nil {
		s.reader = s.bus.journal.After(s.after)
	}
	n, err := s.reader.Next(into)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		if place.kept+1 < place.first {
			return 0, s.bus.awaitKept(ctx, place.kept)
		}
		if err := s.checkSkip(place.first); err != nil {
			return 0, err
		}
		s.goOn(place.first, s.after)
		return 0, nil
	}
	for _, p := range into[:n] {
		if err := s.checkSkip(p.Seq); err != nil {
			return 0, err
		}
		s.goOn(p.Seq+1, p.Time.UnixNano())
	}
	return n, nil
}

// checkSkip returns lostError if a listener that goes on with the event of a number would miss one that it must get.
func (s *Subscription) checkSkip(to uint64) error {
	if s.next < to && to > s.must {
		return lostError()
	}
	return nil
}

func (s *Subscription) goOn(next uint64, after int64) {
	s.bus.mu.Lock()
	s.next, s.after = next, after
	s.bus.mu.Unlock()
}

// lostError returns the error for a listener that can no longer get some events.
func lostError() error {
	return fault.Unavailable("events were lost: this listener fell behind further than events are kept")
}
