package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/engine/logforward"
	"moss/engine/logsink"
	"moss/engine/stdio"
)

// TestReceiverAway: the writer is held up once the window is full, and all arrives in order when the receiver is back.
func TestReceiverAway(t *testing.T) {
	socket, rec := newSocket(t), newReceiver()
	rec.most = 3
	rec.setAway(true)
	serve(t, socket, rec)
	w := open(t, socket, "web")
	const lines = 1000 // four windows
	written := make(chan int)
	go func() {
		defer close(written)
		for i := range lines {
			write(t, w, stdio.Stdout, numbered(i))
			written <- i + 1
		}
	}()
	taken := 0
	limit := time.After(time.Minute)
	for held := false; !held; {
		select {
		case taken = <-written:
		case <-time.After(500 * time.Millisecond):
			held = taken*fillerSize >= logforward.Window/2 // otherwise the machine is busy
		case <-limit:
			held = true
		}
	}
	if size := taken * fillerSize; size > logforward.Window || size < logforward.Window/2 {
		t.Errorf("%d bytes were taken, the window has %d", size, logforward.Window)
	}
	rec.setAway(false)
	for range written { // until all is
	}
	equal(t, rec.await(lines), inOrder("web", lines)...)
	if largest := slices.Max(rec.sizes); largest > 3 {
		t.Errorf("a batch of %d records was taken", largest)
	}
}

// TestRelayCrashes: what has no mark comes again by the next relay, and nothing is lost.
func TestRelayCrashes(t *testing.T) {
	socket, rec := newSocket(t), newReceiver()
	rec.most = 7
	_, leave := serve(t, socket, rec)
	w := open(t, socket, "web")
	const lines = 2000
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range lines {
			write(t, w, stdio.Stdout, numbered(i))
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	for n := range 10 {
		rec.await(lines / 20 * (n + 1))
		leave()
		_, leave = serve(t, socket, rec)
	}
	<-written
	if n := w.DroppedLines(); n != 0 {
		t.Errorf("%d lines dropped", n)
	}
	rec.await(lines)
	seen, next, twice := map[string]bool{}, 0, 0
	for _, line := range awaitLast(rec, inOrder("web", lines)[lines-1]) {
		switch {
		case seen[line]:
			twice++
		case line != fmt.Sprintf("web stdout %d", next):
			t.Fatalf("got %s after line %d", line, next-1)
		default:
			seen[line] = true
			next++
		}
	}
	if next != lines {
		t.Errorf("got %d of %d lines", next, lines)
	}
	t.Logf("%d lines came twice", twice)
}

// awaitLast waits for a record and returns all that came.
func awaitLast(r *receiver, last string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !slices.Contains(r.got, last) {
		r.change.Wait()
	}
	return slices.Clone(r.got)
}

// TestEndWhileReceiverAway: the monitor goes, the records stay, and those of the next run come after them.
func TestEndWhileReceiverAway(t *testing.T) {
	socket, rec := newSocket(t), newReceiver()
	rec.setAway(true)
	r, _ := serve(t, socket, rec)
	for run := range 3 {
		w := open(t, socket, "web")
		write(t, w, stdio.Stdout, fmt.Sprintf("run %s\nlast", strings.Repeat(".", fillerSize)), fmt.Sprintf(" %d\n", run))
		if err := w.Close(); err != nil || w.DroppedLines() != 0 {
			t.Errorf("Close: got %v, %d lines dropped", err, w.DroppedLines())
		}
	}
	r.mu.Lock()
	if r.kept == 0 || r.busy != 3 {
		t.Errorf("%d bytes are kept for %d runs", r.kept, r.busy)
	}
	r.mu.Unlock()
	rec.setAway(false)
	equal(
		t, rec.await(6), "web stdout run", "web stdout last with 1 bytes", "web stdout run", "web stdout last with 1 bytes",
		"web stdout run", "web stdout last with 1 bytes",
	)
	awaitUnneeded(t, r)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept != 0 || len(r.tails) != 0 {
		t.Errorf("after the end %d bytes are kept, and %d containers known", r.kept, len(r.tails))
	}
}

// awaitUnneeded waits until no container needs the relay.
func awaitUnneeded(t *testing.T, r *Relay) {
	t.Helper()
	limit := time.Now().Add(time.Minute)
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.busy > 0 {
		if time.Now().After(limit) {
			t.Fatalf("%d runs need the relay yet", r.busy)
		}
		r.mu.Unlock()
		time.Sleep(time.Millisecond)
		r.mu.Lock()
	}
}

// TestNoRoomForEnded: a monitor whose records find no room goes when its time is over, and says what was lost.
func TestNoRoomForEnded(t *testing.T) {
	socket, rec := newSocket(t), newReceiver()
	rec.setAway(true)
	r, _ := serve(t, socket, rec)
	if !r.reserveBytes(mostKept - 100) {
		t.Fatal("there is no room at all")
	}
	w := open(t, socket, "web")
	write(t, w, stdio.Stdout, numbered(0), numbered(1))
	begun := time.Now()
	w.Expire(50 * time.Millisecond)
	if err := w.Close(); err != nil || time.Since(begun) < 50*time.Millisecond {
		t.Errorf("Close: got %v after %s", err, time.Since(begun))
	}
	awaitUnneeded(t, r) // it has found no room by then
	r.freeBytes(mostKept - 100)
	rec.setAway(false)
	next := open(t, socket, "next")
	write(t, next, stdio.Stdout, "here\n")
	equal(t, rec.await(1), "next stdout here")
}

// TestNoRelay: without moss-log lines wait, until their time is over.
func TestNoRelay(t *testing.T) {
	socket, rec := newSocket(t), newReceiver()
	rec.setAway(true)
	_, leave := serve(t, socket, rec)
	w := open(t, socket, "web")
	write(t, w, stdio.Stdout, "one\ntwo\nthr")
	leave()
	write(t, w, stdio.Stderr, "bad\n")
	w.Expire(50 * time.Millisecond)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if n := w.DroppedLines(); n != 4 {
		t.Errorf("%d lines dropped, want 4", n)
	}
	if _, err := logforward.Open(socket, target(t, "test", "web"), time.Second); err == nil {
		t.Error("Open without moss-log: got no error")
	}
}

// TestTries: a policy of the sender drops a batch after its tries, and the next ones begin anew.
func TestTries(t *testing.T) {
	socket, rec := newSocket(t), newReceiver()
	rec.batch.Records = 2
	rec.retry = logsink.RetryPolicy{First: time.Millisecond, Longest: 2 * time.Millisecond, Tries: 3}
	rec.setAway(true)
	serve(t, socket, rec)
	w := open(t, socket, "web")
	write(t, w, stdio.Stdout, "1\n2\n3\n4\n")
	rec.mu.Lock()
	for rec.failed < 6 {
		rec.change.Wait()
	}
	rec.away = false
	rec.mu.Unlock()
	write(t, w, stdio.Stdout, "5\n")
	equal(t, rec.await(1), "web stdout 5")
	if rec.failed != 6 {
		t.Errorf("%d calls failed, want 3 for each of 2 batches", rec.failed)
	}
}
