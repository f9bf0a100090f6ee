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

func (c *container) isPaused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paused
}

func (c *container) setPaused(paused bool, stopped []stopped) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused, c.stopped = paused, stopped
}

// pauseAll freezes all processes, and no other is added until resumeAll.
func (c *container) pauseAll(ctx context.Context) error {
	c.children.Lock() // nothing is being started
	defer c.children.Unlock()
	if !c.first.inState(running) {
		return c.first.notRunning()
	}
	if c.isPaused() {
		return nil
	}
	ctx, cancel := c.callContext(ctx)
	defer cancel()
	var stopped []stopped
	var err error
	if hasFreezer(c.dir) {
		if err = c.runtime.Pause(ctx, c.id); err == nil {
			err = c.awaitFrozen(ctx)
		}
		if err != nil {
			_ = c.runtime.Resume(context.WithoutCancel(ctx), c.id) // it may have begun to freeze
		}
	} else {
		stopped, err = c.stopAll(ctx)
	}
	if err != nil {
		return c.unlessEnded(err)
	}
	c.setPaused(true, stopped)
	return nil
}

// unlessEnded returns what went wrong with a container, unless it has ended meanwhile, which is the reason then.
func (c *container) unlessEnded(err error) error {
	if err != nil && !c.first.inState(running) {
		return c.first.notRunning()
	}
	return err
}

// awaitFrozen waits until the kernel has frozen the container: crun 1.8 only asks it to.
func (c *container) awaitFrozen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	for !isFrozen(cgroupPath(c.dir)) {
		select {
		case <-time.After(stopPeriod):
		case <-ctx.Done():
			return fmt.Errorf("freeze %s: %w", c.first.name, ctx.Err())
		}
	}
	return nil
}

// resumeAll undoes pauseAll.
func (c *container) resumeAll(ctx context.Context) error {
	c.children.Lock()
	defer c.children.Unlock()
	if !c.first.inState(running) {
		return c.first.notRunning()
	}
	c.mu.Lock()
	paused, stopped := c.paused, c.stopped
	c.mu.Unlock()
	if !paused {
		return nil
	}
	ctx, cancel := c.callContext(ctx)
	defer cancel()
	if hasFreezer(c.dir) {
		if err := c.runtime.Resume(ctx, c.id); err != nil {
			return c.unlessEnded(err)
		}
	}
	letGo(stopped)
	c.setPaused(false, nil)
	return nil
}

// stopped is a process that pauseAll has stopped. One that was stopped before stays so afterwards.
type stopped struct {
	pid   int
	start uint64 // as in stat
}

// stopAll sends SIGSTOP to every process of the container until none of them runs any more. A process may fork while it
// is looked for: only two looks in a row that find nothing running are the end.
func (c *container) stopAll(ctx context.Context) (all []stopped, err error) {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	seen := map[stopped]bool{}
	for calm := 0; calm < 2; {
		calm++
		for _, pid := range c.family.lookAtFamily() {
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
			return nil, fmt.Errorf("stop the processes of %s: %w", c.first.name, ctx.Err())
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
func (c *container) updateLimits(ctx context.Context, resources []byte) error {
	c.children.Lock() // one after the other: they share a file
	defer c.children.Unlock()
	if !c.first.inState(running) {
		return c.first.notRunning()
	}
	if cgroupPath(c.dir) == "" {
		return fault.Unsupported("%s has no cgroup", c.first.name)
	}
	ctx, cancel := c.callContext(ctx)
	defer cancel()
	file := filepath.Join(c.dir, proto.ResourcesFile)
	if err := os.WriteFile(file, resources, 0o600); err != nil {
		return fmt.Errorf("write resources: %w", err)
	}
	defer os.Remove(file) //nolint:errcheck // the engine removes what is left with the task
	return c.unlessEnded(c.runtime.Update(ctx, c.id, file))
}
