package journal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"moss/engine/event"
	"moss/engine/event/journal"
	"moss/engine/fault"
)

// counted is a journal that knows how far it has come. Publishers that do nothing else outrun every disk.
type counted struct {
	*journal.Journal
	mu    sync.Mutex // guards the rest
	moved sync.Cond
	ahead int // events that were published and not kept
}

func (c *counted) Keep(events []*event.Published) {
	c.Journal.Keep(events)
	c.mu.Lock()
	c.ahead -= len(events)
	c.mu.Unlock()
	c.moved.Broadcast()
}

// wait returns when there is room for one more event in memory.
func (c *counted) wait() {
	c.mu.Lock()
	for c.ahead >= 200 {
		c.moved.Wait()
	}
	c.ahead++
	c.mu.Unlock()
}

// TestNoGapNoDuplicate has many publishers, and many listeners that begin anywhere in the past or now. Each must get an
// unbroken row from there on, through the files, the memory and what comes while it listens, and over the end of one
// engine and the start of the next.
func TestNoGapNoDuplicate(t *testing.T) {
	const engines, publishers, each, listeners = 3, 4, 400, 6
	dir := t.TempDir()
	for range engines {
		j := open(t, journal.Options{Dir: dir, SegmentBytes: 64 << 10, TotalBytes: 64 << 20})
		disk := &counted{Journal: j}
		disk.moved.L = &disk.mu
		b := event.NewBusWith(disk)
		begin := j.End()
		var ticks atomic.Int64 // the clock runs so fast that no more than 256 events stay in memory
		var publishing, listening sync.WaitGroup
		for p := range publishers {
			publishing.Go(func() {
				for i := range each {
					disk.wait()
					at := time.Unix(0, begin.Nanos).Add(time.Duration(ticks.Add(1)) * time.Second)
					b.Publish(event.Event{Type: event.TypeContainer, Action: "start", ID: fmt.Sprint(p, "-", i), Time: at})
				}
			})
		}
		for l := range listeners {
			random := rand.New(rand.NewPCG(uint64(l), begin.Seq)) //nolint:gosec // no secret
			listening.Go(func() {
				for random.IntN(4) > 0 {
					listen(t, b, j, random)
				}
			})
		}
		publishing.Wait()
		b.Close()
		listening.Wait()
		closeJournal(t, j)
		if n := b.Listeners(); n != 0 {
			t.Errorf("%d listeners are left", n)
		}
	}
	j := open(t, journal.Options{Dir: dir})
	defer closeJournal(t, j)
	if want := uint64(engines * publishers * each); j.End().Seq != want {
		t.Errorf("the last event has the number %d, want %d", j.End().Seq, want)
	}
}

// listen joins somewhere and reads on to the end.
func listen(t *testing.T, b *event.Bus, j *journal.Journal, random *rand.Rand) {
	var opts event.Options
	var first uint64 // 0: not known
	switch past := j.After(0); random.IntN(4) {
	case 0: // from now on
	case 1:
		opts.Past, first = true, 1
	default: // from one of the first few events of a random read
		into := make([]*event.Published, 1+random.IntN(5000))
		n, err := past.Next(into)
		if err != nil {
			t.Error(err)
			return
		}
		if n > 0 {
			opts.Since, first = into[n-1].Time, into[n-1].Seq
		}
	}
	s := b.Subscribe(opts)
	defer s.Close()
	into := make([]*event.Published, 1+random.IntN(200))
	var seq uint64
	var at time.Time
	for {
		if err := s.Wait(t.Context()); err != nil {
			t.Error(err)
			return
		}
		n, err := s.Take(t.Context(), into)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Errorf("after %d: %v", seq, err)
			return
		}
		for _, p := range into[:n] {
			if first != 0 && p.Seq != first || seq != 0 && p.Seq != seq+1 || !p.Time.After(at) {
				t.Errorf("got %d at %v after %d at %v, want the next one (the first was to be %d)", p.Seq, p.Time, seq, at, first)
				return
			}
			first, seq, at = 0, p.Seq, p.Time
		}
	}
}

// stuck is a journal whose disk does not answer until it is let go.
type stuck struct {
	*journal.Journal
	asked chan struct{} // has room for one
	letGo chan struct{}
}

func (s stuck) Keep(events []*event.Published) {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	<-s.letGo
	s.Journal.Keep(events)
}

// TestSlowDisk publishes more than memory holds while the disk hangs: who listens gets all of it, who has fallen behind is
// told, and the bus never waits.
func TestSlowDisk(t *testing.T) {
	j := open(t, journal.Options{Dir: t.TempDir()})
	defer closeJournal(t, j)
	disk := stuck{j, make(chan struct{}, 1), make(chan struct{})}
	b := event.NewBusWith(disk)
	quick, slow := b.Subscribe(event.Options{}), b.Subscribe(event.Options{})
	into := make([]*event.Published, 5000)
	b.Publish(event.Event{Action: "x"})
	<-disk.asked // the journal has the first one, whatever is lost to it later
	got := 0
	for range 40 {
		for range 1000 {
			b.Publish(event.Event{Action: "x"})
		}
		n, err := quick.Take(t.Context(), into)
		if err != nil {
			t.Fatal(err)
		}
		got += n
	}
	if got != 40001 {
		t.Errorf("the quick listener got %d events, want 40001", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	// What the journal was given before the disk hung may be readable; it then waits for the rest.
	for err := error(nil); err == nil; {
		_, err = slow.Take(ctx, into)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("while the disk hangs: %v, want to wait", err)
		}
	}
	close(disk.letGo)
	another := b.Subscribe(event.Options{Past: true})
	b.Close()
	n, err := another.Take(t.Context(), into)
	if n == 0 || err != nil || into[0].Seq != 1 {
		t.Errorf("the past begins with %d events, %v", n, err)
	}
	var last error
	for last == nil {
		_, last = another.Take(t.Context(), into)
	}
	if !errors.Is(last, io.EOF) && !fault.Is(last, fault.Unavailable) {
		t.Errorf("then %v", last)
	}
}
