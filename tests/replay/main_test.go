package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// startEngine serves what the test asks: ids begin with name, and DELETE is answered with status. It returns its socket.
func startEngine(t *testing.T, name string, status int) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /create", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := fmt.Sprintf(`{"Id":%q}`, name+string(body))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, text)
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("DELETE /{id}", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.PathValue("id"), name) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(status)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return socket
}

// sendRequest sends one request and returns the answer's body, which may go on.
func sendRequest(ctx context.Context, t *testing.T, socket, method, path, body string) io.ReadCloser {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transportTo(socket).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Body
}

// TestPlay records a client beside its listener, and plays it to an engine with other ids, and to one that answers otherwise.
func TestPlay(t *testing.T) {
	dir := t.TempDir()
	file, proxy := filepath.Join(dir, "file"), filepath.Join(dir, "proxy")
	ctx, cancel := context.WithCancel(t.Context())
	recorded := make(chan error, 1)
	engine := startEngine(t, "first-", http.StatusNoContent)
	l, err := net.Listen("unix", proxy)
	if err != nil {
		t.Fatal(err)
	}
	go func() { recorded <- recordClient(ctx, l, engine, file) }()
	listening, stopListening := context.WithCancel(ctx)
	events := sendRequest(listening, t, proxy, "GET", "/events", "")
	created := sendRequest(ctx, t, proxy, "POST", "/create", "thing")
	if text, err := io.ReadAll(created); err != nil || string(text) != `{"Id":"first-thing"}` {
		t.Fatalf("create by the proxy: %q, %v", text, err)
	}
	for range 2 { // once more: the answer before it has come to its end
		if _, err := io.ReadAll(sendRequest(ctx, t, proxy, "DELETE", "/first-thing", "")); err != nil {
			t.Fatal(err)
		}
	}
	stopListening()
	_ = events.Close()
	cancel()
	if err := <-recorded; err != nil {
		t.Fatal(err)
	}
	if err := playFile(t.Context(), startEngine(t, "second-", http.StatusNoContent), file, io.Discard); err != nil {
		t.Errorf("play to an engine that does the same: %v", err)
	}
	err = playFile(t.Context(), startEngine(t, "third-", http.StatusConflict), file, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "DELETE /first-thing: status 409, want 204") {
		t.Errorf("play to an engine that answers otherwise: %v", err)
	}
}
