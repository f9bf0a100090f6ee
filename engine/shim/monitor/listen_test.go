package monitor

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSocketListensAtOnce: who finds the socket can connect. A refusal would mean that its shim was killed.
func TestSocketListensAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	for range 300 {
		refused := make(chan error)
		go func() {
			for {
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
				if errors.Is(err, os.ErrNotExist) {
					continue // it is not there yet
				}
				if err == nil {
					err = conn.Close()
				}
				refused <- err
				return
			}
		}()
		socket, err := bindSocket(dir, "s")
		if err != nil {
			t.Fatal(err)
		}
		if err := <-refused; err != nil {
			t.Fatalf("connecting to a socket that is being made = %v", err)
		}
		if err := errors.Join(socket.Close(), unix.Unlink(path)); err != nil {
			t.Fatal(err)
		}
	}
}
