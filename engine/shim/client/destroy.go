package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/pidfd"
	"moss/engine/shim/proto"
	"moss/engine/task"
)

// Reach is Status that waits for a shim that does not answer: see task.Monitored. The request waits in the shim's socket
// and is read when the shim goes on.
func (t *Task) Reach(ctx context.Context) (task.Status, error) {
	rec, err := t.queryRecordBy(ctx, t.shim.askUnbounded, proto.Request{Op: proto.OpStatus})
	if err != nil {
		return task.Status{}, fmt.Errorf("reach the monitor of task %s: %w", t.id, err)
	}
	return rec.Status(), nil
}

// Destroy ends the task by its processes' ids: see task.Monitored.
func (t *Task) Destroy(ctx context.Context) error {
	if err := t.killProcesses(ctx); err != nil {
		return fmt.Errorf("end task %s without its monitor: %w", t.id, err)
	}
	return nil
}

func (t *Task) killProcesses(ctx context.Context) error {
	if t.knownRecord() != nil {
		return nil
	}
	alive, err := proto.ReadAlive(t.dir)
	if fault.Is(err, fault.NotFound) {
		if rec, err := proto.ReadRecord(t.dir); err == nil && rec.Exit != nil {
			return nil
		}
		return fault.Internal("its processes are not known: %w", err)
	}
	if err != nil {
		return err
	}
	// The shim stays until the process has gone: as long as there is one, its end is the shim's to tell.
	if alive.First.Pid != 0 {
		if err := alive.First.Signal(int(unix.SIGKILL)); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, t.runner.limits.end)
		defer cancel()
		if err := alive.First.Await(bounded); err != nil {
			return err
		}
	}
	if err := alive.Shim.Signal(int(unix.SIGKILL)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	// One that the kernel holds, in a write to a file system that does not answer, goes when that does. It runs no code any
	// more, so it is not waited for.
	bounded, cancel := context.WithTimeout(ctx, t.runner.limits.end/10)
	defer cancel()
	_ = alive.Shim.Await(bounded)
	t.shim.abandonCalls()
	return t.recordKilled(ctx, alive.Shim)
}

// recordKilled leaves the record of a task whose processes were ended.
func (t *Task) recordKilled(ctx context.Context, shim pidfd.ID) error {
	_, err := t.lookUp(ctx, nil)
	if err == nil || fault.Is(err, fault.NotFound) { // nothing ever ran
		return nil
	}
	const killed = 137
	return proto.WriteRecord(t.dir, proto.Record{Exit: &proto.Exit{
		Code: killed, At: time.Now().UTC(), Error: "the container's monitor did not answer and was killed: " + err.Error(),
		KilledMonitor: shim,
	}})
}

// signalDirectly is Signal without the shim.
func (t *Task) signalDirectly(ctx context.Context, signal int) error {
	if signal == int(unix.SIGKILL) {
		return t.killProcesses(ctx)
	}
	alive, err := proto.ReadAlive(t.dir)
	if err != nil {
		return err
	}
	err = alive.First.Signal(signal)
	if errors.Is(err, os.ErrProcessDone) {
		err = t.notRunning()
	}
	return err
}
