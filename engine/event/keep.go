package event

import "context"

// Journal keeps events for longer than a bus remembers them.
type Journal interface {
	// End is the place of the last event that it had when it was opened.
	End() Place
	// Keep adds events, in their order. It may take its time, and drops what it cannot keep.
	Keep(events []*Published)
	// After reads the events that are later than a time.
	After(nanos int64) JournalReader
}

// JournalReader reads a journal. It is not safe for several goroutines, and needs no end.
type JournalReader interface {
	// Next fills into with the next events and returns how many there were, none at the end of the journal. Events that
	// have been removed since the last call are fault.Unavailable.
	Next(into []*Published) (int, error)
}

// Place is where an event stands in the row of all.
type Place struct {
	Seq   uint64 // its number, from 1 on
	Nanos int64  // its time
}

// keepAtOnce is how many events the journal is given in one call.
const keepAtOnce = 256

// feedJournal gives the journal what is published, until Close. The ring is all that stands between them: when the journal
// takes longer than that lasts, events are missing in it, and a listener that needs them from there is told.
func (b *Bus) feedJournal() {
	batch := make([]*Published, keepAtOnce)
	for {
		b.mu.Lock()
		from := max(b.kept+1, b.ring.first)
		n := b.ring.copyTo(batch, from)
		closed := b.closed
		b.mu.Unlock()
		if n == 0 {
			if closed {
				return
			}
			select {
			case <-b.unkept:
			case <-b.done:
			}
			continue
		}
		b.journal.Keep(batch[:n])
		clear(batch)
		b.mu.Lock()
		b.kept = from + uint64(n) - 1 //nolint:gosec // not negative
		keeping := b.keeping
		b.keeping = nil
		b.mu.Unlock()
		if keeping != nil {
			close(keeping)
		}
	}
}

// awaitKept waits until the journal was given another event.
func (b *Bus) awaitKept(ctx context.Context, seen uint64) error {
	b.mu.Lock()
	if b.kept != seen {
		b.mu.Unlock()
		return nil
	}
	if b.keeping == nil {
		b.keeping = make(chan struct{})
	}
	keeping := b.keeping
	b.mu.Unlock()
	select {
	case <-keeping:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
