package monitor

import (
	"slices"
	"time"

	"moss/engine/stdio"
)

const (
	// slowestPace is how many bytes a second a viewer must take while others wait for it. Terminals, and what people read
	// along with, are faster.
	slowestPace = 256 << 10
	// mostHeld is how far a viewer may fall behind that pace, with others waiting, before it is cut off.
	mostHeld = 2 * time.Second
)

// laggard is a viewer that has not taken a piece of output at once.
type laggard struct {
	v      *viewer
	rest   []byte        // of the piece
	locked bool          // v.mu is held for it
	waited time.Duration // how long others waited for this
}

// fairTime is how long the slowest viewer that is not cut off may take.
func fairTime(piece []byte) time.Duration {
	return time.Duration(len(piece)) * time.Second / slowestPace
}

// awaitLaggards returns when every laggard has taken its piece, or takes no more. As long as nobody else could go on they
// hold the process up, like a terminal that was stopped; but one that others wait for is cut off when it is slower than
// slowestPace for too long.
func (h *hub) awaitLaggards(late []*laggard) {
	done := make(chan *laggard, len(late))
	for _, l := range late {
		l.v.pending.Add(1)
		go func() {
			if l.locked {
				l.v.finishWrite(l.rest)
			} else {
				l.v.write(l.rest)
			}
			l.v.pending.Add(-1)
			done <- l
		}()
	}
	for len(late) > 0 {
		news, left, waiting := h.checkLaggards(late)
		var enough <-chan time.Time
		if waiting {
			enough = time.After(left)
		}
		began := time.Now()
		var ready *laggard
		select {
		case ready = <-done:
			late = slices.DeleteFunc(late, func(l *laggard) bool { return l == ready })
		case <-news:
		case <-enough:
		}
		h.chargeLaggards(late, ready, waiting, time.Since(began))
	}
}

// checkLaggards says whether anybody waits for laggards now, and how much longer the first of them is waited for. news is
// closed when that may have changed.
func (h *hub) checkLaggards(late []*laggard) (news <-chan struct{}, left time.Duration, waiting bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left = h.leftLocked(late[0])
	for _, l := range late[1:] {
		left = min(left, h.leftLocked(l))
	}
	waiting = slices.ContainsFunc(h.viewers, func(v *viewer) bool { return v.wantsOutput() && v.pending.Load() == 0 })
	return h.news, max(left, 0), waiting
}

// leftLocked is how much longer others will wait for a laggard.
func (h *hub) leftLocked(l *laggard) time.Duration {
	return h.patience - l.v.held + fairTime(l.rest) - l.waited
}

// chargeLaggards charges laggards for the time that others have waited, and cuts off a viewer without time left. ready, if not
// nil, has taken its piece.
func (h *hub) chargeLaggards(late []*laggard, ready *laggard, waited bool, d time.Duration) {
	if !waited {
		d = 0
	}
	h.mu.Lock()
	var lost []*viewer
	for _, l := range late {
		l.waited += d
		if h.leftLocked(l) <= 0 && slices.Contains(h.viewers, l.v) {
			lost = append(lost, l.v)
		}
	}
	if ready != nil {
		ready.waited += d
		ready.v.held = max(0, ready.v.held+ready.waited-fairTime(ready.rest))
		h.tellLocked()
	}
	h.mu.Unlock()
	for _, v := range lost {
		h.removeViewer(v)
		v.unblockWrites()
		go v.flushAndHangUp(h.cutOffMessage())
	}
}

// tellLocked wakes the outputs that wait for laggards.
func (h *hub) tellLocked() {
	close(h.news)
	h.news = make(chan struct{})
}

// cutOffMessage returns the last message to a viewer that is cut off, in the form of the output.
func (h *hub) cutOffMessage() []byte {
	const text = "Error: this view has ended: it read too slowly while others waited for the output"
	if !h.framed {
		return []byte("\r\n" + text + "\r\n")
	}
	return append(stdio.AppendHeader(nil, stdio.Stderr, len(text)+1), text+"\n"...)
}
