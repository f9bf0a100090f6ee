package event

import "time"

const (
	// quickWakes is how often in a row listeners are woken for a single event. Nothing that people or clients wait for
	// takes more events than that.
	quickWakes = 64
	// perListener, for each listener that was woken last, is what lies between two wakes when events keep coming, within
	// these bounds. Waking a hundred listeners for each of thousands of events would take more processors than there are.
	perListener         = 200 * time.Microsecond
	shortWait, longWait = time.Millisecond, 20 * time.Millisecond
)

// pace lets quickWakes pass at once and then one in so much time.
type pace struct {
	every time.Duration
	spent int
	since time.Time // of which spent is
}

// nextDelay returns how long to wait before the next wake, and counts it once that is nothing.
func (p *pace) nextDelay(now time.Time) time.Duration {
	p.every = max(p.every, shortWait)
	back := int(now.Sub(p.since) / p.every)
	if back >= p.spent {
		p.spent, p.since = 0, now
	} else {
		p.spent -= back
		p.since = p.since.Add(time.Duration(back) * p.every)
	}
	if p.spent >= quickWakes {
		return p.since.Add(p.every).Sub(now)
	}
	p.spent++
	return 0
}

// noteWoken notes how many listeners were woken.
func (p *pace) noteWoken(n int) { p.every = min(time.Duration(n)*perListener, longWait) }

// look is a listener that waits, as wakeListeners has found it.
type look struct {
	s    *Subscription
	from uint64
	hit  bool // there is something for it
}

// wakeListeners wakes the waiting listeners for which there is something, and moves the others on, until there is nothing
// new. It runs filters, so that what a thousand listeners do not want wakes none of them.
func (b *Bus) wakeListeners() {
	var looks []look
	events := make([]*Published, 0, 16)
	for {
		for {
			delay := b.pace.nextDelay(time.Now())
			if delay <= 0 {
				break
			}
			select {
			case <-time.After(delay):
			case <-b.done:
				return // Close has woken everybody
			}
		}
		b.mu.Lock()
		looks = looks[:0]
		first, next := b.ring.first, b.ring.next
		lowest := next
		for _, s := range b.waiting {
			if s.next < next {
				looks = append(looks, look{s: s, from: s.next})
				lowest = min(lowest, s.next)
			}
		}
		if len(looks) == 0 {
			b.waking = false
			b.mu.Unlock()
			return
		}
		lowest = max(lowest, first)
		events = events[:0]
		for seq := lowest; seq < next; seq++ {
			events = append(events, b.ring.eventAt(seq))
		}
		b.mu.Unlock()
		for i := range looks {
			looks[i].hit = looks[i].from < first || looks[i].s.wantsAny(events[looks[i].from-lowest:])
		}
		b.pace.noteWoken(b.wakeOrAdvance(looks, next, events[len(events)-1].Time.UnixNano()))
		clear(events) // they are not to be kept here
		clear(looks)
	}
}

// wakeOrAdvance wakes those for whom there is something, and tells the others that they have seen all events before next. It
// returns how many it has woken.
func (b *Bus) wakeOrAdvance(looks []look, next uint64, last int64) (woken int) {
	b.mu.Lock()
	for i := range looks {
		s := looks[i].s
		switch {
		case s.waits < 0 || s.next != looks[i].from: // it has woken by itself
			looks[i].hit = false
		case looks[i].hit:
			b.stopWaiting(s)
		default:
			s.next, s.after = next, last
		}
	}
	b.mu.Unlock()
	for i := range looks {
		if looks[i].hit {
			sendSignal(looks[i].s.woken)
			woken++
		}
	}
	return woken
}

// stopWaiting takes a listener from those who wait, if it does. It needs the lock of the bus.
func (b *Bus) stopWaiting(s *Subscription) {
	if s.waits < 0 {
		return
	}
	end := len(b.waiting) - 1
	b.waiting[s.waits] = b.waiting[end]
	b.waiting[s.waits].waits = s.waits
	b.waiting[end] = nil
	b.waiting = b.waiting[:end]
	s.waits = -1
}
