package monitor

import (
	"errors"
	"os"

	"moss/engine/fault"
	"moss/engine/shim/proto"
)

// noExec is what a request gets that names no added process; the engine's words for it are its own.
func noExec(id string) error { return fault.NotFound("no process %s", id) }

// addExec makes an added process known. Its folder with ProcessFile is there already.
func (m *monitor) addExec(req proto.Request) error {
	if err := proto.CheckExecID(req.Exec); err != nil {
		return err
	}
	return m.execs.addProcess(newProcess(&process{
		m: m, id: req.Exec, name: "process " + req.Exec, dir: proto.ExecDir(m.dir, req.Exec),
		terminal: req.Terminal, openStdin: req.OpenStdin, stdinOnce: true,
		hub: newHub(!req.Terminal), width: req.Width, height: req.Height,
	}))
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
	m.execs.removeProcess(p)
	return nil
}
