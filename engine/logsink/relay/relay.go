// Package relay is the inside of moss-log: it takes records from the monitors of containers and brings them to receivers, by the
// drivers that it is given. It knows nothing of drivers but their names.
package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"moss/engine/fault"
	"moss/engine/logforward"
	"moss/engine/logsink"
	"moss/engine/shim/proto"
)

// idleAfter is how long moss-log stays when no container needs it.
const idleAfter = time.Minute

// openLimit bounds the opening of a sender, of which the start of a container waits.
const openLimit = 15 * time.Second

// helloLimit bounds the wait for the first message of a connection.
const helloLimit = 10 * time.Second

// Relay serves the connections of monitors and engines.
type Relay struct {
	drivers map[string]logsink.OpenFunc
	report  func(text string) // for the engine's log
	life    context.Context   //nolint:containedctx // the relay's own
	leave   func()            // ends life
	expiry  *time.Timer       // of the idle time

	mu      sync.Mutex               // guards the fields below
	tails   map[string]chan struct{} // by container: closed once its latest connection's records are dealt with
	engines map[net.Conn]struct{}    // whose end they wait for
	busy    int                      // connections of monitors, and records of ended ones
	kept    int                      // bytes of records of containers that have ended
	leaving bool                     // nothing is taken any more
	idle    time.Duration
}

// New returns a relay of these drivers. Report gets a line whenever a receiver is lost and found again, and for what is dropped.
func New(drivers map[string]logsink.OpenFunc, report func(text string)) *Relay {
	r := &Relay{
		drivers: drivers, report: report, idle: idleAfter,
		tails: map[string]chan struct{}{}, engines: map[net.Conn]struct{}{},
	}
	r.life, r.leave = context.WithCancel(context.Background())
	r.expiry = time.AfterFunc(r.idle, r.leaveIfIdle)
	return r
}

// Serve takes connections, and closes l, until no container has needed it for a minute or the time of LeaveWithin is over. What
// is not delivered by then is lost.
func (r *Relay) Serve(l net.Listener) error {
	context.AfterFunc(r.life, func() { _ = l.Close() })
	defer func() { _ = l.Close() }()
	for {
		conn, err := l.Accept()
		switch {
		case r.life.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			r.sayBye()
			return nil
		case err != nil:
			return fmt.Errorf("take connections: %w", err)
		}
		go r.serveConn(conn)
	}
}

// LeaveWithin ends the relay once no container needs it, or after a time.
func (r *Relay) LeaveWithin(limit time.Duration) {
	time.AfterFunc(limit, r.leave)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = 0
	r.expiry.Reset(0)
}

// leaveIfIdle ends the relay unless a container needs it.
func (r *Relay) leaveIfIdle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaving = r.busy == 0; r.leaving {
		r.leave()
	}
}

// sayBye tells the engines that this end is none to mend.
func (r *Relay) sayBye() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.engines {
		_, _ = conn.Write([]byte{logforward.Bye}) // an engine that has gone needs none
		_ = conn.Close()
	}
}

var errLeaving = fault.Unavailable("moss-log is about to end")

// admitMonitor counts a connection of a monitor, and releaseMonitor uncounts it: the idle time begins anew with the last.
func (r *Relay) admitMonitor() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaving {
		return errLeaving
	}
	r.busy++
	return nil
}

func (r *Relay) releaseMonitor() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy--; r.busy == 0 {
		r.expiry.Reset(r.idle)
	}
}

// serveConn serves one connection to its end.
func (r *Relay) serveConn(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var hello logforward.Hello
	_ = conn.SetDeadline(time.Now().Add(helloLimit))
	if err := proto.Read(conn, &hello); err != nil {
		return // somebody came and went
	}
	_ = conn.SetDeadline(time.Time{})
	if hello.Target == nil {
		r.holdEngine(conn)
		return
	}
	if err := r.serveMonitor(conn, hello); err != nil {
		_ = proto.Write(conn, proto.Fail(err)) // a monitor that has gone needs no answer
	}
}

// serveMonitor relays the records of a monitor. The error is for the monitor.
func (r *Relay) serveMonitor(conn net.Conn, hello logforward.Hello) error {
	if err := r.admitMonitor(); err != nil {
		return err
	}
	defer r.releaseMonitor()
	var target logforward.Target
	if err := json.Unmarshal(hello.Target, &target); err != nil {
		return fault.Invalid("log target: %w", err)
	}
	sender, err := r.openSender(&target, hello.Resume)
	if err != nil {
		return err
	}
	defer func() { _ = sender.Close() }() // it has nothing more to say
	prev, done := r.swapTail(target.Container.ID)
	defer r.dropTail(target.Container.ID, done)
	if err := proto.Write(conn, proto.Reply{}); err != nil {
		return err
	}
	stop := context.AfterFunc(r.life, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	s := newStream(r, conn, sender, &target)
	go s.readFrames()
	if err := s.deliverRecords(r.life, prev); err != nil {
		r.report(err.Error())
	}
	return nil
}

// openSender opens the sender of a container that starts.
func (r *Relay) openSender(t *logforward.Target, resume bool) (logsink.Sender, error) {
	open, ok := r.drivers[t.Driver]
	if !ok {
		return nil, fault.Unsupported("log driver %s: moss-log has no such driver", t.Driver)
	}
	ctx, cancel := context.WithTimeout(r.life, openLimit)
	defer cancel()
	s, err := open(ctx, logsink.Setup{Container: t.Container, Options: t.Options, Resume: resume})
	if err != nil {
		return nil, fmt.Errorf("log driver %s: %w", t.Driver, err)
	}
	return s, nil
}

// holdEngine tells an engine that moss-log is there and keeps its connection. The idle time begins anew: a container may follow.
func (r *Relay) holdEngine(conn net.Conn) {
	r.mu.Lock()
	if r.leaving {
		r.mu.Unlock()
		return
	}
	r.expiry.Reset(r.idle)
	r.engines[conn] = struct{}{}
	r.mu.Unlock()
	var none [1]byte
	if proto.Write(conn, proto.Reply{}) == nil {
		_, _ = conn.Read(none[:]) // its end
	}
	r.mu.Lock()
	delete(r.engines, conn)
	r.mu.Unlock()
}

// swapTail makes a connection the latest of its container. Its records wait for those of the one before: prev is closed then.
func (r *Relay) swapTail(containerID string) (prev <-chan struct{}, done chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, ok := r.tails[containerID]
	if !ok {
		before = make(chan struct{})
		close(before)
	}
	done = make(chan struct{})
	r.tails[containerID] = done
	return before, done
}

func (r *Relay) dropTail(containerID string, done chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(done)
	if r.tails[containerID] == done {
		delete(r.tails, containerID)
	}
}

// mostKept bounds the bytes of records that are kept for containers that have ended, all together.
const mostKept = 16 << 20

// reserveBytes takes bytes of a container that has ended into account; false if there is no room for them.
func (r *Relay) reserveBytes(bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept+bytes > mostKept {
		return false
	}
	r.kept += bytes
	return true
}

func (r *Relay) freeBytes(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept -= bytes
}
