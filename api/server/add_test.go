package server

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestAdd serves sockets that come later, before and after Serve, and no more than it shall.
func TestAdd(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	s, err := New(t.Context(), Options{Handler: http.HandlerFunc(hello), Files: listening(t, "unix://"+path("first"))})
	if err != nil {
		t.Fatal(err)
	}
	add := func(name string) {
		t.Helper()
		if err := s.Add(listening(t, "unix://"+path(name))[0]); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(name string) {
		t.Helper()
		if status, body := ask(t, dial(t, "unix", path(name)), "GET / HTTP/1.1\r\nHost: moss\r\nConnection: close\r\n\r\n"); status != http.StatusOK || body != "hello" {
			t.Errorf("%s answers %d %q", name, status, body)
		}
	}
	add("before")
	serve(t, s)
	add("after")
	for _, name := range []string{"first", "before", "after"} {
		answers(name)
	}
	for i := range mostAdded {
		add(string(rune('a' + i)))
	}
	answers("first")
	answers("a")
	if n := len(s.currentListeners()); n != mostAdded+1 {
		t.Errorf("%d listeners, want %d", n, mostAdded+1)
	}
	if err := s.Add(pipeEnd(t)); err == nil {
		t.Error("Add of a pipe gave no error")
	}
}

// pipeEnd returns one end of a pipe, which the caller closes.
func pipeEnd(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return r
}
