package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"moss/engine/fault"
	"moss/engine/shim/proto"
	"moss/engine/task"
)

// Task speaks to one shim.
type Task struct {
	runner *Runner
	id     string
	dir    string
	shim   *transport

	recovering chan struct{} // held during the look-up of the record of a shim that has ended, which may have to write it

	mu    sync.Mutex    // guards the fields below
	hold  io.Closer     // keeps the shim alive until the start
	proc  *process      // nil for an adopted shim
	ended *proto.Record // once known; it does not change any more
	gone  bool          // Delete is done
}

// Attach joins the streams: see task.Process.
func (t *Task) Attach(ctx context.Context, req task.Attach) (task.Streams, task.Mark, error) {
	return t.attachStreams(ctx, proto.Request{Op: proto.OpAttach, Attach: &req}, t)
}

// named is a process for error texts.
type named interface {
	name() string
	notRunning() error
}

func (t *Task) attachStreams(ctx context.Context, req proto.Request, who named) (task.Streams, task.Mark, error) {
	view, reply, err := t.shim.openView(ctx, req)
	if err != nil {
		t.shim.noteSilence(err)
		if isGone(err) || fault.Is(err, fault.NotFound) {
			err = who.notRunning()
		}
		return nil, task.Mark{}, fmt.Errorf("attach to %s: %w", who.name(), err)
	}
	var mark task.Mark
	if reply.Mark != nil {
		mark = *reply.Mark
	}
	return view, mark, nil
}

// Start runs the container's process: see task.Process.
func (t *Task) Start(ctx context.Context) (int, error) {
	rec, err := t.shim.callShim(ctx, proto.Request{Op: proto.OpStart})
	if err != nil {
		if isGone(err) {
			err = t.notRunning()
		}
		return 0, err
	}
	t.letGo()
	return rec.Pid, nil
}

// Signal sends a signal to the first process: see task.Process. The shim is asked first, since it knows of freezers and of
// an end that this engine has not seen; where it does not answer, the signal goes to the process itself.
func (t *Task) Signal(ctx context.Context, signal int) error {
	err := t.callLiving(ctx, proto.Request{Op: proto.OpSignal, Signal: signal})
	if errors.Is(err, task.ErrSilent) && ctx.Err() == nil {
		if err = t.signalDirectly(ctx, signal); err != nil {
			err = fmt.Errorf("signal task %s: %w", t.id, err)
		}
	}
	return err
}

// Resize sets the size of the pty: see task.Process.
func (t *Task) Resize(ctx context.Context, width, height uint16) error {
	return t.callLiving(ctx, proto.Request{Op: proto.OpResize, Width: width, Height: height})
}

// Wait blocks until the task has ended: see task.Process. It may be called before Start, and after the end.
func (t *Task) Wait(ctx context.Context) (task.Exit, error) {
	rec, err := t.queryRecord(ctx, proto.Request{Op: proto.OpWait})
	if err != nil {
		return task.Exit{}, fmt.Errorf("wait for task %s: %w", t.id, err)
	}
	if rec.Exit == nil {
		return task.Exit{}, fault.Internal("wait for task %s: the shim sent no exit", t.id)
	}
	return task.Exit(*rec.Exit), nil
}

// Status does not block on the process: see task.Process.
func (t *Task) Status(ctx context.Context) (task.Status, error) {
	rec, err := t.queryRecord(ctx, proto.Request{Op: proto.OpStatus})
	if err != nil {
		return task.Status{}, fmt.Errorf("status of task %s: %w", t.id, err)
	}
	return rec.Status(), nil
}

// Delete removes what is left of the task: see task.Process. fault.Conflict while it runs. The shim of an ended task whose
// viewers have not yet taken all output goes on until they have, or hang up; it holds none of the task's files.
func (t *Task) Delete(ctx context.Context) error {
	t.mu.Lock()
	gone, proc := t.gone, t.proc
	t.mu.Unlock()
	if gone {
		return nil
	}
	_, err := t.shim.callShim(ctx, proto.Request{Op: proto.OpDelete})
	switch {
	case err == nil:
		t.letGo()
		if proc != nil && t.knownRecord() == nil {
			if _, rerr := proto.ReadRecord(t.dir); fault.Is(rerr, fault.NotFound) { // never started: it has no viewers to wait for
				err = t.awaitExit(ctx, proc.exited)
			}
		}
	case isGone(err):
		_, err = t.lookUp(ctx, err) // ends the container of a killed shim
		if fault.Is(err, fault.NotFound) {
			err = nil
		}
	}
	if err == nil {
		err = removeShimFiles(t.dir)
	}
	if err != nil {
		return fmt.Errorf("delete task %s: %w", t.id, err)
	}
	t.letGo()
	t.mu.Lock()
	t.gone = true
	t.mu.Unlock()
	return nil
}

// awaitExit waits for the end of a shim that has nothing left to do.
func (t *Task) awaitExit(ctx context.Context, exited <-chan struct{}) error {
	limit := t.runner.limits.answer
	ctx, cancel := context.WithTimeoutCause(ctx, limit, silenceError(limit))
	defer cancel()
	select {
	case <-exited:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// callLiving makes a call that only a living task can serve.
func (t *Task) callLiving(ctx context.Context, req proto.Request) error {
	_, err := t.shim.callShim(ctx, req)
	if err != nil && isGone(err) {
		err = t.notRunning()
	}
	if err != nil {
		return fmt.Errorf("%s task %s: %w", req.Op, t.id, err)
	}
	return nil
}

// queryRecord makes a call that the record answers when the shim has ended.
func (t *Task) queryRecord(ctx context.Context, req proto.Request) (proto.Record, error) {
	return t.queryRecordBy(ctx, t.shim.askBounded, req)
}

// queryRecordBy is queryRecord by one way of asking.
func (t *Task) queryRecordBy(
	ctx context.Context, ask func(context.Context, proto.Request) (proto.Reply, error), req proto.Request,
) (proto.Record, error) {
	if rec := t.knownRecord(); rec != nil {
		return *rec, nil
	}
	rec, err := recordOf(ask(ctx, req))
	if err != nil && isGone(err) {
		rec, err = t.lookUp(ctx, err)
	}
	if err == nil && rec.Exit != nil {
		t.mu.Lock()
		t.ended = &rec
		t.mu.Unlock()
	}
	return rec, err
}

// lookUp reads the record of a shim that does not answer; called is how a call of it ended. The record is written before the shim
// stops listening.
func (t *Task) lookUp(ctx context.Context, called error) (proto.Record, error) {
	t.mu.Lock()
	gone := t.gone
	t.mu.Unlock()
	if gone {
		return proto.Record{}, fault.NotFound("task %s was deleted", t.id)
	}
	select {
	case t.recovering <- struct{}{}:
	case <-ctx.Done():
		return proto.Record{}, ctx.Err()
	}
	defer func() { <-t.recovering }()
	return t.runner.recoverRecord(ctx, t.dir, called)
}

// holdOn keeps the shim of a task that was never started from following the engine that prepared it.
func (t *Task) holdOn(ctx context.Context) error {
	view, _, err := t.shim.openView(ctx, proto.Request{Op: proto.OpHold})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hold = view
	return nil
}

// letGo closes the connection that kept the shim alive.
func (t *Task) letGo() {
	t.mu.Lock()
	hold := t.hold
	t.hold = nil
	t.mu.Unlock()
	if hold != nil {
		_ = hold.Close()
	}
}

func (t *Task) knownRecord() *proto.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

func (t *Task) name() string { return "task " + t.id }

func (t *Task) notRunning() error { return fault.Conflict("%s is not running", t.name()) }
