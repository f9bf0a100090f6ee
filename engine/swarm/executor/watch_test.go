package executor

import (
	"net/http"
	"testing"

	"moss/api/types"
)

// TestWatcher wakes a waiter at its beginning, when the stream has been opened, and after each event of its own container.
func TestWatcher(t *testing.T) {
	r := newRig(t, 0)
	open := gateEvents(r)
	w := r.x.watcher
	other := w.addWaiter("other")
	<-other.changed
	open()
	<-other.changed
	w.mu.Lock()   // Opened wakes all in one go
	w.mu.Unlock() //nolint:staticcheck // only waited for

	var body types.ContainerCreate
	r.mu.Lock()
	c := r.addLocked("web", body)
	r.mu.Unlock()
	mine := w.addWaiter(c.ID) // while the stream is open
	<-mine.changed
	for _, action := range []string{"start", "die", "destroy", "health_status: healthy"} {
		r.set(func() { r.publishLocked(c, action, nil) })
		<-mine.changed
		w.mu.Lock()
		select {
		case <-other.changed:
			t.Errorf("%s woke the waiter of another container", action)
		default:
		}
		w.mu.Unlock()
	}
	if got := r.count("GET /events"); got != 1 {
		t.Errorf("%d streams, want one for all", got)
	}
	w.removeWaiter(mine)
	w.removeWaiter(other)
	w.awaitEnd() // nobody waits, so the stream ends
	open = gateEvents(r)
	again := w.addWaiter("again")
	<-again.changed
	open()
	<-again.changed
	w.removeWaiter(again)
}

// gateEvents keeps streams of events from being opened until open is called. Without it the first two reasons to wake a waiter
// may become one.
func gateEvents(r *rig) (open func()) {
	gate := make(chan struct{})
	r.set(func() {
		r.before = func(_ http.ResponseWriter, q *http.Request) bool {
			if q.URL.Path == "/events" {
				<-gate
			}
			return false
		}
	})
	return func() { close(gate) }
}
