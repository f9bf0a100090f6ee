package rootless

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"moss/engine/fdstore"
	"moss/slirp/uplink"
)

const (
	lookAgain   = 30 * time.Second // for what neither a mount nor a removal announces
	lookForBase = 2 * time.Second  // while the folder above is not there

	// mostRestored is how often the FIFO is made anew: shims may still read from each old one.
	mostRestored = 256
)

// runFolder is the folder of this boot, as the host sees it. A logout takes it away with all that is in it, and the next login
// brings an empty one; programs that tidy up take single files.
type runFolder struct {
	dir     string
	lock    *lock
	alive   *os.File // the FIFO of the shims
	sockets Sockets
	pass    int        // to the engine: sockets that were opened anew
	uplink  []byte     // its status file, as it was last seen
	old     []*os.File // FIFOs of shims that still run
}

// keepRestored restores the folder, its lock, the sockets and the FIFO whenever they are gone, until stop is called.
func (f *runFolder) keepRestored(ctx context.Context) (stop func(), err error) {
	w, err := newWatch()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", f.dir, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.restoreLoop(ctx, w)
	}()
	return func() {
		w.stop()
		<-ended
		w.close()
		for _, fifo := range f.old {
			_ = fifo.Close()
		}
	}, nil
}

func (f *runFolder) restoreLoop(ctx context.Context, w *watch) {
	log := zerolog.Ctx(ctx)
	told := ""
	for {
		w.watchDirs(append(f.sockets.Folders(), filepath.Dir(f.dir), f.dir))
		patience := lookAgain
		restored, err := f.restoreMissing(ctx)
		switch {
		case err != nil && err.Error() != told:
			log.Warn().Err(err).Msg("the folder of this boot is gone")
			told = err.Error()
		case err == nil:
			told = ""
		}
		if err != nil {
			patience = lookForBase
		}
		if restored {
			continue // what was made is watched before the wait
		}
		if !w.waitForChange(patience) {
			return
		}
	}
}

// restoreMissing makes what is gone and reports whether there was anything.
func (f *runFolder) restoreMissing(ctx context.Context) (restored bool, err error) {
	_, err = os.Lstat(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := keptApart(filepath.Dir(f.dir)); err != nil {
			return false, err
		}
		restored = true
		if err := os.Mkdir(f.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
	} else if err != nil {
		return false, err
	}
	if err := ownedPrivate(f.dir); err != nil {
		return restored, err
	}
	if !sameFile(f.lock.file, f.lock.path) {
		again, err := lockDir(f.dir)
		if err != nil {
			return restored, err
		}
		_ = f.lock.file.Close()
		f.lock.file, restored = again.file, true
	}
	made, err := f.restoreAlive()
	restored = restored || made
	if err != nil {
		return restored, err
	}
	if restored {
		zerolog.Ctx(ctx).Info().Str("dir", f.dir).Msg("the folder of this boot is restored")
	}
	for _, name := range shared { // some may go after the rest was restored, or when the engine ends
		path := filepath.Join(f.dir, name)
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		restored = true
		if err := os.MkdirAll(path, 0o700); err != nil {
			return true, err
		}
	}
	if err := f.keepUplink(restored); err != nil {
		return restored, err
	}
	opened, err := f.sockets.Restore(ctx)
	restored = restored || len(opened) > 0
	if restored {
		// Also without any socket: the engine then looks after the tasks' folders.
		err = errors.Join(err, fdstore.Pass(f.pass, opened))
	}
	for _, file := range opened {
		err = errors.Join(err, file.Close())
	}
	return restored, err
}

// shared are the folders in it that the engine, its shims and the runtime write to.
var shared = []string{"tasks", "runtime", "execs", "netns", "ipam", stateName} //nolint:gochecknoglobals // a constant list

// keepUplink remembers the status file of the uplink, and writes it again when it is gone: the next engine reads it.
func (f *runFolder) keepUplink(restored bool) error {
	path := filepath.Join(f.dir, stateName, uplink.StatusFile)
	now, err := os.ReadFile(path)
	switch {
	case err == nil:
		f.uplink = now
	case restored && f.uplink != nil && errors.Is(err, fs.ErrNotExist):
		return os.WriteFile(path, f.uplink, 0o600)
	}
	return nil
}

// restoreAlive makes the FIFO anew for shims to come. Those that read from the old one go on: its writing end stays open.
func (f *runFolder) restoreAlive() (made bool, err error) {
	path := filepath.Join(f.dir, aliveName)
	if f.alive == nil || sameFile(f.alive, path) {
		return false, nil
	}
	if len(f.old) >= mostRestored {
		return false, fmt.Errorf("%s was removed %d times: start mossd anew", path, mostRestored)
	}
	again, err := makeAliveFIFO(path)
	if err != nil {
		return false, err
	}
	f.old = append(f.old, f.alive)
	f.alive = again
	return true, nil
}

// watch waits for changes of the mounts and in folders.
type watch struct {
	mounts, notify, quit int
	watched              map[string]int
}

func newWatch() (_ *watch, err error) {
	w := &watch{mounts: -1, notify: -1, quit: -1, watched: map[string]int{}}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.mounts, err = unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if w.notify, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return nil, err
	}
	w.quit, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return w, err
}

// watchDirs watches folders, each by its present inode. One that is not there is left out.
func (w *watch) watchDirs(dirs []string) {
	const events = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	for _, dir := range dirs {
		wd, err := unix.InotifyAddWatch(w.notify, dir, events)
		if err != nil {
			continue
		}
		if old, ok := w.watched[dir]; ok && old != wd {
			_, _ = unix.InotifyRmWatch(w.notify, uint32(old)) //nolint:gosec // a watch's number; it may have gone with its folder
		}
		w.watched[dir] = wd
	}
}

// waitForChange returns after a change or a time, false once it is stopped.
func (w *watch) waitForChange(most time.Duration) bool {
	// That of the mounts can always be read: what is new about them is an error.
	fds := []unix.PollFd{
		{Fd: int32(w.quit), Events: unix.POLLIN},
		{Fd: int32(w.notify), Events: unix.POLLIN},
		{Fd: int32(w.mounts), Events: unix.POLLPRI},
	} //nolint:gosec // descriptors are small
	for {
		_, err := unix.Poll(fds, int(most.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		break
	}
	for buf := make([]byte, 4<<10); ; {
		if n, err := unix.Read(w.notify, buf); err != nil || n <= 0 {
			break
		}
	}
	return fds[0].Revents == 0
}

func (w *watch) stop() { _, _ = unix.Write(w.quit, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func (w *watch) close() {
	for _, fd := range []int{w.mounts, w.notify, w.quit} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
