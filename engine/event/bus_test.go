package event_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
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
		ev, err := s.Next(ctx)
		if err != nil {
			return actions, err
		}
		actions = append(actions, ev.Action)
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
			s := b.Subscribe(t.Context(), tc.opts)
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
	for i := range 1000 {
		publish(b, strconv.Itoa(i))
	}
	s := b.Subscribe(t.Context(), event.Options{Past: true})
	b.Close()
	got, _ := drain(t.Context(), s)
	if len(got) != 256 || got[0] != "744" || got[255] != "999" {
		t.Errorf("got %d events from %s to %s, want 256 from 744 to 999", len(got), got[0], got[len(got)-1])
	}
}

func TestTimesStrictlyIncrease(t *testing.T) {
	b := event.NewBus()
	s := b.Subscribe(t.Context(), event.Options{})
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
		ev, err := s.Next(t.Context())
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
				s := b.Subscribe(t.Context(), event.Options{Past: true})
				first := -1
				for i := range 300 {
					ev, err := s.Next(t.Context())
					if err != nil {
						t.Errorf("event %d: %v", i, err)
						break
					}
					var n int
					if _, err := fmt.Sscan(ev.Action, &n); err != nil {
						t.Error(err)
					}
					if first < 0 {
						first = n
					}
					if n != first+i {
						t.Errorf("event %d of a listener that began at %d is %d", i, first, n)
						break
					}
					if n == events-1 {
						break
					}
				}
				s.Close()
			}
		})
	}
	wg.Wait()
	if got := b.Listeners(); got != 0 {
		t.Errorf("Listeners = %d after all closed", got)
	}
}

func TestSlowListenerGetsAnError(t *testing.T) {
	b := event.NewBus()
	slow := b.Subscribe(t.Context(), event.Options{})
	quick := b.Subscribe(t.Context(), event.Options{})
	for i := range 4096 + 10 {
		publish(b, strconv.Itoa(i))
		if _, err := quick.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.Listeners(); got != 1 {
		t.Errorf("Listeners = %d, want the quick one only", got)
	}
	got, err := drain(t.Context(), slow)
	if len(got) != 4096 || got[4095] != "4095" {
		t.Errorf("slow listener got %d events, want the first 4096", len(got))
	}
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("then %v, want an Unavailable", err)
	}
}

// TestLateListenerKeepsUp stays a few events behind for a long time: that is not slow.
func TestLateListenerKeepsUp(t *testing.T) {
	b := event.NewBus()
	s := b.Subscribe(t.Context(), event.Options{})
	publish(b, "a", "b", "c")
	for range 20000 {
		publish(b, "x")
		if _, err := s.Next(t.Context()); err != nil {
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
		s := b.Subscribe(t.Context(), event.Options{Until: start.Add(10 * time.Second)})
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
		end  func(b *event.Bus, s *event.Subscription, cancelNext, cancelSub func())
		want error
	}{
		{"close of the subscription", func(_ *event.Bus, s *event.Subscription, _, _ func()) { s.Close(); s.Close() }, io.EOF},
		{"close of the bus", func(b *event.Bus, _ *event.Subscription, _, _ func()) { b.Close(); b.Close(); publish(b, "x") }, io.EOF},
		{"context of Subscribe", func(_ *event.Bus, _ *event.Subscription, _, sub func()) { sub() }, io.EOF},
		{"context of Next", func(_ *event.Bus, _ *event.Subscription, next, _ func()) { next() }, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := event.NewBus()
				nextCtx, cancelNext := context.WithCancel(t.Context())
				defer cancelNext()
				subCtx, cancelSub := context.WithCancel(t.Context())
				defer cancelSub()
				s := b.Subscribe(subCtx, event.Options{})
				defer s.Close()
				got := make(chan error, 1)
				go func() {
					_, err := s.Next(nextCtx)
					got <- err
				}()
				synctest.Wait()
				select {
				case err := <-got:
					t.Fatalf("Next did not wait: %v", err)
				default:
				}
				tc.end(b, s, cancelNext, cancelSub)
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
	s := b.Subscribe(t.Context(), event.Options{Past: true})
	got, err := drain(t.Context(), s)
	if fmt.Sprint(got) != "[old]" || !errors.Is(err, io.EOF) {
		t.Errorf("got %v, %v, want [old], EOF", got, err)
	}
}

func BenchmarkPublish(b *testing.B) {
	bus := event.NewBus()
	s := bus.Subscribe(b.Context(), event.Options{})
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		bus.Publish(event.Event{Action: "start"})
		if _, err := s.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
