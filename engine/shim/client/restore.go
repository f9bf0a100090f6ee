package client

import (
	"context"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"moss/engine/shim/proto"
)

const (
	restorePatience = 2 * time.Second
	restorePoll     = 2 * time.Millisecond
)

// setWaitConn notes the connection on which the end of the task is waited for. Only that of was is replaced; nil is any.
func (t *transport) setWaitConn(was, now *net.UnixConn) {
	t.mu.Lock()
	replaced := was == nil || t.wait == was
	if replaced {
		t.wait = now
	}
	t.mu.Unlock()
	if replaced {
		t.runner.noteWaiting(t, now != nil)
	}
}

// noteWaiting keeps the tasks whose end is waited for.
func (r *Runner) noteWaiting(t *transport, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waits {
		r.waiting[t] = struct{}{}
	} else {
		delete(r.waiting, t)
	}
}

// Restore has the shims of all running tasks write their folders again that are gone, all at once, so that the next engine
// finds them. It returns after restorePatience at the latest.
func (r *Runner) Restore(ctx context.Context) {
	r.mu.Lock()
	tasks := slices.Collect(maps.Keys(r.waiting))
	r.mu.Unlock()
	var all sync.WaitGroup
	for _, t := range tasks {
		if proto.IsMissing(filepath.Join(t.dir, proto.SocketFile)) {
			all.Go(func() { t.restoreFolder(ctx) })
		}
	}
	all.Wait()
}

func (t *transport) waitConn() *net.UnixConn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wait
}

// restoreFolder has the shim of a running task write its folder again if that is gone, as after a logout, and reports
// whether it listens there.
func (t *transport) restoreFolder(ctx context.Context) bool {
	conn := t.waitConn()
	if conn == nil || !proto.IsMissing(filepath.Join(t.dir, proto.ExitFile)) {
		return false // it has ended
	}
	if _, err := conn.Write([]byte{proto.RestoreMark}); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, restorePatience)
	defer cancel()
	tick := time.NewTicker(restorePoll)
	defer tick.Stop()
	for proto.IsMissing(filepath.Join(t.dir, proto.SocketFile)) {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if t.waitConn() != conn {
			return false // it has ended meanwhile
		}
	}
	return true
}
