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

	"moss/api/conn"
	"moss/engine/fault"
)

const patience = 20 * time.Second

// start serves handle on hosts until the test ends.
func start(t *testing.T, handle http.HandlerFunc, opt Options) *Server {
	t.Helper()
	opt.Handler, opt.Log = handle, zerolog.Nop()
	s, err := New(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
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
	return s
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

func TestUnix(t *testing.T) {
	old := syscall.Umask(0) // the socket's mode must not depend on it
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "moss", "moss.sock")
	s := start(t, hello, Options{Hosts: []string{"unix://" + path}})
	if got := s.Addresses(); len(got) != 1 || got[0] != "unix://"+path {
		t.Errorf("Addresses = %v", got)
	}
	if status, body := ask(t, dial(t, "unix", path), "GET / HTTP/1.1\r\nHost: docker\r\n\r\n"); status != 200 || body != "hello" {
		t.Errorf("answer = %d %q", status, body)
	}
	for name, want := range map[string]os.FileMode{path: os.ModeSocket | 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("mode of %s = %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	if _, err := New(t.Context(), Options{Hosts: []string{"unix://" + path}}); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second server = %v, want a conflict", err)
	}
	if status, _ := ask(t, dial(t, "unix", path), "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 {
		t.Errorf("the first server after the second's try = %d, want 200", status)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket after Shutdown: %v, want it gone", err)
	}
}

func TestStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, hello, Options{Hosts: []string{"unix://" + path}})
	if status, _ := ask(t, dial(t, "unix", path), "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 {
		t.Errorf("after a killed engine = %d, want 200", status)
	}
}

func TestRefusedHosts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil { //nolint:gosec // The test is about such a folder.
		t.Fatal(err)
	}
	for _, tc := range []struct {
		host, want string
		allow      bool
	}{
		{host: "", want: "want unix:///path"},
		{host: "/run/s", want: "want unix:///path"},
		{host: "http://127.0.0.1:1", want: "unknown scheme"},
		{host: "unix://relative", want: "must be absolute"},
		{host: "unix://@abstract", want: "must be absolute"},
		{host: "unix:///a\x00b", want: "zero byte"},
		{host: "unix:///" + strings.Repeat("x", 107), want: "108 bytes, the kernel allows 107"},
		{host: "unix://" + file, want: "not a socket"},
		{host: "unix://" + open + "/s", want: "others can write"},
		{host: "tcp://127.0.0.1:0", want: "must be allowed explicitly"},
		{host: "tcp://0.0.0.0:0", want: "not on the loopback", allow: true},
		{host: "tcp://localhost:0", want: "is no IP address", allow: true},
		{host: "tcp://:2375", want: "is no IP address", allow: true},
		{host: "tcp://127.0.0.1", want: "want tcp://127.0.0.1:port", allow: true},
		{host: "fd://", want: "no listening socket"},
	} {
		s, err := New(t.Context(), Options{Hosts: []string{"unix://" + dir + "/first", tc.host}, AllowInsecureTCP: tc.allow})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%q) = %v, %v, want an invalid fault with %q", tc.host, s, err, tc.want)
		}
		if _, err := os.Lstat(dir + "/first"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("New(%q) left its first listener behind: %v", tc.host, err)
		}
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "precious" {
		t.Errorf("the file in the way = %q, %v, want it untouched", raw, err)
	}
	if _, err := New(t.Context(), Options{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("New without hosts = %v, want an invalid fault", err)
	}
}

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := start(t, hello, Options{Hosts: []string{"fd://"}, Files: []*os.File{f}})
	if status, _ := ask(t, dial(t, "unix", path), "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 {
		t.Errorf("over a socket handed over = %d, want 200", status)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket that others made is gone: %v", err)
	}
	if _, err := New(t.Context(), Options{Hosts: []string{"fd://"}, Files: []*os.File{os.Stdin}}); err == nil {
		t.Error("New took over a file that is no socket")
	}
}

func TestTCPGuard(t *testing.T) {
	s := start(t, hello, Options{Hosts: []string{"tcp://127.0.0.1:0", "unix://" + t.TempDir() + "/s"}, AllowInsecureTCP: true, Origin: "http://ui.example"})
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
		{name: "empty", host: "", want: 403},
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
		if status != tc.want || status == 403 && !strings.Contains(body, `{"message":`) {
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
			stream, err := conn.Hijack(w, r)
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
	}, Options{Hosts: []string{"unix://" + path}})

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
	select {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.taken) != 0 {
		t.Errorf("%d connections are still kept", len(s.taken))
	}
}

func TestShutdownLosesPatience(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	entered, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	s := start(t, func(http.ResponseWriter, *http.Request) { close(entered); <-release }, Options{Hosts: []string{"unix://" + path}})
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
	}, Options{Hosts: []string{"unix://" + path}})
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
