package monitor

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/shim/proto"
)

// Exit codes of a task whose process was never executed, as every client knows them.
const (
	codeRefused = 126 // not executable
	codeMissing = 127 // no such command
	codeRuntime = 128 // the runtime could not start it
	codeSignal  = 128 // plus the signal that ended it
)

// finish cleans up after the first process and makes its end known.
func (m *monitor) finish(ctx context.Context, code int, at time.Time) {
	m.hub.end()
	m.killRest()
	oom := oomKilled(m.dir)
	cleaned := make(chan struct{})
	go func() {
		defer close(cleaned)
		m.children.Lock()
		defer m.children.Unlock()
		m.deleteContainerLocked(ctx)
	}()
	m.drain()
	<-cleaned
	m.hub.close()
	m.mu.Lock()
	m.record.Exit = &proto.Exit{Code: code, At: at, OOMKilled: oom, Error: m.reason}
	m.mu.Unlock()
	m.settle()
}

// neverStarted makes the failure of a start known.
func (m *monitor) neverStarted(err error) {
	code := codeRuntime
	switch {
	case fault.Is(err, fault.NotFound):
		code = codeMissing
	case fault.Is(err, fault.Forbidden):
		code = codeRefused
	}
	m.mu.Lock()
	m.state = ended
	m.record = proto.Record{Exit: &proto.Exit{Code: code, At: time.Now().UTC(), Error: err.Error()}}
	m.mu.Unlock()
	m.hub.end()
	m.hub.close()
	dropCgroup(m.dir)
	m.settle()
}

// settle writes the record and lets everybody know.
func (m *monitor) settle() {
	if err := proto.WriteRecord(m.dir, m.status()); err != nil {
		report("write record", err)
	}
	m.finishOver()
}

// drain lets the outputs end. A process that outlived the first one may hold them for a limited time only.
func (m *monitor) drain() {
	m.mu.Lock()
	if m.tty != nil {
		m.tty.release()
	}
	m.mu.Unlock()
	drained := make(chan struct{})
	go func() {
		m.pumping.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		return
	case <-time.After(drainLimit):
	}
	for _, src := range m.pumps {
		src.stop()
	}
	<-drained
}

func (m *monitor) deleteContainerLocked(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runtimeLimit) // cleaning up is never cancelled
	defer cancel()
	if err := m.runtime.Delete(ctx, m.spec.ID, true); err != nil {
		report("delete container", err)
	}
}

// killRest ends processes that outlived the first one. In a pid namespace of its own the kernel has killed them all; in
// the host's they have become children of the shim.
func (m *monitor) killRest() {
	deadline := time.After(drainLimit)
	for m.killChildren() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			report("kill what outlived the first process", context.DeadlineExceeded)
			return
		}
	}
}

// killChildren reaps what has ended, kills what has not, and reports whether there was any.
func (m *monitor) killChildren() bool {
	m.children.Lock()
	defer m.children.Unlock()
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == unix.EINTR || pid > 0 {
			continue
		}
		if err != nil { // ECHILD: there is none
			return false
		}
		break
	}
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return false
	}
	for _, file := range files {
		data, _ := os.ReadFile(file) // a thread that has ended has none
		for field := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
	return true
}
