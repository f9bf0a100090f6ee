package relay

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"moss/engine/logforward"
	"moss/engine/logsink"
)

// endedFor is how long records of a container that has ended are offered to their receiver.
const endedFor = 10 * time.Minute

// markLimit bounds the sending of a mark.
const markLimit = 5 * time.Second

// mostHeld bounds the bytes of frames of one connection: a monitor sends no more than logforward.Window without a mark.
const mostHeld = logforward.Window + 2*logforward.MaxText

// stream is the connection of one run of a container: what it sends, and its way to the receiver.
type stream struct {
	relay  *Relay
	conn   net.Conn
	sender logsink.Sender
	name   string        // of container and driver, for people
	news   chan struct{} // of capacity 1: deliverRecords is to look

	mu      sync.Mutex // guards the fields below
	in      []byte     // frames that deliverRecords has not seen
	scanned int        // bytes of in that are whole frames
	size    int        // bytes of in and out
	done    uint64     // records that were dealt with
	ended   bool       // no more come
	taken   bool       // the monitor was told that all that came before the end is here
	kept    int        // bytes that count with those of containers that have ended
	failure error      // why the rest was dropped

	// deliverRecords alone uses what follows.
	out     []byte           // frames, from the first that was not dealt with
	records []logsink.Record // the present batch: the first frames of out
	silent  bool             // it was told that the receiver takes nothing
}

func newStream(r *Relay, conn net.Conn, sender logsink.Sender, t *logforward.Target) *stream {
	return &stream{
		relay: r, conn: conn, sender: sender, news: make(chan struct{}, 1),
		name: fmt.Sprintf("container %s: log driver %s", t.Container.Name, t.Driver),
	}
}

// readFrames takes what the monitor sends, until it ends or breaks the bounds.
func (s *stream) readFrames() {
	buf := make([]byte, 32<<10)
	for more := true; more; {
		n, err := s.conn.Read(buf)
		more = s.takeFrames(buf[:n], err)
		select {
		case s.news <- struct{}{}:
		default: // it will look
		}
	}
}

// takeFrames holds what was read. It reports whether more may come.
func (s *stream) takeFrames(p []byte, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size += len(p); s.size > mostHeld {
		s.failLocked(fmt.Errorf("%s: the monitor sends more than %d bytes at once", s.name, mostHeld))
		return false
	}
	s.in = append(s.in, p...)
	for {
		var r logsink.Record
		size, end, ferr := logforward.ParseFrame(s.in[s.scanned:], &r)
		switch {
		case ferr != nil:
			s.failLocked(fmt.Errorf("%s: %w", s.name, ferr))
			return false
		case end:
			s.in = s.in[:s.scanned]
			if s.endLocked() {
				s.taken = true
				s.sendMarkLocked()
			}
			return err == nil // the monitor goes once it knows
		case size == 0:
			if err == nil {
				return true
			}
			s.in = s.in[:s.scanned] // a part of a frame is none
			if !s.endLocked() {
				s.failLocked(fmt.Errorf("%s: output dropped, too much of ended containers waits for receivers", s.name))
			}
			return false
		}
		s.scanned += size
	}
}

// endLocked notes that no more records come. It reports whether there is room for those that are here.
func (s *stream) endLocked() bool {
	s.ended = true
	if s.kept == 0 && s.relay.reserveBytes(s.size) {
		s.kept = s.size
	}
	return s.kept == s.size || s.taken
}

// failLocked drops what is held.
func (s *stream) failLocked(err error) {
	s.ended, s.failure, s.in, s.scanned = true, err, nil, 0
}

// deliverRecords brings records to the receiver until all are there that came before the end. They come after those of the
// connection before.
func (s *stream) deliverRecords(ctx context.Context, prev <-chan struct{}) error {
	defer s.freeKept()
	select {
	case <-prev:
	case <-ctx.Done():
		return nil
	}
	wait := newWaits(s.sender)
	var over <-chan time.Time // after the end of the container
	for {
		all, ended, err := s.awaitBatch(ctx)
		if err != nil || len(s.records) == 0 {
			return err
		}
		n, err := s.sender.Send(ctx, s.records, all)
		if n == 0 && err == nil && !all { // what belongs together is too much for a batch
			n, err = s.sender.Send(ctx, s.records, true)
		}
		s.markDone(n)
		s.reportChange(ctx, err)
		if n > 0 {
			wait.resetDelay()
		}
		if err == nil {
			continue
		}
		if wait.isLastTry() && ctx.Err() == nil {
			s.dropBatch(n)
			wait.resetDelay()
			continue
		}
		if over == nil && ended {
			over = time.After(endedFor)
		}
		select {
		case <-time.After(wait.nextDelay()):
		case <-over:
			return fmt.Errorf("%s: output dropped, the receiver was away for %s after the container's end", s.name, endedFor)
		case <-ctx.Done():
			return nil
		}
	}
}

// awaitBatch waits for records and puts them into s.records; none once all were dealt with, or at the end of ctx. All reports
// that the sender is not to wait for more, ended that no more come than those that are here.
func (s *stream) awaitBatch(ctx context.Context) (all, ended bool, err error) {
	bounds := s.sender.Batch()
	var linger <-chan time.Time
	lingered := bounds.Linger == 0
	for {
		if ended, err = s.takeIn(); err != nil {
			return false, true, err
		}
		// A monitor that has no room in its window sends nothing more: there is nothing to wait for.
		full := s.readBatch(bounds) || len(s.out) >= logforward.Window/2
		switch {
		case len(s.records) == 0 && ended:
			return true, true, nil
		case len(s.records) > 0 && (full || ended || lingered):
			return !full, ended, nil
		case len(s.records) > 0 && linger == nil:
			linger = time.After(bounds.Linger)
		}
		select {
		case <-s.news:
		case <-linger:
			lingered = true
		case <-ctx.Done():
			s.records = nil
			return false, true, nil
		}
	}
}

// takeIn moves the whole frames of in to out. It reports whether they are the last.
func (s *stream) takeIn() (last bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = append(s.out, s.in[:s.scanned]...)
	s.in, s.scanned = s.in[:copy(s.in, s.in[s.scanned:])], 0
	return s.ended, s.failure
}

// readBatch reads the first frames of out into s.records. It reports whether the batch has room for no more.
func (s *stream) readBatch(bounds logsink.Batch) (full bool) {
	s.records = s.records[:0]
	bytes, rest := 0, s.out
	for {
		var r logsink.Record
		size, _, _ := logforward.ParseFrame(rest, &r) // takeFrames has looked
		switch {
		case size == 0:
			return false
		case bounds.Records > 0 && len(s.records) == bounds.Records,
			bounds.Bytes > 0 && bytes > 0 && bytes+len(r.Text) > bounds.Bytes:
			return true
		}
		s.records = append(s.records, r)
		bytes, rest = bytes+len(r.Text), rest[size:]
	}
}

// markDone drops the first records of the batch and tells the monitor.
func (s *stream) markDone(records int) {
	if records == 0 {
		return
	}
	bytes := 0
	for range records {
		var r logsink.Record
		size, _, _ := logforward.ParseFrame(s.out[bytes:], &r) // readBatch has looked
		bytes += size
	}
	s.out = s.out[:copy(s.out, s.out[bytes:])]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size -= bytes
	s.done += uint64(records) //nolint:gosec // not negative
	s.sendMarkLocked()
}

// dropBatch drops what is left of the batch after its first records.
func (s *stream) dropBatch(after int) {
	lines := 0
	for _, r := range s.records[after:] {
		if r.Ordinal == 0 || r.Last {
			lines++
		}
	}
	s.markDone(len(s.records) - after)
	s.relay.report(fmt.Sprintf("%s: %d lines of output dropped, the receiver took none in the tries that it has", s.name, lines))
}

// sendMarkLocked tells the monitor how far its records are. One that has gone needs none.
func (s *stream) sendMarkLocked() {
	var buf [logforward.MarkSize]byte
	_ = s.conn.SetWriteDeadline(time.Now().Add(markLimit))
	_, _ = s.conn.Write(logforward.Mark{Done: s.done, Taken: s.taken}.Append(buf[:0]))
}

// freeKept gives back the room of what was kept after the end.
func (s *stream) freeKept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relay.freeBytes(s.kept)
	s.kept = 0
}

// reportChange reports when the receiver takes no records, and when it does again.
func (s *stream) reportChange(ctx context.Context, err error) {
	switch {
	case err != nil && !s.silent && ctx.Err() == nil:
		s.silent = true
		s.relay.report(fmt.Sprintf("%s: %v; its output waits", s.name, err))
	case err == nil && s.silent:
		s.silent = false
		s.relay.report(s.name + ": the receiver takes output again")
	}
}
