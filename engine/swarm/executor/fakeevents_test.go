package executor

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"moss/api/types"
)

func (f *fakeEngine) publishLocked(c *fakeContainer, action string, attributes map[string]string) {
	f.events = append(f.events, types.Event{
		Type: "container", Action: action, Actor: types.EventActor{ID: c.ID, Attributes: attributes},
		TimeNano: time.Now().UnixNano(),
	})
	f.changed.Broadcast()
}

func (f *fakeEngine) serveEvents(w http.ResponseWriter, r *http.Request) {
	var filters struct{ Event, Container []string }
	_ = json.Unmarshal([]byte(r.URL.Query().Get("filters")), &filters)
	_, past := r.URL.Query()["until"]
	f.mu.Lock()
	defer f.mu.Unlock()
	next := len(f.events)
	if past {
		next = 0
	}
	controller := http.NewResponseController(w)
	_ = controller.Flush()
	defer wakeAtEnd(r, f)()
	for r.Context().Err() == nil {
		for ; next < len(f.events); next++ {
			e := f.events[next]
			name, _, _ := strings.Cut(e.Action, ":")
			if !slices.Contains(filters.Event, name) || filters.Container != nil && !slices.Contains(filters.Container, e.Actor.ID) {
				continue
			}
			if json.NewEncoder(w).Encode(e) != nil || controller.Flush() != nil {
				return
			}
		}
		if past {
			return
		}
		f.changed.Wait()
	}
}

// wakeAtEnd wakes those who wait for a change when a request ends.
func wakeAtEnd(r *http.Request, f *fakeEngine) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-r.Context().Done():
			f.mu.Lock()
			defer f.mu.Unlock()
			f.changed.Broadcast()
		case <-done:
		}
	}()
	return func() { close(done) }
}
