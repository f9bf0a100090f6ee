package monitor

import (
	"errors"
	"os"
	"runtime/debug"
	"time"

	"moss/engine/fault"
	"moss/engine/shim/proto"
)

// trimAfter is how long after the end of the last added process memory is given back.
const trimAfter = time.Second

// noExec is what a request gets that names no added process; the engine's words for it are its own.
func noExec(id string) error { return fault.NotFound("no process %s", id) }

// addExec makes an added process known. Its folder with ProcessFile is there already.
func (m *monitor) addExec(req proto.Request) error {
	if err := proto.CheckExecID(req.Exec); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.first.inState(running): // asked under the lock: endExecs will see what is added before the end
		return m.first.notRunning()
	case m.execs[req.Exec] != nil:
		return fault.Conflict("%s has a process %s", m.first.name, req.Exec)
	}
	m.execs[req.Exec] = newProcess(&process{
		m: m, id: req.Exec, name: "process " + req.Exec, dir: proto.ExecDir(m.dir, req.Exec),
		terminal: req.Terminal, openStdin: req.OpenStdin, stdinOnce: true,
		hub: newHub(nil, !req.Terminal), width: req.Width, height: req.Height,
	})
	return nil
}

// findProcess returns the process that a request is about.
func (m *monitor) findProcess(id string) (*process, error) {
	if id == "" {
		return m.first, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.execs[id]; p != nil {
		return p, nil
	}
	return nil, noExec(id)
}

// removeExec removes an added process and its folder. fault.Conflict while it runs.
func (m *monitor) removeExec(p *process) error {
	p.mu.Lock()
	switch p.state {
	case starting, running:
		p.mu.Unlock()
		return fault.Conflict("%s is running", p.name)
	case prepared:
		p.state = deleted
		go p.releaseWaiters()
	case ended, deleted:
	}
	p.mu.Unlock()
	<-p.over // its record comes first, and soon
	// The monitor and the engine alone write there.
	if err := os.RemoveAll(p.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.execs[p.id] == p {
		delete(m.execs, p.id)
	}
	return nil
}

// trimLater gives memory back to the system once no added process has ended for a while: a container with a health check
// would otherwise keep a heap several times as large as one without.
func (m *monitor) trimLater() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trim == nil {
		m.trim = time.AfterFunc(trimAfter, debug.FreeOSMemory)
		return
	}
	m.trim.Reset(trimAfter)
}
