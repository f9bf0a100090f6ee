package uplink

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Watch calls f with the status as it is and then at every change, until ctx ends, which is no error. States that follow
// each other faster than f returns may be left out, the last one never. fault.NotFound if there is no status to begin with.
func Watch(ctx context.Context, stateDir string, f func(Status)) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch the uplink: %w", os.NewSyscallError("inotify_init1", err))
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer func() { _ = events.Close() }()
	// The status is replaced by a rename, so the folder is watched.
	if _, err := unix.InotifyAddWatch(fd, stateDir, unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
		return fmt.Errorf("watch the uplink: %w", &os.PathError{Op: "inotify_add_watch", Path: stateDir, Err: err})
	}
	stop := context.AfterFunc(ctx, func() { _ = events.Close() })
	defer stop()
	var last Status
	for buf := make([]byte, 4<<10); ; {
		now, err := ReadStatus(stateDir)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("watch the uplink: %w", err)
		}
		if err == nil && now != last && ctx.Err() == nil {
			f(now)
			last = now
		}
		// Which file it was does not matter: hardly any other is replaced there.
		if _, err := events.Read(buf); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch the uplink: %w", err)
		}
	}
}
