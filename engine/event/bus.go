package event

import (
	"sync"
	"time"
)

// Bus hands every published event to every listener, in one order. It holds the latest ones once for all: a listener is a
// place in them, and costs nothing while it waits. Whoever wants what is older reads it from the journal, if there is one.
type Bus struct {
	journal Journal
	done    chan struct{}  // closed by Close
	work    sync.WaitGroup // the goroutines of wakeListeners and feedJournal
	unkept  chan struct{}  // holds one signal: there are events for the journal

	mu      sync.Mutex // guards the fields below, and places of subscriptions
	ring    ring
	last    int64 // time of the latest event, in nanoseconds
	open    int   // subscriptions
	closed  bool
	waiting []*Subscription
	waking  bool          // the goroutine of wakeListeners runs
	kept    uint64        // number of the latest event that the journal was given
	keeping chan struct{} // closed when kept moves on; nil while nobody waits for that

	pace pace // of wakeListeners, and its alone
}

// NewBus returns a bus that remembers in memory only.
func NewBus() *Bus { return newBus(nil, Place{}) }

// NewBusWith returns a bus that goes on after the last event of a journal, in number and in time, and gives it all that
// is published. The journal must stay usable until the bus is closed.
func NewBusWith(j Journal) *Bus {
	b := newBus(j, j.End())
	b.work.Go(b.feedJournal)
	return b
}

func newBus(j Journal, end Place) *Bus {
	b := &Bus{journal: j, done: make(chan struct{}), unkept: make(chan struct{}, 1), last: end.Nanos, kept: end.Seq}
	b.ring.quiet = quietEvents
	if j == nil {
		b.ring.quiet = lonelyEvents
	}
	b.ring.first, b.ring.next, b.ring.gone = end.Seq+1, end.Seq+1, end.Nanos
	return b
}

// Publish gives the event to all listeners. It sets a zero Time to now, and moves the Time on where needed, so that
// times (in nanoseconds) strictly increase in the order of publication. It waits neither for a listener nor for the
// journal. After Close it does nothing.
func (b *Bus) Publish(ev Event) {
	p := &Published{Event: ev}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	if p.Time.IsZero() {
		p.Time = time.Now()
	}
	if p.Time.UnixNano() <= b.last {
		p.Time = time.Unix(0, b.last+1)
	}
	b.last = p.Time.UnixNano()
	b.ring.pushEvent(p)
	if len(b.waiting) > 0 && !b.waking {
		b.waking = true
		b.work.Go(b.wakeListeners)
	}
	b.mu.Unlock()
	if b.journal != nil {
		sendSignal(b.unkept)
	}
}

// Listeners returns the number of open subscriptions.
func (b *Bus) Listeners() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// Close ends all subscriptions: each still gets what was published before, then io.EOF. It returns once the journal has
// all of it. A second Close does nothing.
func (b *Bus) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
	waiting := b.waiting
	b.waiting = nil
	for _, s := range waiting {
		s.waits = -1
	}
	b.mu.Unlock()
	for _, s := range waiting {
		sendSignal(s.woken)
	}
	b.work.Wait()
}

// sendSignal leaves a signal in a channel that has room for one.
func sendSignal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
