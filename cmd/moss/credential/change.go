package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// changeTries is how often a change starts again because somebody who takes no lock wrote in between.
const changeTries = 10

// The lock is looked at every lockPause, for at most lockPatience: a helper that asks its user may hold it long.
const (
	lockPause    = 10 * time.Millisecond
	lockPatience = time.Minute
)

// errRaced says that the file changed while it was being changed.
var errRaced = errors.New("another program keeps writing it")

// changeFile reads a file, lets edit change it, and puts the outcome in its place, whole, mode 0600. A symlink stays one: the
// file that it leads to is replaced. Writers of this package wait for each other; what others write meanwhile is seen.
func changeFile(ctx context.Context, path string, edit func(*file) error) error {
	path, err := resolveLinks(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	unlock, err := lockFolder(ctx, dir)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer unlock()
	for range changeTries {
		if err = tryChange(path, edit); !errors.Is(err, errRaced) {
			return err
		}
	}
	return fmt.Errorf("write %s: %w", path, err)
}

// resolveLinks follows symlinks, also one that leads to nothing yet.
func resolveLinks(path string) (string, error) {
	const links = 40 // as many as the kernel follows
	for range links {
		to, err := os.Readlink(path)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, os.ErrNotExist):
			return path, nil
		case err != nil:
			return path, err
		case !filepath.IsAbs(to):
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return path, unix.ELOOP
}

// lockFolder takes the lock of the folder itself, so that no file is left behind. Where the file system has no such locks the
// comparison before the replacement has to do.
func lockFolder(ctx context.Context, dir string) (unlock func(), err error) {
	handle, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		err := unix.Flock(int(handle.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		default:
			return func() { _ = handle.Close() }, nil // the lock goes with the handle
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			_ = handle.Close()
			return nil, fmt.Errorf("wait for another login: %w", ctx.Err())
		}
	}
}

// tryChange makes one change. It returns errRaced if the file is another than the one that was read.
func tryChange(path string, edit func(*file) error) error {
	before, f, err := readNow(path)
	if err != nil {
		return err
	}
	if err := edit(f); err != nil {
		return err
	}
	text, err := f.encode()
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".moss-config-") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		if after, _ := os.Stat(path); !isUnchanged(before, after) {
			err = errRaced
		}
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		if errors.Is(err, errRaced) {
			return err
		}
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// readNow reads a file and what tells it from a later one; a missing file is an empty one.
func readNow(path string) (os.FileInfo, *file, error) {
	in, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		f, err := parseFile(path, bytes.NewReader(nil))
		return nil, f, err
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("write %s: it is no regular file", path)
	}
	f, err := parseFile(path, in)
	return info, f, err
}

func isUnchanged(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// encode writes the file with its entries, as docker indents it.
func (f *file) encode() ([]byte, error) {
	if f.auths != nil {
		auths, err := marshalParts(f.auths)
		if err != nil {
			return nil, err
		}
		f.raw[keyAuths] = auths
	}
	text, err := marshalParts(f.raw)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "\t"); err != nil {
		return nil, fmt.Errorf("encode %s: %w", f.path, err)
	}
	return out.Bytes(), nil
}

// marshalParts leaves < and > as they are: other keys hold Go templates.
func marshalParts(parts map[string]json.RawMessage) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(parts); err != nil {
		return nil, fmt.Errorf("encode credentials: %w", err)
	}
	return out.Bytes(), nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
