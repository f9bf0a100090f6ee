package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

const (
	socketMode = 0o600
	folderMode = 0o700
	// maxSocketPath is how long in bytes the kernel lets the path of a socket be.
	maxSocketPath = 107
	// answerPatience is how long an engine may take to accept on its socket. A live one does so at once.
	answerPatience = 2 * time.Second
)

// open returns the listeners of one host.
func open(ctx context.Context, host string, opt Options) ([]net.Listener, error) {
	scheme, address, ok := strings.Cut(host, "://")
	if !ok {
		return nil, fault.Invalid("want unix:///path, tcp://127.0.0.1:port or fd://")
	}
	switch scheme {
	case "unix":
		l, err := openUnix(ctx, address)
		return one(l, err)
	case "tcp":
		l, err := openTCP(ctx, address, opt.AllowInsecureTCP)
		return one(l, err)
	case "fd":
		return openFiles(opt.Files)
	default:
		return nil, fault.Invalid("unknown scheme %q: want unix, tcp or fd", scheme)
	}
}

func one(l net.Listener, err error) ([]net.Listener, error) {
	if err != nil {
		return nil, err
	}
	return []net.Listener{&tracker{l}}, nil
}

// openUnix listens on a socket that only its owner can use.
func openUnix(ctx context.Context, path string) (net.Listener, error) {
	switch {
	case !filepath.IsAbs(path):
		return nil, fault.Invalid("the socket's path must be absolute")
	case strings.ContainsRune(path, 0):
		return nil, fault.Invalid("the socket's path holds a zero byte")
	case len(path) > maxSocketPath:
		return nil, fault.Invalid("the socket's path has %d bytes, the kernel allows %d", len(path), maxSocketPath)
	}
	if err := prepareFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		// The socket's mode is its file's from the first moment: no window in which others could connect.
		var err error
		return errors.Join(raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), socketMode) }), err)
	}}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// prepareFolder makes the socket's folder, or checks that nobody else can put another socket into it.
func prepareFolder(dir string) error {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return fmt.Errorf("make the socket's folder: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("check the socket's folder: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("check the socket's folder: no owner of %s", dir)
	}
	const othersWrite = 0o022
	switch sticky := info.Mode()&os.ModeSticky != 0; {
	case info.Mode().Perm()&othersWrite != 0 && !sticky:
		return fault.Invalid("others can write to the folder %s: it must be yours alone (mode 0700)", dir)
	case int(stat.Uid) != os.Geteuid() && !sticky:
		return fault.Invalid("the folder %s belongs to another user (%d)", dir, stat.Uid)
	}
	return nil
}

// removeStale removes a socket that an engine left when it was killed. One on which somebody answers is fault.Conflict;
// anything else at the path stays and is fault.Invalid.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Type() != os.ModeSocket:
		return fault.Invalid("there is something at %s that is not a socket", path)
	case !ok || int(stat.Uid) != os.Geteuid():
		return fault.Invalid("the socket %s belongs to another user", path)
	}
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close() // Nothing was sent.
		return fault.Conflict("another engine answers at %s", path)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
	default:
		return fault.Conflict("something holds %s: %v", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the stale socket: %w", err)
	}
	return nil
}

// openTCP listens on the loopback, without TLS.
func openTCP(ctx context.Context, address string, allowed bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fault.Invalid("want tcp://127.0.0.1:port: %v", err)
	}
	ip := net.ParseIP(host)
	switch {
	case ip == nil:
		return nil, fault.Invalid("the address %q is no IP address: want 127.0.0.1 or [::1]", host)
	case !ip.IsLoopback():
		return nil, fault.Invalid("the address %s is not on the loopback: moss serves TCP to other machines only with TLS client "+
			"certificates, which it cannot do yet", host)
	case !allowed:
		return nil, fault.Invalid("TCP without TLS lets every user of this machine use the engine: it must be allowed explicitly")
	}
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", address)
}

// openFiles takes over sockets that listen already. Unix sockets among them stay in place when the server ends.
func openFiles(files []*os.File) ([]net.Listener, error) {
	if len(files) == 0 {
		return nil, fault.Invalid("no listening socket was handed over")
	}
	listeners := make([]net.Listener, 0, len(files))
	for _, f := range files {
		l, err := net.FileListener(f)
		if err == nil {
			err = loopbackOnly(l)
		}
		if err != nil {
			for _, opened := range listeners {
				err = errors.Join(err, opened.Close())
			}
			return nil, fmt.Errorf("take over %s: %w", f.Name(), err)
		}
		_ = f.Close() // It was duplicated.
		listeners = append(listeners, &tracker{l})
	}
	return listeners, nil
}

// loopbackOnly refuses a TCP socket that was handed over unless it is on the loopback: whoever made it has allowed that.
func loopbackOnly(l net.Listener) error {
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok || address.IP.IsLoopback() {
		return nil
	}
	return errors.Join(fault.Invalid("%s is not on the loopback", address), l.Close())
}
