package socket

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
	// groupBits are added to both for a group that may use the socket: it can connect, and go through the folder.
	socketGroupBits, folderGroupBits = 0o060, 0o010
	// maxSocketPath is how long in bytes the kernel lets the path of a socket be.
	maxSocketPath = 107
	// answerPatience is how long an engine may take to be there on its socket. A live one is at once: the queue is enough.
	answerPatience = 2 * time.Second
	// lockPoll is the time between two looks whether another process has done with the folder.
	lockPoll = 5 * time.Millisecond
)

// openUnix listens on a socket that only its owner, and a group if there is one, can use.
func (s *Set) openUnix(ctx context.Context, path string, group *int) error {
	switch {
	case !filepath.IsAbs(path):
		return fault.Invalid("the socket's path must be absolute")
	case strings.ContainsRune(path, 0):
		return fault.Invalid("the socket's path holds a zero byte")
	case len(path) > maxSocketPath:
		return fault.Invalid("the socket's path has %d bytes, the kernel allows %d", len(path), maxSocketPath)
	}
	l, n, err := s.bindUnix(ctx, filepath.Clean(path), group)
	if err != nil {
		return err
	}
	s.own = append(s.own, n)
	return s.addSocket(l)
}

// bindUnix makes the socket's file and its folder. On error neither the socket nor its file is left.
func (s *Set) bindUnix(ctx context.Context, path string, group *int) (_ net.Listener, n node, err error) {
	if err := prepareFolder(filepath.Dir(path), group); err != nil {
		return nil, n, err
	}
	unlock, err := lockFolder(ctx, filepath.Dir(path))
	if err != nil {
		return nil, n, err
	}
	defer unlock()
	if err := removeStale(ctx, path); err != nil {
		return nil, n, err
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		// The socket's mode is its file's from the first moment: no window in which others could connect.
		var err error
		return errors.Join(raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), socketMode) }), err)
	}}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, n, err
	}
	info, err := os.Lstat(path)
	if err == nil {
		err = s.admitGroup(path, group)
	}
	if err != nil {
		return nil, n, errors.Join(err, l.Close())
	}
	if own, ok := l.(*net.UnixListener); ok {
		own.SetUnlinkOnClose(false)
	}
	return l, node{path: path, info: info, group: group}, nil
}

// admitGroup lets a group use the socket.
func (s *Set) admitGroup(path string, group *int) error {
	if group == nil {
		return os.Chmod(path, socketMode)
	}
	// The group first: those of the old one must not get in.
	if err := os.Lchown(path, -1, *group); err != nil {
		return fmt.Errorf("give the socket to the group %d: %w", *group, err)
	}
	if err := os.Chmod(path, socketMode|socketGroupBits); err != nil {
		return err
	}
	if closed := closedTo(*group, filepath.Dir(path)); closed != "" {
		s.notes = append(s.notes, fmt.Sprintf("the group %d cannot reach %s: the folder %s is closed to it", *group, path, closed))
	}
	return nil
}

// prepareFolder makes the socket's folder, or checks that nobody else can put another socket into it.
func prepareFolder(dir string, group *int) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		if err := makeFolder(dir, group); err != nil {
			return fmt.Errorf("make the socket's folder: %w", err)
		}
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
	case int(stat.Uid) != os.Geteuid() && (!sticky || stat.Uid != 0): // its owner could, whatever the mode
		return fault.Invalid("the folder %s belongs to another user (%d)", dir, stat.Uid)
	}
	return nil
}

// makeFolder makes a folder, and those above it, that a group can go through if there is one.
func makeFolder(dir string, group *int) error {
	if err := os.MkdirAll(filepath.Dir(dir), folderMode); err != nil {
		return err
	}
	err := os.Mkdir(dir, folderMode)
	if err != nil || group == nil {
		if errors.Is(err, os.ErrExist) {
			return nil // it is checked as any other
		}
		return err
	}
	if err := os.Lchown(dir, -1, *group); err != nil {
		return err
	}
	return os.Chmod(dir, folderMode|folderGroupBits)
}

// lockFolder keeps others of the same user from replacing the same stale socket at the same time. A folder of somebody
// else's, such as /tmp, is not locked, since anybody could hold that lock.
func lockFolder(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock the socket's folder: %w", err)
	}
	unlock = func() { _ = f.Close() }
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil || int(stat.Uid) != os.Geteuid() {
		return unlock, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			unlock()
			return nil, fmt.Errorf("lock the socket's folder: %w", err)
		}
		select {
		case <-ctx.Done():
			unlock()
			return nil, fault.Conflict("another engine is starting in %s", dir)
		case <-tick.C:
		}
	}
}

// removeStale removes a socket that an engine left when it was killed. One on which somebody listens is fault.Conflict;
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
