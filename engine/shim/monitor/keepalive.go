package monitor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// graceAfterEngine is how long a container may take to end by its stop signal when the engine's outer process has gone;
// its network has gone as well.
const graceAfterEngine = 2 * time.Second

const outerGone = "the engine's outer process ended"

// openKeepalive opens the FIFO whose writer is the engine's outer process; nil for an empty path. A FIFO without a
// writer is fault.Unavailable.
func openKeepalive(path string) (*os.File, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // a task that lives on has no keepalive
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open keepalive %s: %w", path, err)
	}
	var b [1]byte
	if n, err := unix.Read(fd, b[:]); n == 0 && err == nil {
		_ = unix.Close(fd)
		return nil, fault.Unavailable("%s", outerGone)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// watchKeepalive ends the task when the last writer has gone.
func (m *monitor) watchKeepalive(ctx context.Context, f *os.File) {
	drainFile(f)
	select {
	case <-m.first.over: // the shim itself closed it
		return
	default:
	}
	if err := m.giveUp(false); err == nil {
		return
	}
	select {
	case <-m.first.started:
	case <-m.first.over:
		return
	}
	if m.container.isPaused() {
		if err := m.container.resumeAll(ctx); err != nil { // it could not even see the signal
			logError("resume", err)
		}
	}
	if !m.first.endFor(outerGone, m.spec.StopSignal) {
		return
	}
	select {
	case <-time.After(graceAfterEngine):
	case <-m.first.over:
		return
	}
	if err := m.first.signal(int(unix.SIGKILL)); err != nil && !errors.Is(err, unix.ESRCH) && !fault.Is(err, fault.Conflict) {
		logError("kill", err)
	}
}

// endFor sends the stop signal and records the reason. It reports whether there was a process to end.
func (p *process) endFor(reason string, sig int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sig <= 0 {
		sig = int(unix.SIGTERM)
	}
	if err := p.signalLocked(sig); fault.Is(err, fault.Conflict) {
		return false
	}
	p.reason = reason
	return true
}
