package monitor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// backlog is the number of connections that may wait to be accepted.
const backlog = 128

// listener is a unix socket in a folder. Package net would do the same and cost each shim some 70 KiB.
type listener struct {
	path string

	mu     sync.Mutex // guards the fields below
	f      *os.File
	closed bool
}

// openListener binds name in dir, for the user alone.
func openListener(dir, name string) (*listener, error) {
	f, err := bindSocket(dir, name)
	if err != nil {
		return nil, err
	}
	return &listener{f: f, path: filepath.Join(dir, name)}, nil
}

// bindAgain listens at the same path on a new socket, in the place of one whose file has gone.
func (l *listener) bindAgain() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	f, err := bindSocket(filepath.Dir(l.path), filepath.Base(l.path))
	if err != nil {
		return err
	}
	_ = l.f.Close() // accept goes on with the new one
	l.f = f
	return nil
}

// bindSocket makes the socket. The path may be longer than a socket address: it is bound through the folder's descriptor. It gets
// its name once it listens: a client that is refused takes the shim for killed.
func bindSocket(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, name)
	begun := path + ".new"
	if err := os.Remove(begun); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	folder, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() { _ = unix.Close(folder) }()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	// The mode of a socket file is that of the socket's own inode, less the umask: it is never open to others.
	if err = unix.Fchmod(fd, 0o600); err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(folder) + "/" + name + ".new"})
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err == nil {
		err = os.Rename(begun, path)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// accept waits for a connection. It returns os.ErrClosed once the listener is closed.
func (l *listener) accept() (*os.File, error) {
	for {
		f, closed := l.currentSocket()
		if closed {
			return nil, os.ErrClosed
		}
		conn, err := acceptOn(f)
		if again, closed := l.currentSocket(); again != f || closed {
			if err == nil {
				_ = conn.Close()
			}
			continue
		}
		return conn, err
	}
}

func (l *listener) currentSocket() (f *os.File, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f, l.closed
}

func acceptOn(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var conn int
	var aerr error
	err = raw.Read(func(fd uintptr) bool {
		for {
			conn, _, aerr = unix.Accept4(int(fd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			switch aerr {
			case unix.EINTR, unix.ECONNABORTED:
			case unix.EAGAIN:
				return false
			default:
				return true
			}
		}
	})
	if err == nil {
		err = aerr
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(conn), "connection"), nil
}

// close stops listening and removes the socket file. A second close does nothing.
func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		_ = os.Remove(l.path)
		_ = l.f.Close()
	}
}

// drainFile reads f to its end and closes it.
func drainFile(f *os.File) {
	var buf [64]byte
	for {
		if _, err := f.Read(buf[:]); err != nil && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return
		}
	}
}
