package launch

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockName is the file by which an engine holds one of its folders, and names itself (package rootless).
const lockName = "lock"

// maxLock is how many bytes of a data folder's lock are read.
const maxLock = 4 << 10

// dialHolder connects to the engine that holds the data folder, if there is one and it listens elsewhere: it was started where
// XDG_RUNTIME_DIR was another or none, or with other hosts. It named its sockets in the folder's lock (package rootless).
func (s *Starter) dialHolder(ctx context.Context) (net.Conn, bool) {
	root, ok := dataFolder(s.Env)
	if !ok {
		return nil, false
	}
	var dialer net.Dialer
	for _, path := range namedSockets(filepath.Join(root, lockName)) {
		if checkTrusted(path) != nil {
			continue
		}
		if conn, err := dialer.DialContext(ctx, "unix", path); err == nil {
			return conn, true
		}
	}
	return nil, false
}

// dataFolder returns the folder that an engine would take which is started now, unless its settings file names another.
func dataFolder(env Env) (dir string, ok bool) {
	if dir := env("MOSS_ROOT"); dir != "" {
		return dir, filepath.IsAbs(dir)
	}
	if dir := env("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "moss"), true
	}
	home := env("HOME")
	return filepath.Join(home, ".local", "share", "moss"), filepath.IsAbs(home)
}

// namedSockets reads the paths of sockets in a lock.
func namedSockets(lock string) (paths []string) {
	lines, _ := readLock(lock)
	for _, line := range lines {
		if path, ok := strings.CutPrefix(line, "unix://"); ok && filepath.IsAbs(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// readLock reads a lock of the user's own: its holder, then the hosts; nothing if it cannot be read. The lock is not tried: an
// engine that starts just now wants it.
func readLock(lock string) (lines []string, info os.FileInfo) {
	f, err := os.OpenFile(lock, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = f.Close() }()
	info, err = f.Stat()
	if err != nil || !info.Mode().IsRegular() || !isOwn(info) {
		return nil, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxLock))
	if err != nil {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), info
}

// checkTrusted refuses a socket that is not the user's, or that lies where somebody else could have put it.
func checkTrusted(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket || !isOwn(info) {
		return fmt.Errorf("%s is not a socket of yours", path)
	}
	dir, err := os.Lstat(filepath.Dir(path))
	if err != nil {
		return err
	}
	const othersWrite = 0o022 // a group may go through it, see socket-group
	if !dir.IsDir() || !isOwn(dir) || dir.Mode().Perm()&othersWrite != 0 {
		return fmt.Errorf("others can write to %s", filepath.Dir(path))
	}
	return nil
}

func isOwn(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
