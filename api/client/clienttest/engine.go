// Package clienttest is a fake engine on a unix socket for tests of clients. Its containers are Go functions.
package clienttest

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// ID is the id of every container that a fake engine creates.
const ID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// Process is what a container runs. signals gets what kill sends.
type Process func(stdin io.Reader, stdout, stderr io.Writer, signals <-chan string) (code int)

// Engine is a fake engine with one container at a time. Set its fields before the first call of Host.
type Engine struct {
	Process  Process
	Override map[string]http.HandlerFunc // by "METHOD path", the path without the version; replaces what the engine does
	Chunk    int                         // bytes of a frame's payload that are sent at once; 0: all

	socket    string
	server    *http.Server
	serveOnce func()
	exec      execution

	mu       sync.Mutex // guards the fields below
	requests []string
	created  map[string]any
	conn     net.Conn
	reader   *bufio.Reader

	signals chan string
	ended   chan struct{} // closed when the process has ended
	code    int           // set before that
}

// New starts a fake engine that ends with the test.
func New(t testing.TB) *Engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "moss-engine-") //nolint:usetesting // t.TempDir holds the test's name: too long for a socket
	if err != nil {
		t.Fatalf("make the engine's folder: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	e := &Engine{
		socket: filepath.Join(dir, "moss.sock"), Override: map[string]http.HandlerFunc{},
		signals: make(chan string, 16), ended: make(chan struct{}),
	}
	listener, err := net.Listen("unix", e.socket)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	e.server = &http.Server{Handler: http.HandlerFunc(e.serveRequest)}
	var serving sync.WaitGroup
	e.serveOnce = sync.OnceFunc(func() { serving.Go(func() { _ = e.server.Serve(listener) }) })
	t.Cleanup(func() {
		e.Kill()
		_ = listener.Close()
		serving.Wait()
	})
	return e
}

// Host returns the URL of the engine's socket. The engine serves from the first call on.
func (e *Engine) Host() string {
	e.serveOnce()
	return "unix://" + e.socket
}

// Kill ends the engine and all its connections at once, as a crash does.
func (e *Engine) Kill() {
	_ = e.server.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn != nil {
		_ = e.conn.Close()
	}
	e.exec.mu.Lock()
	defer e.exec.mu.Unlock()
	if e.exec.conn != nil {
		_ = e.exec.conn.Close()
	}
}

// Requests returns the requests so far, as "METHOD path?query" without the version.
func (e *Engine) Requests() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.requests...)
}

// Created returns the body of the last create.
func (e *Engine) Created() map[string]any {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.created
}

// Signals returns what Process gets: a test may close it to end a process that waits.
func (e *Engine) Signals() chan string { return e.signals }

func (e *Engine) serveRequest(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if version, rest, found := strings.Cut(strings.TrimPrefix(path, "/"), "/"); found && strings.HasPrefix(version, "v1.") {
		path = "/" + rest
	}
	line := r.Method + " " + path
	if r.URL.RawQuery != "" {
		line += "?" + r.URL.RawQuery
	}
	e.mu.Lock()
	e.requests = append(e.requests, line)
	e.mu.Unlock()
	if handler, ok := e.Override[r.Method+" "+path]; ok {
		handler(w, r)
		return
	}
	if e.serveExec(w, r, r.Method+" "+path) {
		return
	}
	switch r.Method + " " + path {
	case "POST /containers/create":
		e.createContainer(w, r)
	case "POST /containers/" + ID + "/attach":
		e.attachContainer(w)
	case "POST /containers/" + ID + "/start":
		e.startContainer()
		w.WriteHeader(http.StatusNoContent)
	case "POST /containers/" + ID + "/wait":
		select {
		case <-e.ended:
			JSON(w, http.StatusOK, map[string]any{"StatusCode": e.code})
		case <-r.Context().Done():
		}
	case "POST /containers/" + ID + "/kill":
		e.signals <- r.URL.Query().Get("signal")
		w.WriteHeader(http.StatusNoContent)
	case "POST /containers/" + ID + "/resize", "DELETE /containers/" + ID:
		w.WriteHeader(http.StatusNoContent)
	case "GET /_ping":
		_, _ = io.WriteString(w, "OK")
	default:
		Fail(w, http.StatusNotFound, "no such thing: "+path)
	}
}

func (e *Engine) createContainer(w http.ResponseWriter, r *http.Request) {
	body := map[string]any{}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		Fail(w, http.StatusBadRequest, err.Error())
		return
	}
	e.mu.Lock()
	e.created = body
	e.mu.Unlock()
	JSON(w, http.StatusCreated, map[string]any{"Id": ID, "Warnings": nil})
}

func (e *Engine) attachContainer(w http.ResponseWriter) {
	// The client starts the container once it has seen the head: nobody may look before conn is set.
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conn, e.reader = Hijack(w)
}

func (e *Engine) startContainer() {
	e.mu.Lock()
	conn, reader := e.conn, e.reader
	tty, _ := e.created["Tty"].(bool)
	e.mu.Unlock()
	process := e.Process
	if process == nil {
		process = func(io.Reader, io.Writer, io.Writer, <-chan string) int { return 0 }
	}
	go func() {
		if conn == nil {
			e.code = process(nil, io.Discard, io.Discard, e.signals)
			close(e.ended)
			return
		}
		stdout, stderr := io.Writer(conn), io.Writer(conn)
		if !tty {
			var mu sync.Mutex
			stdout, stderr = &Frames{W: conn, Stream: 1, Chunk: e.Chunk, mu: &mu}, &Frames{W: conn, Stream: 2, Chunk: e.Chunk, mu: &mu}
		}
		e.code = process(reader, stdout, stderr, e.signals)
		_ = conn.Close()
		close(e.ended)
	}()
}

// Hijack answers 101 and takes the connection over.
func Hijack(w http.ResponseWriter) (net.Conn, *bufio.Reader) {
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(fmt.Sprintf("hijack: %v", err))
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n"+
		"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	return conn, both.Reader
}

// JSON answers a value.
func JSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// Fail answers an error.
func Fail(w http.ResponseWriter, status int, message string) {
	JSON(w, status, map[string]string{"message": message})
}

// Frames writes frames of one stream.
type Frames struct {
	W      io.Writer
	Stream byte
	Chunk  int // bytes that are sent at once, the header counted; 0: all

	mu *sync.Mutex // guards W; shared by the streams of one connection
}

// Write sends one frame.
func (f *Frames) Write(p []byte) (int, error) {
	if f.mu != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
	}
	frame := append(binary.BigEndian.AppendUint32([]byte{f.Stream, 0, 0, 0}, uint32(len(p))), p...)
	for len(frame) > 0 {
		n := len(frame)
		if f.Chunk > 0 {
			n = min(n, f.Chunk)
		}
		if _, err := f.W.Write(frame[:n]); err != nil {
			return 0, err
		}
		frame = frame[n:]
	}
	return len(p), nil
}
