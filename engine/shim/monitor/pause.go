package monitor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/pidfd"
	"moss/engine/shim/proto"
)

const (
	stopLimit  = 10 * time.Second     // a container whose processes have not all stopped by then is let go again
	stopPeriod = 1 * time.Millisecond // between two looks at them
)

func (m *monitor) isPaused() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.paused
}

func (m *monitor) setPaused(paused bool, stopped []stopped) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused, m.stopped = paused, stopped
}

// pauseContainer freezes all processes, and no other is added until resumeContainer.
func (m *monitor) pauseContainer(ctx context.Context) error {
	m.children.Lock() // nothing is being started
	defer m.children.Unlock()
	if !m.first.inState(running) {
		return m.first.notRunning()
	}
	if m.isPaused() {
		return nil
	}
	ctx, cancel := m.callContext(ctx)
	defer cancel()
	var stopped []stopped
	var err error
	if hasFreezer(m.dir) {
		if err = m.runtime.Pause(ctx, m.spec.ID); err == nil {
			err = m.awaitFrozen(ctx)
		}
		if err != nil {
			_ = m.runtime.Resume(context.WithoutCancel(ctx), m.spec.ID) // it may have begun to freeze
		}
	} else {
		stopped, err = m.stopAll(ctx)
	}
	if err != nil {
		return m.unlessEnded(err)
	}
	m.setPaused(true, stopped)
	return nil
}

// unlessEnded returns what went wrong with a container, unless it has ended meanwhile, which is the reason then.
func (m *monitor) unlessEnded(err error) error {
	if err != nil && !m.first.inState(running) {
		return m.first.notRunning()
	}
	return err
}

// awaitFrozen waits until the kernel has frozen the container: crun 1.8 only asks it to.
func (m *monitor) awaitFrozen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	for !isFrozen(cgroupPath(m.dir)) {
		select {
		case <-time.After(stopPeriod):
		case <-ctx.Done():
			return fmt.Errorf("freeze %s: %w", m.first.name, ctx.Err())
		}
	}
	return nil
}

// resumeContainer undoes pauseContainer.
func (m *monitor) resumeContainer(ctx context.Context) error {
	m.children.Lock()
	defer m.children.Unlock()
	if !m.first.inState(running) {
		return m.first.notRunning()
	}
	m.mu.Lock()
	paused, stopped := m.paused, m.stopped
	m.mu.Unlock()
	if !paused {
		return nil
	}
	ctx, cancel := m.callContext(ctx)
	defer cancel()
	if hasFreezer(m.dir) {
		if err := m.runtime.Resume(ctx, m.spec.ID); err != nil {
			return m.unlessEnded(err)
		}
	}
	letGo(stopped)
	m.setPaused(false, nil)
	return nil
}

// stopped is a process that pauseContainer has stopped. One that was stopped before stays so afterwards.
type stopped struct {
	pid   int
	start uint64 // as in stat
}

// stopAll sends SIGSTOP to every process of the container until none of them runs any more. A process may fork while it
// is looked for: only two looks in a row that find nothing running are the end.
func (m *monitor) stopAll(ctx context.Context) (all []stopped, err error) {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	seen := map[stopped]bool{}
	for calm := 0; calm < 2; {
		calm++
		for _, pid := range m.lookAtFamily() {
			st, ok := pidfd.ReadStat(pid)
			if !ok || st.Dead() || st.Still() {
				continue
			}
			one := stopped{pid, st.Start}
			if st.Runs() || !seen[one] {
				calm = 0
			}
			if !seen[one] {
				seen[one] = true
				all = append(all, one)
			}
			_ = unix.Kill(pid, unix.SIGSTOP) // it may have ended just now
		}
		if calm > 0 {
			continue
		}
		select {
		case <-time.After(stopPeriod):
		case <-ctx.Done():
			letGo(all)
			return nil, fmt.Errorf("stop the processes of %s: %w", m.first.name, ctx.Err())
		}
	}
	return all, nil
}

// letGo continues processes that are still the ones that were stopped. The last one that was found may be the parent of
// those before it: order does not matter.
func letGo(all []stopped) {
	for _, one := range all {
		if st, ok := pidfd.ReadStat(one.pid); ok && st.Start == one.start {
			_ = unix.Kill(one.pid, unix.SIGCONT)
		}
	}
}

// updateLimits changes the limits of the container's cgroup.
func (m *monitor) updateLimits(ctx context.Context, resources []byte) error {
	m.children.Lock() // one after the other: they share a file
	defer m.children.Unlock()
	if !m.first.inState(running) {
		return m.first.notRunning()
	}
	if cgroupPath(m.dir) == "" {
		return fault.Unsupported("%s has no cgroup", m.first.name)
	}
	ctx, cancel := m.callContext(ctx)
	defer cancel()
	file := filepath.Join(m.dir, proto.ResourcesFile)
	if err := os.WriteFile(file, resources, 0o600); err != nil {
		return fmt.Errorf("write resources: %w", err)
	}
	defer os.Remove(file) //nolint:errcheck // the engine removes what is left with the task
	return m.unlessEnded(m.runtime.Update(ctx, m.spec.ID, file))
}
