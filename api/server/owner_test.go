package server

import (
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestFromOwner asks over each kind of socket. That another user is none is looked at by tests/86-debug.bats.
func TestFromOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(strconv.FormatBool(FromOwner(r.Context()))))
	}, Options{Files: listening(t, "unix://"+path, "tcp://127.0.0.1:0")})
	const request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
	if _, body := ask(t, dial(t, "unix", path), request); body != "true" {
		t.Errorf("own user on the unix socket: %s, want true", body)
	}
	if _, body := ask(t, dial(t, "tcp", strings.TrimPrefix(s.Addresses()[1], "tcp://")), request); body != "false" {
		t.Errorf("own user over TCP: %s, want false", body)
	}
	if FromOwner(t.Context()) {
		t.Error("a context of no connection is the owner's, want not")
	}
}
