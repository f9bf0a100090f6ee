package table

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"moss/engine/fault"
)

func TestFollowSeesWhatConcernsIt(t *testing.T) {
	a := newAuthority(t)
	one, two := newManager(t, a), newManager(t, a)
	n := follow(t, a.config(t, "3", "worker"), nil, one, two)
	g := newGrowing(3)
	var last *Table
	for range 300 {
		last = g.step()
		one.Publish(last)
		two.Publish(last)
	}
	last = busy(last.Version+1, "3", "4")
	one.Publish(last)
	two.Publish(last)
	n.until(t, last.View("3"))

	one.stop()
	last = busy(last.Version+1, "3", "5")
	two.Publish(last)
	n.until(t, last.View("3"))
}

// dial says hello and returns the connection.
func dial(t *testing.T, m *manager, cfg *tls.Config, h Hello) *tls.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", m.addr, cfg)
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	check(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	check(t, writeMessage(conn, maxHello, h))
	return conn
}

func TestAnyManagerGoesOn(t *testing.T) {
	a := newAuthority(t)
	m := newManager(t, a)
	old := busy(5, "a", "b").View("a")
	next := busy(9, "a", "c")
	m.Publish(busy(4, "x")) // a manager that is behind
	conn := dial(t, m, a.config(t, "a", "worker"), Hello{Version: old.Version, Sums: Sum(old)})
	m.Publish(next)
	var d Delta
	check(t, readMessage(conn, maxDelta, &d))
	if d.Version != 9 || len(d.Tasks.Put) != 1 || len(d.Nodes.Put) != 1 || fmt.Sprint(d.Tasks.Gone, d.Nodes.Gone) != "[tb] [b]" ||
		!d.Networks.IsZero() {
		t.Errorf("resumed by %+v", d)
	}
	m.Publish(busy(8, "y")) // an older one than was published
	m.Publish(busy(10, "a"))
	check(t, writeMessage(conn, maxSmall, Applied{Version: 9}))
	for d.IsZero() || d.Version == 9 {
		d = Delta{}
		check(t, readMessage(conn, maxDelta, &d))
	}
	if d.Version != 10 || fmt.Sprint(d.Tasks.Gone) != "[tc]" {
		t.Errorf("then %+v", d)
	}
}

// TestSettledWaitsForAll looks that a version is settled when every node has applied it.
func TestSettledWaitsForAll(t *testing.T) {
	a := newAuthority(t)
	m := newManager(t, a)
	m.Publish(busy(1))
	quick := follow(t, a.config(t, "quick", "worker"), nil, m)
	slow := follow(t, a.config(t, "slow", "worker"), nil, m)
	aside := follow(t, a.config(t, "aside", "worker"), nil, m)
	await := func(want uint64) {
		t.Helper()
		for v := range quick.settled {
			if v > want {
				t.Fatalf("version %d is settled, want %d", v, want)
			}
			if v == want {
				return
			}
		}
	}
	for _, n := range []*node{quick, slow, aside} {
		<-n.tables
	}
	m.Publish(busy(2, "quick", "slow", "aside"))
	for _, n := range []*node{quick, slow, aside} {
		<-n.tables
	}
	await(2)
	without := busy(3, "quick", "slow", "third") // aside
	m.Publish(without)
	<-aside.tables
	<-quick.tables
	m.Publish(withVersion(without, 4)) // concerns nobody
	if got := m.Settled(); got != 2 {
		t.Errorf("version %d is settled while slow has 2", got)
	}
	<-slow.tables
	m.Publish(busy(5, "quick", "slow")) // concerns quick and slow, not aside
	<-quick.tables
	if got := m.Settled(); got > 4 {
		t.Errorf("version %d is settled while slow has 4", got)
	}
	<-slow.tables
	await(5)
	m.Publish(busy(6, "quick", "slow", "aside"))
	<-quick.tables
	<-aside.tables
	slow.stop() // nobody waits for a node that is away
	await(6)
}

// TestNothingIsSettledWithoutAllReadyNodes has a ready node that follows another manager, and one that is down.
func TestNothingIsSettledWithoutAllReadyNodes(t *testing.T) {
	s := NewServer(ServerOptions{})
	here := &progress{sent: 2, covered: 2, acked: 2}
	s.streams["here"] = here
	nodes := map[string]Node{"here": {Ready: true}, "there": {Ready: true}}
	s.Publish(&Table{Version: 2, Nodes: nodes})
	if got := s.Settled(); got != 0 {
		t.Errorf("version %d is settled while a ready node follows another manager", got)
	}
	s.Publish(&Table{Version: 2, Nodes: map[string]Node{"here": {Ready: true}, "there": {}}})
	if got := s.Settled(); got != 2 {
		t.Errorf("version %d is settled, want 2: nobody waits for a node that is down", got)
	}
}

// TestManagerBehindSaysNothing looks at what a node is told that has a later version than the manager.
func TestManagerBehindSaysNothing(t *testing.T) {
	s := NewServer(ServerOptions{})
	w := &writer{server: s, node: "a", progress: &progress{}, hello: Hello{Version: 5}}
	for _, published := range []*Table{nil, busy(4, "a")} {
		if published != nil {
			s.Publish(published)
		}
		if d, _ := w.nextDelta(true); d != nil {
			t.Errorf("with %+v it says %+v", published, d)
		}
	}
	s.Publish(busy(5, "a"))
	if d, _ := w.nextDelta(false); d == nil || d.Version != 5 {
		t.Errorf("it says %+v", d)
	}
}

// TestOthersHearOfNodesThatAreNotConcerned has one node wait for another one that has nothing to apply.
func TestOthersHearOfNodesThatAreNotConcerned(t *testing.T) {
	s := NewServer(ServerOptions{})
	concerned, aside := &progress{}, &progress{}
	s.streams["a"], s.streams["b"] = concerned, aside
	a := &writer{server: s, node: "a", progress: concerned}
	b := &writer{server: s, node: "b", progress: aside}
	s.Publish(busy(1, "a"))
	a.nextDelta(false)
	b.nextDelta(false)
	concerned.acked, aside.acked = 1, 1
	a.nextDelta(false)
	b.nextDelta(false)
	s.Publish(busy(2, "a", "c"))
	a.nextDelta(false)
	concerned.acked = 2
	d, changed := a.nextDelta(false)
	if d != nil {
		t.Errorf("before the other has looked: %+v", d)
	}
	if d, _ := b.nextDelta(false); d != nil {
		t.Errorf("who is not concerned hears %+v", d)
	}
	select {
	case <-changed:
	default:
		t.Error("nothing wakes the node that waits")
	}
	if d, _ := a.nextDelta(false); d == nil || d.Settled != 2 {
		t.Errorf("then it hears %+v, want that version 2 is settled", d)
	}
}

func withVersion(t *Table, version uint64) *Table {
	next := *t
	next.Version = version
	return &next
}

func TestStrangersAreRefused(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	m := newManager(t, a)
	m.Publish(busy(1, "a"))
	bare := a.config(t, "a", "worker")
	bare.Certificates = nil
	foreign := other.config(t, "a", "worker")
	foreign.RootCAs = a.pool
	for name, cfg := range map[string]*tls.Config{
		"no certificate": bare, "another swarm's": foreign, "no role": a.config(t, "a", "stranger"),
	} {
		conn, err := tls.Dial("tcp", m.addr, cfg)
		if err == nil {
			check(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			_ = writeMessage(conn, maxHello, Hello{})
			err = readMessage(conn, maxDelta, &Delta{})
			_ = conn.Close()
		}
		if err == nil {
			t.Errorf("%s: got the table", name)
		}
		if err := <-m.reports; err == nil {
			t.Errorf("%s: nothing reported", name)
		}
	}
}

// TestManagersAreChecked looks that a node takes nothing from who is not a manager, or is one of another swarm.
func TestManagersAreChecked(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	for name, by := range map[string]struct {
		who  *authority
		role string
	}{"a worker": {a, "worker"}, "another swarm": {other, "manager"}} {
		cfg := by.who.config(t, "m", by.role)
		cfg.ClientCAs = a.pool
		m := newManagerAs(t, cfg)
		m.Publish(busy(1, "a"))
		client := a.config(t, "a", "worker")
		client.ServerName = by.role
		n := follow(t, client, nil, m)
		select {
		case <-n.tables:
			t.Errorf("%s: its table is taken", name)
		case err := <-n.reports:
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
}

// TestOlderTableIsRefused has a manager that forgets what the node has.
func TestOlderTableIsRefused(t *testing.T) {
	a := newAuthority(t)
	cfg := a.config(t, "m", "manager")
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	check(t, err)
	defer func() { _ = l.Close() }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = readMessage(conn, maxHello, &Hello{})
			_ = writeMessage(conn, maxDelta, Delta{Version: 4})
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
	}()
	n := follow(t, a.config(t, "a", "worker"), busy(5, "a"), &manager{addr: l.Addr().String()})
	select {
	case <-n.tables:
		t.Error("an older table is taken")
	case err := <-n.reports:
		if !fault.Is(err, fault.Invalid) {
			t.Error(err)
		}
	}
}

// TestNewStreamEndsOld looks that a node that comes again is not counted twice.
func TestNewStreamEndsOld(t *testing.T) {
	a := newAuthority(t)
	m := newManager(t, a)
	m.Publish(busy(1, "a"))
	cfg := a.config(t, "a", "worker")
	old := dial(t, m, cfg, Hello{})
	check(t, readMessage(old, maxDelta, &Delta{}))
	check(t, readMessage(dial(t, m, cfg, Hello{}), maxDelta, &Delta{}))
	if err := readMessage(old, maxDelta, &Delta{}); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the old connection goes on: %v", err)
	}
}

// TestSilentStrangers has more connections that say nothing than a manager keeps: nodes are served all the same.
func TestSilentStrangers(t *testing.T) {
	a := newAuthority(t)
	m := newManager(t, a)
	m.Publish(busy(1, "a"))
	const beyond = 20
	silent := make([]net.Conn, 0, mostStrangers+beyond)
	for range mostStrangers + beyond {
		conn, err := net.Dial("tcp", m.addr)
		check(t, err)
		silent = append(silent, conn)
	}
	last := silent[beyond-1] // the manager accepts in order: once it has closed this one it has seen all
	check(t, last.SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := last.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest silent connections: %v, want their end", err)
	}
	if err := <-m.reports; !errors.Is(err, net.ErrClosed) { // not by its own time, which ends every stranger
		t.Errorf("the first that ended: %v, want one that the manager closed", err)
	}
	follow(t, a.config(t, "a", "worker"), nil, m).until(t, busy(1, "a"))
	m.stop()
	for _, conn := range silent {
		_ = conn.Close()
	}
}
