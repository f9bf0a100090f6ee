package logs_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"moss/engine/logs"
	"moss/engine/stdio"
)

// inotifies counts this process's inotify instances.
func inotifies(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range all {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.Contains(to, "inotify") {
			n++
		}
	}
	return n
}

// TestWatcherIsShared: hundreds of followers of several logs, more than a user has inotify instances, cost one.
func TestWatcherIsShared(t *testing.T) {
	before := inotifies(t)
	shared := &logs.Watcher{}
	const folders, each = 4, 40
	end := make(chan struct{})
	writers, followers := make([]*logs.Writer, 0, folders), make([]*follower, 0, folders*each)
	for i := range folders {
		path := filepath.Join(t.TempDir(), "log")
		writers = append(writers, open(t, path, logs.Options{}))
		for range each {
			followers = append(followers, follow(t.Context(), path, logs.ReadOptions{Tail: -1, End: end, Watcher: shared}))
		}
		for line := range 3 {
			text := strconv.Itoa(i) + " " + strconv.Itoa(line) + "\n"
			write(t, writers[i], stdio.Stdout, text)
			for _, f := range followers[i*each:] {
				f.expect(t, text)
			}
		}
	}
	if got := inotifies(t) - before; got != 1 {
		t.Errorf("%d followers have %d inotify instances, want 1", len(followers), got)
	}
	line := strings.Repeat("x", 999) + "\n"
	const burst = 40 // lines: more than the buffer of one at rest
	for i, w := range writers {
		write(t, w, stdio.Stdout, strings.Repeat(line, burst))
		for _, f := range followers[i*each:][:each] {
			for range burst {
				f.expect(t, line)
			}
		}
	}
	close(end)
	for _, f := range followers {
		f.expectEnd(t, nil)
	}
	if got := inotifies(t) - before; got != 0 {
		t.Errorf("%d inotify instances at the end, want none", got)
	}
}
