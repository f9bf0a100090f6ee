package executor

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"moss/api/client"
	"moss/api/types"
)

// watcher wakes those who wait for a change of a container, by one stream of the engine's events for all of them. A waiter looks
// at its container when it is woken: at the beginning, after each event of the container, and each time the stream has been
// opened, so that nothing is lost while the engine or the stream is away. Nobody waits: there is no stream.
type watcher struct {
	engine *engine
	life   context.Context //nolint:containedctx // the executor's own
	work   sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	waiters map[*waiter]struct{}
	stop    context.CancelFunc // ends the stream
}

// waiter waits for changes of one container.
type waiter struct {
	containerID string
	changed     chan struct{} // has room for one; a value says that there is something to look at
}

func newWatcher(life context.Context, e *engine) *watcher {
	return &watcher{engine: e, life: life, waiters: map[*waiter]struct{}{}}
}

// addWaiter returns a waiter that has been woken. The caller removes it.
func (w *watcher) addWaiter(containerID string) *waiter {
	a := &waiter{containerID: containerID, changed: make(chan struct{}, 1)}
	a.wakeUp()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiters[a] = struct{}{}
	if len(w.waiters) == 1 && w.life.Err() == nil {
		ctx, stop := context.WithCancel(w.life)
		w.stop = stop
		w.work.Go(func() { w.watchEvents(ctx) })
	}
	return a
}

func (w *watcher) removeWaiter(a *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiters, a)
	if len(w.waiters) == 0 && w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// awaitEnd waits for the end of the stream, which ends with the executor's life.
func (w *watcher) awaitEnd() { w.work.Wait() }

// watchEvents reads events until ctx ends.
func (w *watcher) watchEvents(ctx context.Context) {
	opts := client.EventsOptions{Filters: map[string][]string{
		"type": {"container"}, "label": {labelTaskID}, "event": {"start", "die", "destroy", "health_status"},
	}}
	delay := firstDelay
	opts.Opened = func() {
		delay = firstDelay
		w.wakeContainer("")
	}
	for {
		_ = w.engine.client.Events(ctx, opts, func(e types.Event, _ json.RawMessage) error {
			w.wakeContainer(e.Actor.ID)
			return nil
		})
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
			delay = min(2*delay, lastDelay)
		}
	}
}

// wakeContainer wakes the waiters of a container; an empty id wakes all.
func (w *watcher) wakeContainer(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := range w.waiters {
		if id == "" || a.containerID == id {
			a.wakeUp()
		}
	}
}

func (a *waiter) wakeUp() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}
