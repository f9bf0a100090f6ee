package event

import (
	"math"
	"sort"
	"time"
)

const (
	// ringEvents is how many events a bus remembers at most: seconds of more than any engine does, in which a listener may
	// be busy or asleep.
	ringEvents = 32768
	// ringBytes is how much memory they may take: labels can be long.
	ringBytes = 16 << 20
	// fresh is how old the oldest may be where there are more than quietEvents or lonelyEvents: a listener that is awake
	// has taken them by then, and an engine at rest should be small.
	fresh = 5 * time.Second
	// quietEvents is how many stay in memory whatever their age when there is a journal, lonelyEvents when there is none.
	quietEvents, lonelyEvents = 256, 4096
)

// ring holds the latest events. It is not safe for several goroutines.
type ring struct {
	slots [ringEvents]*Published // that of an event is at its number, modulo the length
	first uint64                 // number of the oldest
	next  uint64                 // number of the event to come; as first when there is none
	bytes int
	quiet uint64 // how many stay whatever their age
	gone  int64  // time of the latest event that is no longer here, in nanoseconds
}

// pushEvent adds an event and forgets what there is no more room for.
func (r *ring) pushEvent(p *Published) {
	p.Seq = r.next
	r.next++
	r.bytes += p.size()
	for r.first < p.Seq && r.needsEviction(p) {
		old := &r.slots[r.first%ringEvents]
		r.bytes -= (*old).size()
		r.gone = (*old).Time.UnixNano()
		*old = nil
		r.first++
	}
	r.slots[p.Seq%ringEvents] = p
}

// needsEviction reports whether the oldest event has to go for a new one.
func (r *ring) needsEviction(p *Published) bool {
	held := r.next - r.first
	return held > ringEvents || r.bytes > ringBytes || held > r.quiet && p.Time.Sub(r.eventAt(r.first).Time) > fresh
}

// eventAt returns the event of a number that is between first and next.
func (r *ring) eventAt(seq uint64) *Published { return r.slots[seq%ringEvents] }

// copyTo fills into with the events from a number on and returns how many there were.
func (r *ring) copyTo(into []*Published, from uint64) int {
	n := 0
	for seq := from; seq < r.next && n < len(into); seq++ {
		into[n] = r.eventAt(seq)
		n++
	}
	return n
}

// firstAfter returns the number of the first event that is later than a time.
func (r *ring) firstAfter(nanos int64) uint64 {
	length := int(r.next - r.first) //nolint:gosec // no more than ringEvents
	n := sort.Search(length, func(i int) bool {
		return r.eventAt(r.first+uint64(i)).Time.UnixNano() > nanos //nolint:gosec // not negative
	})
	return r.first + uint64(n) //nolint:gosec // not negative
}

// unixNanos returns a time in nanoseconds since 1970; one that these cannot tell becomes the first or the last that they can.
func unixNanos(t time.Time) int64 {
	const last = math.MaxInt64 / int64(time.Second)
	switch {
	case t.Unix() >= last:
		return math.MaxInt64
	case t.Unix() <= -last:
		return math.MinInt64
	default:
		return t.UnixNano()
	}
}
