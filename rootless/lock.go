package rootless

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/damage"
)

// lock is the claim of one engine on a folder.
type lock struct {
	file *os.File
	path string
}

// lockDir takes the claim on dir. It holds until remove, or until the process ends.
func lockDir(dir string) (*lock, error) {
	path := filepath.Join(dir, "lock")
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) { // what it leads to would be overwritten
			if err := damage.New(dir, nil).SetAside(path, err); err != nil {
				return nil, fmt.Errorf("lock %s: %w", dir, err)
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		err = claimFile(f, dir)
		if err == nil && !sameFile(f, path) {
			// The last holder removed the file between our open and our claim: what we hold is nobody's any more.
			err = f.Close()
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return &lock{file: f, path: path}, nil
	}
}

// remove gives the claim up and takes the file away, unless it is another's by now.
func (l *lock) remove() error {
	if !sameFile(l.file, l.path) {
		return l.file.Close()
	}
	return errors.Join(os.Remove(l.path), l.file.Close())
}

// writeHolder writes where clients find the holder, for those that look for it elsewhere (package launch of the command
// line).
func (l *lock) writeHolder(hosts []string) error {
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("lock %s: %w", filepath.Dir(l.path), err)
	}
	text := strings.Join(append([]string{holderName()}, hosts...), "\n") + "\n"
	if _, err := l.file.WriteAt([]byte(text), 0); err != nil {
		return fmt.Errorf("lock %s: %w", filepath.Dir(l.path), err)
	}
	return nil
}

// holderName names this process.
func holderName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	return fmt.Sprintf("pid %d on %s", os.Getpid(), host)
}

func sameFile(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(held, there)
}

// claimFile locks f and writes who holds it.
func claimFile(f *os.File, dir string) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		text, _ := os.ReadFile(f.Name()) // only makes the message better
		who, _, _ := strings.Cut(string(text), "\n")
		return fmt.Errorf("%s is in use by another engine (%s); stop it, or choose another --root and --run-dir",
			dir, orUnknown(strings.TrimSpace(who)))
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	return (&lock{file: f, path: f.Name()}).writeHolder(nil)
}

func orUnknown(s string) string {
	if s == "" {
		return "pid unknown"
	}
	return s
}

// makeAliveFIFO makes a new FIFO and holds its writing end until the process ends: the shims read from it and learn of the
// end of the outer process by the end of the file. A new inode each time keeps the shims of a dead outer process from
// mistaking its successor for it.
func makeAliveFIFO(path string) (*os.File, error) {
	// The engines alone write there.
	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	// Reading and writing: opening for writing alone would wait for a reader.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return f, nil
}
