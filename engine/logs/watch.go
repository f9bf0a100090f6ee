package logs

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// pollPause is the time between two looks where inotify is not to be had: a user has 128 instances by default.
const pollPause = 100 * time.Millisecond

// Watcher tells any number of followers of changes, by one inotify instance that it has as long as there are followers.
// The zero value is ready; it must not be copied.
type Watcher struct {
	mu      sync.Mutex // guards the fields below
	current *instance  // nil without followers

	buffers sync.Pool // of readSize, for followers while there is something to read
}

// instance is one inotify descriptor with who is told of what.
type instance struct {
	file    *os.File
	done    chan struct{} // closed when nobody reads the file any more
	folders map[int32]map[*watch]struct{}
}

// watch tells one follower of changes in the folder of its log.
type watch struct {
	wake    chan struct{} // holds one signal: look again
	watcher *Watcher
	number  int32 // of the folder

	stop    chan struct{} // ends the polling; nil without
	polling sync.WaitGroup
}

// newWatch begins to watch a log's folder rather than the file: that tells of writes as well as of rotations, without a
// moment in which a new file is not watched yet. fault.NotFound if there is no such folder.
func (w *Watcher) newWatch(path string) (*watch, error) {
	c := &watch{wake: make(chan struct{}, 1), watcher: w}
	err := w.addWatch(c, filepath.Dir(path))
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT):
		return nil, fault.NotFound("no log %s", path)
	default: // no instance left, or a file system that has none
		c.stop = make(chan struct{})
		c.polling.Go(c.poll)
	}
	return c, nil
}

func (w *Watcher) addWatch(c *watch, dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := w.current == nil
	if fresh {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return err
		}
		w.current = &instance{
			file: os.NewFile(uintptr(fd), "inotify"), done: make(chan struct{}), folders: map[int32]map[*watch]struct{}{},
		}
		go w.readEvents(w.current)
	}
	number, err := w.current.addFolder(dir)
	if err != nil {
		if fresh {
			_ = w.current.file.Close() // the first error says more
			w.current = nil
		}
		return err
	}
	if w.current.folders[number] == nil {
		w.current.folders[number] = map[*watch]struct{}{}
	}
	w.current.folders[number][c] = struct{}{}
	c.number = number
	return nil
}

// addFolder adds a folder and returns its number, the same for every follower in it.
func (i *instance) addFolder(dir string) (number int32, err error) {
	raw, err := i.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var n int
	var aerr error
	err = raw.Control(func(fd uintptr) {
		const mask = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR
		n, aerr = unix.InotifyAddWatch(int(fd), dir, mask)
	})
	return int32(n), errors.Join(err, aerr) //nolint:gosec // the kernel counts in that size
}

func (i *instance) removeFolder(number int32) {
	if raw, err := i.file.SyscallConn(); err == nil {
		// A folder that was removed took its number along.
		_ = raw.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(number)) }) //nolint:gosec // it is not negative
	}
}

// close ends the watching and waits for it.
func (c *watch) close() {
	if c.stop != nil {
		close(c.stop)
		c.polling.Wait()
		return
	}
	w := c.watcher
	w.mu.Lock()
	i := w.current
	delete(i.folders[c.number], c)
	if len(i.folders[c.number]) == 0 {
		delete(i.folders, c.number)
		i.removeFolder(c.number)
	}
	last := len(i.folders) == 0
	if last {
		w.current = nil
	}
	w.mu.Unlock()
	if last {
		_ = i.file.Close() // only read from; non-blocking, so this ends the read
		<-i.done
	}
}

// readEvents takes any event in a folder for "look again": what happened is seen in the files.
func (w *Watcher) readEvents(i *instance) {
	defer close(i.done)
	var events [4096]byte
	for {
		n, err := i.file.Read(events[:])
		if err != nil {
			return
		}
		w.mu.Lock()
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			number := int32(binary.NativeEndian.Uint32(events[at:])) //nolint:gosec // as the kernel has it
			at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[at+12:]))
			i.signalLocked(number)
		}
		w.mu.Unlock()
	}
}

// signalLocked wakes the followers in a folder; all of them when events were lost, which the number -1 says.
func (i *instance) signalLocked(number int32) {
	if number != -1 {
		for c := range i.folders[number] {
			c.signal()
		}
		return
	}
	for _, followers := range i.folders {
		for c := range followers {
			c.signal()
		}
	}
}

func (c *watch) poll() {
	ticker := time.NewTicker(pollPause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.signal()
		case <-c.stop:
			return
		}
	}
}

func (c *watch) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
