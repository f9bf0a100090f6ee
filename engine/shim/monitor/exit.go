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
func (m *monitor) killedExit() proto.Exit {
	return proto.Exit{Code: codeSignal + int(unix.SIGKILL), At: time.Now().UTC(), Error: "the container has ended"}
}

// finishTask cleans up after the first process and makes its end known, after those of the added ones.
func (m *monitor) finishTask(ctx context.Context, code int, at time.Time) {
	close(m.ending)
	m.restoreForEnd()
	m.first.hub.unblockViewers()
	m.killRest()
	oom := oomKilled(m.dir)
	cleaned := make(chan struct{})
	go func() {
		defer close(cleaned)
		m.children.RLock()
		defer m.children.RUnlock()
		m.deleteContainerLocked(ctx)
	}()
	m.endExecs()
	m.first.drainOutput(nil)
	<-cleaned
	m.first.hub.close()
	m.first.recordExit(proto.Exit{Code: code, At: at, OOMKilled: oom})
}

// endExecs waits for the end of the added processes, which nothing keeps any more, and ends those that were not started.
func (m *monitor) endExecs() {
	m.mu.Lock()
	waiting := make([]*process, 0, len(m.execs))
	for _, p := range m.execs {
		p.mu.Lock()
		if p.state == prepared {
			p.state = ended
			go p.endUnstarted(m.killedExit())
		}
		p.mu.Unlock()
		waiting = append(waiting, p)
	}
	m.mu.Unlock()
	for _, p := range waiting {
		<-p.over
	}
}

func (m *monitor) deleteContainerLocked(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runtimeLimit) // cleaning up is never cancelled
	defer cancel()
	if err := m.runtime.Delete(ctx, m.spec.ID, true); err != nil {
		logError("delete container", err)
	}
}

// killRest ends processes that outlived the first one. In a pid namespace of its own the kernel has killed them all; in
// the host's they have become children of the shim, in another container's those of its first process.
func (m *monitor) killRest() {
	deadline := time.After(drainLimit)
	for m.killOutlived() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			logError("kill what outlived the first process", context.DeadlineExceeded)
			return
		}
	}
}

// killOutlived collects strangers that have ended, kills what has not, and reports whether there was any.
func (m *monitor) killOutlived() bool {
	m.children.Lock() // no call of the runtime adds a process
	defer m.children.Unlock()
	m.collectStrangersLocked()
	left := childPids()
	if !m.ownPids {
		left = append(left, m.insidePids()...)
	}
	for _, pid := range left {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return len(left) > 0
}
