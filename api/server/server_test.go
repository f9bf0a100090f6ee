package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"moss/api/compat"
	"moss/api/conn"
	"moss/api/socket"
	"moss/engine/fault"
)

const patience = time.Minute

// start serves handle on hosts until the test ends.
func start(t *testing.T, handle http.HandlerFunc, opt Options) *Server {
	t.Helper()
	opt.Handler, opt.Log, opt.AllowInsecureTCP = handle, zerolog.Nop(), true
	s, err := New(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	return s
}

// serve has a server answer until the test ends.
func serve(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve = %v, want nil", err)
			}
		case <-time.After(patience):
			t.Error("Serve does not return")
		}
	})
}

// listening opens the sockets of hosts, until the test ends.
func listening(t *testing.T, hosts ...string) []*os.File {
	t.Helper()
	set, err := socket.Open(t.Context(), socket.Options{Hosts: hosts, AllowInsecureTCP: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close() }) // the server has closed some of it
	return set.Files()
}

func dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() }) //nolint:errcheck // It may be closed already.
	return c
}

// ask sends a raw request and returns the answer's status and body.
func ask(t *testing.T, c net.Conn, request string) (int, string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // It was read.
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// TestFiles looks that a socket outlives the server that answers on it: clients of the next one wait in its queue.
func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	files := listening(t, "unix://"+path)
	again := []*os.File{duplicate(t, files[0])}
	s := start(t, hello, Options{Files: files})
	if got := s.Addresses(); len(got) != 1 || got[0] != "unix://"+path {
		t.Errorf("Addresses = %v", got)
	}
	if status, _ := ask(t, dial(t, "unix", path), "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 {
		t.Errorf("over a socket handed over = %d, want 200", status)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	waiting := dial(t, "unix", path)
	start(t, hello, Options{Files: again})
	if status, body := ask(t, waiting, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 || body != "hello" {
		t.Errorf("a client between two servers gets %d %q", status, body)
	}
	if _, err := New(t.Context(), Options{Files: []*os.File{duplicate(t, os.Stdin)}}); err == nil {
		t.Error("New took over a file that is no socket")
	}
	if _, err := New(t.Context(), Options{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("New without sockets = %v, want an invalid fault", err)
	}
}

func duplicate(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), f.Name())
}

// TestOpenAddress: a socket that others reach is refused without client certificates, whoever opened it.
func TestOpenAddress(t *testing.T) {
	for _, tc := range []struct {
		ip       net.IP
		insecure bool
		want     string // empty: it is served
	}{
		{net.IPv4zero, true, "tlsverify"},
		{net.IPv4(127, 0, 0, 1), false, "insecure-tcp"},
		{net.IPv4(127, 0, 0, 1), true, ""},
	} {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: tc.ip})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:errcheck // It is the test's.
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(t.Context(), Options{Files: []*os.File{f}, AllowInsecureTCP: tc.insecure})
		switch {
		case tc.want != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("New on %s = %v, %v, want an invalid fault that names the way out", tc.ip, s, err)
		case tc.want == "" && err != nil:
			t.Errorf("New on %s = %v, want it served", tc.ip, err)
		case tc.want == "":
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

func refuse(w http.ResponseWriter, _ *http.Request, err error) {
	status := http.StatusForbidden
	if fault.Is(err, fault.Unavailable) {
		status = http.StatusServiceUnavailable
	}
	http.Error(w, "refused: "+err.Error(), status)
}

func TestTCPGuard(t *testing.T) {
	s := start(t, hello, Options{Files: listening(t, "tcp://127.0.0.1:0", "unix://"+t.TempDir()+"/s"), Origin: "http://ui.example", Refuse: refuse})
	address := strings.TrimPrefix(s.Addresses()[0], "tcp://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	unixPath := strings.TrimPrefix(s.Addresses()[1], "unix://")
	for _, tc := range []struct {
		name, method, host, headers string
		unix                        bool
		want                        int
	}{
		{name: "own address", host: address, want: 200},
		{name: "localhost", host: "localhost:" + port, want: 200},
		{name: "IPv6 loopback", host: "[::1]:" + port, want: 200},
		{name: "no port", host: "127.0.0.1", want: 200},
		{name: "rebound name", host: "evil.example:" + port, want: 403},
		{name: "other address", host: "192.0.2.1:" + port, want: 403},
		{name: "empty", host: "", want: 200},
		{name: "page of another origin", host: address, headers: "Origin: http://evil.example\r\n", want: 403},
		{name: "page without an origin", host: address, headers: "Origin: null\r\n", want: 403},
		{name: "own page", host: address, headers: "Origin: http://" + address + "\r\n", want: 200},
		{name: "allowed page", host: address, headers: "Origin: http://ui.example\r\n", want: 200},
		{name: "any host on the unix socket", host: "docker", unix: true, want: 200},
		{name: "origin on the unix socket", host: "x", headers: "Origin: http://evil.example\r\n", unix: true, want: 200},
		{name: "takeover by a page on the unix socket", host: "x", headers: "Origin: http://evil.example\r\nUpgrade: tcp\r\n", unix: true, want: 403},
	} {
		network, at := "tcp", address
		if tc.unix {
			network, at = "unix", unixPath
		}
		status, body := ask(t, dial(t, network, at), "POST /containers/create HTTP/1.1\r\nHost: "+tc.host+"\r\n"+tc.headers+"Content-Length: 0\r\n\r\n")
		if status != tc.want || status == 403 && !strings.HasPrefix(body, "refused: ") {
			t.Errorf("%s: %d %q, want %d", tc.name, status, body, tc.want)
		}
	}
}

// TestShutdown has one client in each kind of answer: Shutdown ends the stream and the connection that was taken over,
// and waits for the answer that is being made.
func TestShutdown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	entered := make(chan string, 3)
	release := make(chan struct{})
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/stream":
			_ = http.NewResponseController(w).Flush()
			entered <- r.URL.Path
			<-r.Context().Done()
		case "/attach":
			stream, err := conn.Hijack(w, r, compat.RawStream)
			if err != nil {
				t.Error(err)
				return
			}
			entered <- r.URL.Path
			_, _ = io.Copy(io.Discard, stream)
			stream.Close() //nolint:errcheck // The server may have closed it.
		default:
			entered <- r.URL.Path
			<-release
			hello(w, r)
		}
	}, Options{Files: listening(t, "unix://"+path)})

	clients := map[string]net.Conn{}
	for _, where := range []string{"/stream", "/attach", "/work"} {
		clients[where] = dial(t, "unix", path)
		if _, err := io.WriteString(clients[where], "GET "+where+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-entered
	}
	finished := make(chan error, 1)
	go func() { finished <- s.Shutdown(t.Context()) }()
	for _, where := range []string{"/stream", "/attach"} {
		if _, err := io.ReadAll(clients[where]); err != nil {
			t.Errorf("%s: %v, want a clean end", where, err)
		}
	}
	select { // one that waits for nothing more returns when the streams have ended, which they have
	case err := <-finished:
		t.Fatalf("Shutdown = %v before the last answer was made", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	resp, err := http.ReadResponse(bufio.NewReader(clients["/work"]), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the answer under way = %v, %v, want 200", resp, err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "hello" {
		t.Errorf("the answer under way = %q, %v, want it whole", body, err)
	}
	resp.Body.Close() //nolint:errcheck // It was read.
	if err := <-finished; err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	if left := s.local.limiter.listConns(); len(left) != 0 {
		t.Errorf("%d connections are still kept", len(left))
	}
}

func TestShutdownLosesPatience(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	entered, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	s := start(t, func(http.ResponseWriter, *http.Request) { close(entered); <-release }, Options{Files: listening(t, "unix://"+path)})
	if _, err := io.WriteString(dial(t, "unix", path), "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown = %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestClientGoneEndsRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	entered, ended := make(chan struct{}), make(chan struct{})
	start(t, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(ended)
	}, Options{Files: listening(t, "unix://"+path)})
	c := dial(t, "unix", path)
	if _, err := io.WriteString(c, "POST /containers/x/wait HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the request goes on without its client")
	}
}
