package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// pollPause is the time between two looks where inotify is not to be had: a user has 128 instances by default.
const pollPause = 100 * time.Millisecond

// follow reads what is written from now on, until End, Until or ctx.
func (r *reader) follow(ctx context.Context, changes *watch) error {
	var until <-chan time.Time
	if !r.opts.Until.IsZero() {
		timer := time.NewTimer(time.Until(r.opts.Until))
		defer timer.Stop()
		until = timer.C
	}
	last := false
	for {
		if err := r.catchUp(ctx); err != nil || last {
			return err
		}
		select {
		case <-changes.wake:
		case <-r.opts.End:
			last = true // what was written before its end is read once more
		case <-until:
			last = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// catchUp reads to the present end of the log, over any rotations.
func (r *reader) catchUp(ctx context.Context) error {
	for {
		if err := r.readSegments(ctx); err != nil {
			return err
		}
		more, err := r.nextFiles(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// nextFiles looks whether the log went on in newer files, and adds those; then there is more to read: first the rest of
// the old file, since the writer may have used it up to the rotation.
func (r *reader) nextFiles(ctx context.Context) (more bool, err error) {
	if len(r.segments) == 0 {
		return r.addFiles(ctx, 0)
	}
	s := &r.segments[0]
	now, err := os.Stat(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // in the middle of a rotation, or removed
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read log: %w", err)
	case inodeOf(now) == s.inode:
		if now.Size() >= s.pos {
			return false, nil
		}
		s.pos = 0 // someone truncated it
		return now.Size() > 0, nil
	}
	return r.addFiles(ctx, s.inode)
}

// addFiles adds the files that are newer than the one of the inode after, all if it is 0.
func (r *reader) addFiles(ctx context.Context, after uint64) (more bool, err error) {
	chain, err := openChain(ctx, r.path, after)
	for _, f := range chain {
		r.segments = append(r.segments, segment{logFile: f, limit: -1})
	}
	return len(chain) > 0, err
}

// watch tells of changes in the folder of a log.
type watch struct {
	wake    chan struct{} // holds one signal: look again
	stop    chan struct{}
	running sync.WaitGroup
	file    *os.File // the inotify descriptor; nil while polling
}

// newWatch watches the folder rather than the file: that tells of writes as well as of rotations, without a moment in
// which a new file is not watched yet.
func newWatch(path string) (*watch, error) {
	w := &watch{wake: make(chan struct{}, 1), stop: make(chan struct{})}
	fd, err := inotify(filepath.Dir(path))
	switch {
	case err == nil:
		w.file = os.NewFile(uintptr(fd), "inotify") // non-blocking, so close ends a read
		w.running.Go(w.listen)
	case errors.Is(err, unix.ENOENT):
		return nil, fault.NotFound("no log %s", path)
	default: // no instance left, or a file system that has none
		w.running.Go(w.poll)
	}
	return w, nil
}

func inotify(dir string) (fd int, err error) {
	fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return -1, err
	}
	const mask = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR
	if _, err := unix.InotifyAddWatch(fd, dir, mask); err != nil {
		_ = unix.Close(fd) // the first error says more
		return -1, err
	}
	return fd, nil
}

// close ends the watching and waits for it.
func (w *watch) close() {
	close(w.stop)
	if w.file != nil {
		_ = w.file.Close() // only read from
	}
	w.running.Wait()
}

// listen takes any event, an overflow too, for "look again": what happened is seen in the files.
func (w *watch) listen() {
	var events [4096]byte
	for {
		if _, err := w.file.Read(events[:]); err != nil {
			return
		}
		w.signal()
	}
}

func (w *watch) poll() {
	ticker := time.NewTicker(pollPause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.signal()
		case <-w.stop:
			return
		}
	}
}

func (w *watch) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
