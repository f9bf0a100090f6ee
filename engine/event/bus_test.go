package event_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/event"
	"moss/engine/fault"
)

func publish(b *event.Bus, actions ...string) {
	for _, a := range actions {
		b.Publish(event.Event{Type: event.TypeContainer, Action: a})
	}
}

// drain reads until an error and returns the actions and that error.
func drain(ctx context.Context, s *event.Subscription) (actions []string, err error) {
	for {
		ev, err := next(ctx, s)
		if err != nil {
			return actions, err
		}
		actions = append(actions, ev.Action)
	}
}

// next waits for one event.
func next(ctx context.Context, s *event.Subscription) (*event.Published, error) {
	var one [1]*event.Published
	for {
		if err := s.Wait(ctx); err != nil {
			return nil, err
		}
		if n, err := s.Take(ctx, one[:]); n > 0 || err != nil {
			return one[0], err
		}
	}
}

func TestSubscribePast(t *testing.T) {
	base := time.Unix(1000, 0)
	at := func(sec int) time.Time { return base.Add(time.Duration(sec) * time.Second) }
	for _, tc := range []struct {
		name string
		opts event.Options
		want string
	}{
		{"new only", event.Options{}, "[new]"},
		{"all the past", event.Options{Past: true}, "[e0 e1 e2 e3 new]"},
		{"since is inclusive", event.Options{Since: at(2)}, "[e2 e3 new]"},
		{"since between", event.Options{Since: at(2).Add(1)}, "[e3 new]"},
		{"since the future", event.Options{Since: at(99)}, "[new]"},
		{"until is inclusive", event.Options{Past: true, Until: at(1)}, "[e0 e1]"},
		{"since and until", event.Options{Since: at(1), Until: at(2)}, "[e1 e2]"},
		{"filter", event.Options{Past: true, Filter: func(ev *event.Event) bool { return ev.Action != "e1" }}, "[e0 e2 e3 new]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := event.NewBus()
			for i := range 4 {
				b.Publish(event.Event{Action: fmt.Sprint("e", i), Time: at(i)})
			}
			s := b.Subscribe(tc.opts)
			defer s.Close()
			publish(b, "new")
			b.Close()
			got, err := drain(t.Context(), s)
			if fmt.Sprint(got) != tc.want || !errors.Is(err, io.EOF) {
				t.Errorf("got %v, %v, want %s, EOF", got, err, tc.want)
			}
		})
	}
}

func TestPastIsARing(t *testing.T) {
	b := event.NewBus()
	for i := range 40000 {
		publish(b, strconv.Itoa(i))
	}
	s := b.Subscribe(event.Options{Past: true})
	b.Close()
	got, _ := drain(t.Context(), s)
	if len(got) != 32768 || got[0] != "7232" || got[32767] != "39999" {
		t.Errorf("got %d events from %s to %s, want 32768 from 7232 to 39999", len(got), got[0], got[len(got)-1])
	}
}

// TestOldEventsAreFewer has an engine that does little: what it did is not kept in memory for ever.
func TestOldEventsAreFewer(t *testing.T) {
	b := event.NewBus()
	for i := range 10000 {
		b.Publish(event.Event{Action: strconv.Itoa(i), Time: time.Unix(int64(i), 0)})
	}
	s := b.Subscribe(event.Options{Past: true})
	b.Close()
	if got, _ := drain(t.Context(), s); len(got) != 4096 || got[0] != "5904" {
		t.Errorf("got %d events from %s on, want 4096 from 5904 on", len(got), got[0])
	}
}

// TestLongEventsAreFewer has labels that are as long as a request may be.
func TestLongEventsAreFewer(t *testing.T) {
	b := event.NewBus()
	long := strings.Repeat("x", 1<<20)
	for i := range 20 {
		b.Publish(event.Event{Action: strconv.Itoa(i), Attributes: map[string]string{"label": long}})
	}
	s := b.Subscribe(event.Options{Past: true})
	b.Close()
	if got, _ := drain(t.Context(), s); len(got) != 15 || got[0] != "5" {
		t.Errorf("remembered %v of 20 events with 1 MiB each, want the last 15: 16 MiB at most", got)
	}
}

func TestTimesStrictlyIncrease(t *testing.T) {
	b := event.NewBus()
	s := b.Subscribe(event.Options{})
	now := time.Now()
	for i := range 1000 {
		ev := event.Event{}
		switch i % 3 {
		case 1:
			ev.Time = now // the same again and again
		case 2:
			ev.Time = now.Add(-time.Hour)
		}
		b.Publish(ev)
	}
	b.Close()
	var last int64
	for i := range 1000 {
		ev, err := next(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if n := ev.Time.UnixNano(); n <= last {
			t.Fatalf("event %d: time %d after %d", i, n, last)
		} else {
			last = n
		}
	}
}

// TestNoGapNoDuplicate subscribes again and again beside a publisher: what each listener gets, past and new together,
// must be one unbroken row of numbers.
func TestNoGapNoDuplicate(t *testing.T) {
	b := event.NewBus()
	const events = 20000
	publish(b, "0")
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 1; i < events; i++ {
			publish(b, strconv.Itoa(i))
		}
	})
	for range 4 {
		wg.Go(func() {
			for range 50 {
				unbroken(t, b, event.Options{Past: true}, 300, events-1)
			}
		})
	}
	wg.Wait()
	if got := b.Listeners(); got != 0 {
		t.Errorf("Listeners = %d after all closed", got)
	}
}

// unbroken reads so many events, or until the last one, and checks that each is the one after that before. A listener
// that asks a bus without a journal for all the past is at once the one that is furthest behind, and may be told that.
func unbroken(t *testing.T, b *event.Bus, opts event.Options, events, last int) {
	s := b.Subscribe(opts)
	defer s.Close()
	var before *event.Published
	for i := range events {
		ev, err := next(t.Context(), s)
		if fault.Is(err, fault.Unavailable) {
			return
		}
		if err != nil {
			t.Errorf("event %d: %v", i, err)
			return
		}
		n, err := strconv.Atoi(ev.Action)
		if err != nil || uint64(n)+1 != ev.Seq || before != nil && ev.Seq != before.Seq+1 {
			t.Errorf("event %d is %s with number %d, after %v", i, ev.Action, ev.Seq, before)
			return
		}
		if n == last {
			return
		}
		before = ev
	}
}

func TestSlowListenerGetsAnError(t *testing.T) {
	b := event.NewBus()
	slow := b.Subscribe(event.Options{})
	quick := b.Subscribe(event.Options{})
	for i := range 32768 + 10 {
		publish(b, strconv.Itoa(i))
		if _, err := next(t.Context(), quick); err != nil {
			t.Fatal(err)
		}
	}
	got, err := drain(t.Context(), slow)
	if len(got) != 0 || !fault.Is(err, fault.Unavailable) {
		t.Errorf("slow listener got %d events and %v, want none and an Unavailable", len(got), err)
	}
	if got := b.Listeners(); got != 1 {
		t.Errorf("Listeners = %d, want the quick one only", got)
	}
}

// TestLateListenerKeepsUp stays a few events behind for a long time: that is not slow.
func TestLateListenerKeepsUp(t *testing.T) {
	b := event.NewBus()
	s := b.Subscribe(event.Options{})
	publish(b, "a", "b", "c")
	for range 20000 {
		publish(b, "x")
		if _, err := next(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	b.Close()
	if got, _ := drain(t.Context(), s); len(got) != 3 {
		t.Errorf("%d events left, want 3", len(got))
	}
}

func TestUntilEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := event.NewBus()
		start := time.Now()
		s := b.Subscribe(event.Options{Until: start.Add(10 * time.Second)})
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			for i := range 4 {
				<-time.After(3 * time.Second)
				publish(b, strconv.Itoa(i))
			}
		})
		got, err := drain(t.Context(), s)
		if fmt.Sprint(got) != "[0 1 2]" || !errors.Is(err, io.EOF) {
			t.Errorf("got %v, %v, want [0 1 2], EOF", got, err)
		}
		if waited := time.Since(start); waited != 10*time.Second {
			t.Errorf("ended after %v, want 10s", waited)
		}
		if got := b.Listeners(); got != 0 {
			t.Errorf("Listeners = %d after Until", got)
		}
	})
}

func TestEnds(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(b *event.Bus, s *event.Subscription, cancelNext func())
		want error
	}{
		{"close of the subscription", func(_ *event.Bus, s *event.Subscription, _ func()) { s.Close(); s.Close() }, io.EOF},
		{"close of the bus", func(b *event.Bus, _ *event.Subscription, _ func()) { b.Close(); b.Close(); publish(b, "x") }, io.EOF},
		{"context of Next", func(_ *event.Bus, _ *event.Subscription, next func()) { next() }, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := event.NewBus()
				nextCtx, cancelNext := context.WithCancel(t.Context())
				defer cancelNext()
				s := b.Subscribe(event.Options{})
				defer s.Close()
				got := make(chan error, 1)
				go func() {
					_, err := next(nextCtx, s)
					got <- err
				}()
				synctest.Wait()
				select {
				case err := <-got:
					t.Fatalf("Next did not wait: %v", err)
				default:
				}
				tc.end(b, s, cancelNext)
				if err := <-got; !errors.Is(err, tc.want) {
					t.Errorf("Next = %v, want %v", err, tc.want)
				}
			})
		})
	}
}

func TestSubscribeToAClosedBus(t *testing.T) {
	b := event.NewBus()
	publish(b, "old")
	b.Close()
	s := b.Subscribe(event.Options{Past: true})
	got, err := drain(t.Context(), s)
	if fmt.Sprint(got) != "[old]" || !errors.Is(err, io.EOF) {
		t.Errorf("got %v, %v, want [old], EOF", got, err)
	}
}

func BenchmarkPublish(b *testing.B) {
	bus := event.NewBus()
	s := bus.Subscribe(event.Options{})
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		bus.Publish(event.Event{Action: "start"})
		if _, err := next(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
}
