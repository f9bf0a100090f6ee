package relay

import (
	"io"
	"net"
	"testing"
	"time"

	"moss/engine/logforward"
	"moss/engine/logsink"
	"moss/engine/shim/proto"
	"moss/engine/stdio"
)

// serveEngine runs a relay. It returns the error of Serve, and the connection of an engine.
func serveEngine(t *testing.T, socket string, rec *receiver) (r *Relay, served chan error, engine net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	r = New(map[string]logsink.OpenFunc{"test": rec.open}, func(text string) { t.Log(text) })
	served = make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	if engine, err = net.Dial("unix", socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	if err := proto.Write(engine, logforward.Hello{}); err != nil {
		t.Fatal(err)
	}
	var reply proto.Reply
	if err := proto.Read(engine, &reply); err != nil {
		t.Fatal(err)
	}
	return r, served, engine
}

// isGone waits for the end of a relay, which tells the engine that it is no crash.
func isGone(t *testing.T, served chan error, engine net.Conn) {
	t.Helper()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if last, err := io.ReadAll(engine); err != nil || string(last) != string(logforward.Bye) {
		t.Errorf("the engine got %q, %v, want a bye", last, err)
	}
}

// stays fails if a relay ends within a time.
func stays(t *testing.T, served chan error, within time.Duration) {
	t.Helper()
	select {
	case err := <-served:
		t.Fatalf("it ended with a container: %v", err)
	case <-time.After(within):
	}
}

// TestLeaveWithin: a relay that is to leave does so with its last container.
func TestLeaveWithin(t *testing.T) {
	socket, rec := newSocket(t), newReceiver()
	r, served, engine := serveEngine(t, socket, rec)
	w := open(t, socket, "web")
	r.LeaveWithin(time.Hour)
	stays(t, served, 100*time.Millisecond)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	isGone(t, served, engine)
}

// TestIdle: the relay ends by itself once no container has needed it for its time, and not while one does, or records of an
// ended one wait for their receiver.
func TestIdle(t *testing.T) {
	const idle = 300 * time.Millisecond
	socket, rec := newSocket(t), newReceiver()
	r, served, engine := serveEngine(t, socket, rec)
	w := open(t, socket, "web")
	r.mu.Lock()
	r.idle = idle
	r.expiry.Reset(idle)
	r.mu.Unlock()
	stays(t, served, 2*idle)
	rec.setAway(true)
	write(t, w, stdio.Stdout, "last\n")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	stays(t, served, 2*idle)
	begun := time.Now()
	rec.setAway(false)
	isGone(t, served, engine)
	if took := time.Since(begun); took < idle {
		t.Errorf("it ended within %s of the last record, want %s", took, idle)
	}
	equal(t, rec.await(1), "web stdout last")
}
