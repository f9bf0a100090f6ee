package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const get = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

// TestTooMany fills the server: the idle go first, then the next are told, and those after them wait in the queue.
func TestTooMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	entered, release := make(chan struct{}), make(chan struct{})
	const most = 4
	s, err := New(t.Context(), Options{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/wait" {
				entered <- struct{}{}
				<-release
			}
			hello(w, r)
		}),
		Files: listening(t, "unix://"+path), MaxConnections: most, Refuse: refuse,
	})
	if err != nil {
		t.Fatal(err)
	}
	// However slow the machine is, those that are too many stay.
	s.local.limiter.surplus, s.local.http.ReadHeaderTimeout = time.Hour, 0
	serve(t, s)

	idle := dial(t, "unix", path)
	if status, _ := ask(t, idle, get); status != 200 {
		t.Fatalf("the first answer = %d", status)
	}
	becomesIdle(t, s)
	busy := make([]net.Conn, most)
	for i := range busy {
		busy[i] = dial(t, "unix", path)
		if _, err := io.WriteString(busy[i], "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-entered
	}
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection when there are many: %v, want its end", err)
	}
	refused := dial(t, "unix", path)
	if _, err := io.WriteString(refused, get); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(refused), nil)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !resp.Close {
		t.Fatalf("one too many: %v, %v, want 503 and the end", resp, err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "there are 4 connections") {
		t.Errorf("one too many: %q, %v", body, err)
	}
	resp.Body.Close() //nolint:errcheck // It was read.
	for range refusedConns {
		dial(t, "unix", path) // says nothing, and takes the last of the slots
	}
	for deadline := time.Now().Add(patience); len(s.local.limiter.slots) < cap(s.local.limiter.slots); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d slots are taken, want all %d", len(s.local.limiter.slots), cap(s.local.limiter.slots))
		}
	}
	queued := dial(t, "unix", path)
	if _, err := io.WriteString(queued, get); err != nil {
		t.Fatal(err)
	}
	close(release)
	for _, c := range busy {
		if status, err := statusOf(c); err != nil || status != 200 {
			t.Errorf("a busy one gets %d, %v, want its answer", status, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if status, err := statusOf(queued); err != nil {
		t.Errorf("one from the queue gets %d, %v, want an answer", status, err)
	}
}

// TestStalledRequestsMakeRoom fills the server with requests whose bodies do not come, and with one whose head does not:
// they keep others out for some seconds, not for ever, and only where there is no room.
func TestStalledRequestsMakeRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	const most = 3
	halves := make(chan struct{}, most)
	s, err := New(t.Context(), Options{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				if _, err := io.ReadFull(r.Body, make([]byte, len("half"))); err == nil {
					halves <- struct{}{} // from now on the body is waited for without a pause
				}
			}
			if _, err := io.ReadAll(r.Body); err == nil {
				hello(w, r)
			}
		}),
		Files: listening(t, "unix://"+path), MaxConnections: most, Refuse: refuse,
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.local.limiter.patience != stallPatience {
		t.Errorf("silent clients keep others out for %s, want %s", s.local.limiter.patience, stallPatience)
	}
	// However slow the machine is, the stalled ones have to go when the test says so, and not before.
	s.local.limiter.patience, s.local.http.ReadHeaderTimeout = time.Hour, 0
	serve(t, s)
	stalled := make([]net.Conn, most)
	for i := range stalled {
		stalled[i] = dial(t, "unix", path)
		head := "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"
		if i == most-1 {
			head = head[:20]
		}
		if _, err := io.WriteString(stalled[i], head); err != nil {
			t.Fatal(err)
		}
	}
	for range most - 1 {
		<-halves
	}
	waiting := func() (bodies []*tracked, heads int) {
		for _, c := range s.local.limiter.listConns() {
			if c.reading.Load() != 0 {
				bodies = append(bodies, c)
			} else if http.ConnState(c.state.Load()) == http.StateNew && !c.surplus {
				heads++
			}
		}
		return bodies, heads
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if bodies, heads := waiting(); len(bodies) == most-1 && heads == 1 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d bodies and %d heads are waited for, want %d and 1", len(bodies), heads, most-1)
		}
	}
	if status, _ := ask(t, dial(t, "unix", path), get); status != http.StatusServiceUnavailable {
		t.Errorf("one too many, at once: %d, want 503", status)
	}
	for n := range refusedConns { // their heads, and what they have not sent of their bodies, are not waited for
		c := dial(t, "unix", path)
		text := "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"
		if n%2 == 0 {
			text = text[:20]
		}
		_, _ = io.WriteString(c, text) // on a slow machine its time may be over already
	}
	if status, _ := ask(t, dial(t, "unix", path), get); status != http.StatusServiceUnavailable {
		t.Errorf("one behind others that are too many: %d, want 503", status)
	}
	bodies, _ := waiting()
	bodies[0].reading.Add(-2 * int64(time.Hour))
	owner := dial(t, "unix", path)
	if status, _ := ask(t, owner, get); status != 200 {
		t.Errorf("one too many while a body has not come for long: %d, want 200", status)
	}
	if bodies, heads := waiting(); len(bodies) != most-2 || heads != 1 {
		t.Errorf("%d bodies and %d heads are waited for, want one body less", len(bodies), heads)
	}
	for idle := false; !idle; time.Sleep(time.Millisecond) {
		for _, c := range s.local.limiter.listConns() {
			idle = idle || c.idleSince() != 0
		}
	}
	for _, c := range s.local.limiter.listConns() {
		c.since.Add(-2 * int64(time.Hour))
	}
	if status, _ := ask(t, dial(t, "unix", path), get); status != 200 { // the idle one goes first
		t.Error("no room beside an idle connection")
	}
	if bodies, heads := waiting(); len(bodies) != most-2 || heads != 1 {
		t.Errorf("%d bodies and %d heads are waited for, want the idle one to have gone", len(bodies), heads)
	}
}

// statusOf reads an answer and returns its status.
func statusOf(c net.Conn) (int, error) {
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// becomesIdle waits until a server has noticed that its only client has nothing to ask.
func becomesIdle(t *testing.T, s *Server) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		all := s.local.limiter.listConns()
		if len(all) == 1 && http.ConnState(all[0].state.Load()) == http.StateIdle {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections, none of them idle", len(all))
		}
	}
}

// TestSlowClients: over TCP a connection that asks nothing more ends by itself. On a unix socket it stays.
func TestSlowClients(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	files := listening(t, "tcp://127.0.0.1:0", "unix://"+path)
	s, err := New(t.Context(), Options{Handler: http.HandlerFunc(hello), Files: files, AllowInsecureTCP: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.remote.http.ReadHeaderTimeout != remotePatience || s.remote.http.IdleTimeout != remoteIdle ||
		s.local.http.ReadHeaderTimeout != headerPatience || s.local.http.IdleTimeout != 0 {
		t.Errorf("bounds of TCP %v, %v and unix %v, %v", s.remote.http.ReadHeaderTimeout, s.remote.http.IdleTimeout, s.local.http.ReadHeaderTimeout, s.local.http.IdleTimeout)
	}
	s.remote.http.IdleTimeout = 20 * time.Millisecond
	serve(t, s)
	address := strings.TrimPrefix(s.Addresses()[0], "tcp://")
	idle, kept := dial(t, "tcp", address), dial(t, "unix", path)
	for _, c := range []net.Conn{idle, kept} {
		if status, _ := ask(t, c, get); status != 200 {
			t.Fatalf("the first answer = %d", status)
		}
	}
	if _, err := io.ReadAll(idle); err != nil {
		t.Errorf("an idle connection: %v, want its end", err)
	}
	if status, _ := ask(t, kept, get); status != 200 {
		t.Errorf("the unix connection after that time = %d, want 200", status)
	}
}

// TestSlowHeads: over TCP a connection ends whose request's head does not come.
func TestSlowHeads(t *testing.T) {
	s, err := New(t.Context(), Options{Handler: http.HandlerFunc(hello), Files: listening(t, "tcp://127.0.0.1:0"), AllowInsecureTCP: true})
	if err != nil {
		t.Fatal(err)
	}
	s.remote.http.ReadHeaderTimeout = 20 * time.Millisecond
	serve(t, s)
	for _, begin := range []string{"", "GET / HTTP/1.1\r\nHo"} {
		c := dial(t, "tcp", strings.TrimPrefix(s.Addresses()[0], "tcp://"))
		_, _ = io.WriteString(c, begin) // on a slow machine its time may be over already
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %q the connection does not end", begin)
		}
	}
}

func TestHeadBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	start(t, hello, Options{Files: listening(t, "unix://"+path)})
	for size, want := range map[int]int{maxHeader / 2: 200, 2 * maxHeader: 431} {
		c := dial(t, "unix", path)
		go io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Registry-Config: "+strings.Repeat("a", size)+"\r\n\r\n") //nolint:errcheck // the answer may come before
		if status, err := statusOf(c); err != nil || status != want {
			t.Errorf("a head of %d bytes: %d, %v, want %d", size, status, err, want)
		}
	}
}

func TestHTTP10(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	start(t, hello, Options{Files: listening(t, "unix://"+path)})
	c := dial(t, "unix", path)
	if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 200") || !strings.HasSuffix(string(answer), "hello") {
		t.Errorf("answer = %q, %v, want HTTP/1.0, and the end of the connection as its end", answer, err)
	}
}

// TestDescriptors: a server leaves the sockets that it was given as they are, for the next.
func TestDescriptors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := start(t, hello, Options{Files: listening(t, "unix://"+path)})
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket after Shutdown: %v, want it in place", err)
	}
}
