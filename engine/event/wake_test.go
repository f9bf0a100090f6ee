package event_test

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/event"
)

// TestFilteredListenerDoesNotFallBehind waits for one event while thousands pass that are not for it, and none of them
// wakes it.
func TestFilteredListenerDoesNotFallBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := event.NewBus()
		defer b.Close()
		s := b.Subscribe(event.Options{Filter: func(ev *event.Event) bool { return ev.Action == "mine" }})
		defer s.Close()
		woken := make(chan error)
		go func() { woken <- s.Wait(t.Context()) }()
		synctest.Wait()
		for range 3 {
			for range 4000 { // fewer than the bus remembers: the next ones come when these have been looked at
				publish(b, "other")
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		select {
		case err := <-woken:
			t.Fatalf("Wait = %v without an event for it", err)
		default:
		}
		publish(b, "mine", "other")
		if err := <-woken; err != nil {
			t.Fatal(err)
		}
		if ev, err := next(t.Context(), s); err != nil || ev.Action != "mine" {
			t.Errorf("got %v, %v, want the one event", ev, err)
		}
	})
}

// TestFloodIsTakenTogether has listeners wake some ten times a second, and yet at once for the first events.
func TestFloodIsTakenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := event.NewBus()
		const listeners, events = 100, 10000
		began := time.Now()
		var wg sync.WaitGroup
		for range listeners {
			s := b.Subscribe(event.Options{})
			wg.Go(func() {
				defer s.Close()
				into := make([]*event.Published, events)
				wakes, got := 0, 0
				for ; got < events; wakes++ {
					if err := s.Wait(t.Context()); err != nil {
						t.Error(err)
						return
					}
					n, err := s.Take(t.Context(), into)
					if err != nil {
						t.Error(err)
						return
					}
					got += n
					if late := time.Since(began); wakes == 0 && late != 0 {
						t.Errorf("the first event came after %v", late)
					}
				}
				if wakes > 150 {
					t.Errorf("%d wakes for %d events in a second, want one in 20 ms after the first 64", wakes, events)
				}
			})
		}
		synctest.Wait()
		for i := range events {
			publish(b, strconv.Itoa(i))
			time.Sleep(100 * time.Microsecond)
		}
		wg.Wait()
		b.Close()
	})
}

// BenchmarkPublishBesideIdle has a thousand listeners that wait for other events.
func BenchmarkPublishBesideIdle(b *testing.B) {
	bus := event.NewBus()
	defer bus.Close()
	filter, err := event.NewFilter(map[string][]string{"type": {event.TypeContainer}, "container": {"4f"}, "event": {"die", "destroy"}})
	if err != nil {
		b.Fatal(err)
	}
	var waiting sync.WaitGroup
	for range 1000 {
		s := bus.Subscribe(event.Options{Filter: filter.Match})
		waiting.Go(func() { _ = s.Wait(b.Context()) }) // the end of the bus ends it
	}
	b.ReportAllocs()
	for b.Loop() {
		bus.Publish(event.Event{Type: event.TypeContainer, Action: "start", ID: "ab"})
	}
	bus.Close()
	waiting.Wait()
}
