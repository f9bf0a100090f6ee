package monitor

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/shim/proto"
)

// Exit codes of a process that was never executed, as every client knows them.
const (
	codeRefused = 126 // not executable
	codeMissing = 127 // no such command
	codeRuntime = 128 // the runtime could not start it
	codeSignal  = 128 // plus the signal that ended it
)

// killedExit is the exit of an added process that the container's end came before.
func killedExit() proto.Exit {
	return proto.Exit{Code: codeSignal + int(unix.SIGKILL), At: time.Now().UTC(), Error: "the container has ended"}
}

// finishTask cleans up after the first process and makes its end known, after those of the added ones.
func (m *monitor) finishTask(ctx context.Context, code int, at time.Time) {
	close(m.container.ending)
	m.folder.restoreForEnd()
	m.first.hub.unblockViewers()
	m.reaper.killRest()
	oom := oomKilled(m.dir)
	cleaned := make(chan struct{})
	go func() {
		defer close(cleaned)
		m.container.children.RLock()
		defer m.container.children.RUnlock()
		m.container.deleteLocked(ctx)
	}()
	m.endExecs()
	m.first.drainOutput(nil)
	<-cleaned
	m.first.hub.close()
	m.first.recordExit(proto.Exit{Code: code, At: at, OOMKilled: oom, DroppedLines: m.first.hub.droppedLines()})
}

// endExecs waits for the end of the added processes, which nothing keeps any more, and ends those that were not started.
func (m *monitor) endExecs() {
	waiting := m.execs.listProcesses()
	for _, p := range waiting {
		p.mu.Lock()
		if p.state == prepared {
			p.state = ended
			go p.endUnstarted(killedExit())
		}
		p.mu.Unlock()
	}
	for _, p := range waiting {
		<-p.over
	}
}

// killRest ends processes that outlived the first one. In a pid namespace of its own the kernel has killed them all; in
// the host's they have become children of the shim, in another container's those of its first process.
func (r *reaper) killRest() {
	deadline := time.After(drainLimit)
	for r.killOutlived() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			logError("kill what outlived the first process", context.DeadlineExceeded)
			return
		}
	}
}

// killOutlived collects strangers that have ended, kills what has not, and reports whether there was any.
func (r *reaper) killOutlived() bool {
	r.container.children.Lock() // no call of the runtime adds a process
	defer r.container.children.Unlock()
	r.collectStrangersLocked()
	left := childPids()
	if !r.container.family.ownPids {
		left = append(left, r.container.family.insidePids()...)
	}
	for _, pid := range left {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return len(left) > 0
}
