package dial

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listenFull returns a listener that has one place for connections, which is taken. accept makes room.
func listenFull(t *testing.T) (path string, accept func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { _ = file.Close() })
	listener, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	first, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close() })
	if second, err := net.Dial("unix", path); !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("another connection = %v, %v, want a full queue", second, err)
	}
	return path, func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
		}
	}
}

func TestConnectWaitsForRoom(t *testing.T) {
	path, accept := listenFull(t)
	time.AfterFunc(20*time.Millisecond, accept)
	conn, err := Connect(t.Context(), &net.Dialer{}, "unix", path)
	if err != nil {
		t.Fatalf("Connect = %v, want the room that comes", err)
	}
	_ = conn.Close()
}

func TestConnectEndsWithItsContext(t *testing.T) {
	path, _ := listenFull(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Connect(ctx, &net.Dialer{}, "unix", path); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), path) {
		t.Errorf("Connect = %v, want the end of the context", err)
	}
}

func TestConnectFailsAtOnce(t *testing.T) {
	if _, err := Connect(t.Context(), &net.Dialer{}, "unix", filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Connect = %v, want no such file", err)
	}
}
