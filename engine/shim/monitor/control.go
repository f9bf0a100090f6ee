package monitor

import (
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// signal sends a signal to the first process. It cannot hit another process that got its number: the number stays taken
// until reap collects it, which holds the same lock.
func (m *monitor) signal(sig int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.signalLocked(sig)
}

func (m *monitor) signalLocked(sig int) error {
	if m.state != running {
		return fault.Conflict("task %s is not running", m.spec.ID)
	}
	switch err := unix.Kill(m.pid, unix.Signal(sig)); err {
	case nil:
		return nil
	case unix.ESRCH:
		return fault.Conflict("task %s is not running", m.spec.ID)
	case unix.EINVAL:
		return fault.Invalid("signal %d is none", sig)
	default:
		return err
	}
}

// resize sets the size of the pty; before the start it is kept for it.
func (m *monitor) resize(width, height uint16) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.spec.Terminal:
		return fault.Conflict("task %s has no terminal", m.spec.ID)
	case m.state == ended || m.state == deleted:
		return fault.Conflict("task %s is not running", m.spec.ID)
	}
	m.width, m.height = width, height
	if m.tty == nil {
		return nil
	}
	return m.tty.resize(width, height)
}
