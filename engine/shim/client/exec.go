package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"moss/engine/fault"
	"moss/engine/shim/proto"
	"moss/engine/task"
)

// Process speaks to a task's shim about one added process.
type Process struct {
	task *Task
	id   string

	mu    sync.Mutex    // guards the fields below
	ended *proto.Record // once known; it does not change any more
	gone  bool          // Delete is done
}

var _ task.Process = (*Process)(nil)

// Exec makes one more process ready: see task.Group.
func (t *Task) Exec(ctx context.Context, spec task.ExecSpec) (task.Process, error) {
	if err := proto.CheckExecID(spec.ID); err != nil {
		return nil, err
	}
	if t.knownRecord() != nil {
		return nil, t.notRunning()
	}
	p := &Process{task: t, id: spec.ID}
	err := p.writeFolder(spec.Process)
	if fault.Is(err, fault.Conflict) && proto.IsMissing(t.dir) && t.shim.restoreFolder(ctx) {
		err = p.writeFolder(spec.Process)
	}
	if err != nil {
		return nil, fmt.Errorf("add %s to task %s: %w", p.name(), t.id, err)
	}
	err = t.callLiving(ctx, proto.Request{
		Op: proto.OpExec, Exec: spec.ID, Terminal: spec.Terminal, OpenStdin: spec.OpenStdin, Width: spec.Width, Height: spec.Height,
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir())) // the monitor and the engine alone write there
	}
	return p, nil
}

// AdoptExec finds a process that an earlier engine has added: see task.Group.
func (t *Task) AdoptExec(ctx context.Context, id string) (task.Process, error) {
	if err := proto.CheckExecID(id); err != nil {
		return nil, fault.NotFound("%s", err)
	}
	p := &Process{task: t, id: id}
	if _, err := p.queryRecord(ctx, proto.Request{Op: proto.OpStatus}); err != nil {
		return nil, fmt.Errorf("adopt %s of task %s: %w", p.name(), t.id, err)
	}
	return p, nil
}

// writeFolder makes the process's folder. fault.Conflict if there is one, or if the task's has gone.
func (p *Process) writeFolder(process json.RawMessage) error {
	dir := p.dir()
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) { // the first one of this task
		if err = os.Mkdir(filepath.Dir(dir), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = os.Mkdir(dir, 0o700)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // the task has ended and was deleted
		return p.task.notRunning()
	case errors.Is(err, fs.ErrExist):
		return fault.Conflict("there is one already")
	case err != nil:
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, proto.ProcessFile), process, 0o600); err != nil {
		return errors.Join(err, os.RemoveAll(dir)) // made here
	}
	return nil
}

// Attach joins the streams: see task.Process.
func (p *Process) Attach(ctx context.Context, req task.Attach) (task.Streams, task.Mark, error) {
	return p.task.attachStreams(ctx, proto.Request{Op: proto.OpAttach, Exec: p.id, Attach: &req}, p)
}

// Start runs the process: see task.Process.
func (p *Process) Start(ctx context.Context) (int, error) {
	rec, err := p.task.shim.callShim(ctx, proto.Request{Op: proto.OpStart, Exec: p.id})
	if err != nil {
		if isGone(err) || fault.Is(err, fault.NotFound) && p.isDeleted() {
			err = p.notRunning()
		}
		return 0, err
	}
	return rec.Pid, nil
}

// Signal sends a signal to the process: see task.Process.
func (p *Process) Signal(ctx context.Context, signal int) error {
	return p.callLiving(ctx, proto.Request{Op: proto.OpSignal, Signal: signal})
}

// Resize sets the size of the pty: see task.Process.
func (p *Process) Resize(ctx context.Context, width, height uint16) error {
	return p.callLiving(ctx, proto.Request{Op: proto.OpResize, Width: width, Height: height})
}

// Wait blocks until the process has ended: see task.Process. It may be called before Start, and after the end.
func (p *Process) Wait(ctx context.Context) (task.Exit, error) {
	rec, err := p.queryRecord(ctx, proto.Request{Op: proto.OpWait})
	if err != nil {
		return task.Exit{}, fmt.Errorf("wait for %s: %w", p.name(), err)
	}
	if rec.Exit == nil {
		return task.Exit{}, fault.Internal("wait for %s: the shim sent no exit", p.name())
	}
	return task.Exit(*rec.Exit), nil
}

// Status does not block on the process: see task.Process.
func (p *Process) Status(ctx context.Context) (task.Status, error) {
	rec, err := p.queryRecord(ctx, proto.Request{Op: proto.OpStatus})
	if err != nil {
		return task.Status{}, fmt.Errorf("status of %s: %w", p.name(), err)
	}
	return rec.Status(), nil
}

// Delete removes what is left of the process: see task.Process. fault.Conflict while it runs.
func (p *Process) Delete(ctx context.Context) error {
	if p.isDeleted() {
		return nil
	}
	_, err := p.task.shim.callShim(ctx, proto.Request{Op: proto.OpDelete, Exec: p.id})
	switch {
	case err == nil:
	case isGone(err): // with it all its processes are
		err = os.RemoveAll(p.dir()) // the monitor and the engine alone write there
	case fault.Is(err, fault.NotFound): // by another
		err = nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", p.name(), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
	return nil
}

// callLiving makes a call that only a living process can serve.
func (p *Process) callLiving(ctx context.Context, req proto.Request) error {
	req.Exec = p.id
	_, err := p.task.shim.callShim(ctx, req)
	if err != nil && (isGone(err) || fault.Is(err, fault.NotFound)) {
		err = p.notRunning()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", req.Op, p.name(), err)
	}
	return nil
}

// queryRecord makes a call that the record answers when the shim has ended.
func (p *Process) queryRecord(ctx context.Context, req proto.Request) (proto.Record, error) {
	p.mu.Lock()
	known := p.ended
	p.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	req.Exec = p.id
	rec, err := p.task.shim.callShim(ctx, req)
	if err != nil && isGone(err) {
		rec, err = p.lookUp(ctx)
	}
	if err == nil && rec.Exit != nil {
		p.mu.Lock()
		p.ended = &rec
		p.mu.Unlock()
	}
	return rec, err
}

// lookUp finds the end of a process whose shim has ended: in its own record, or in that of a container whose shim was
// killed and so could write none for others.
func (p *Process) lookUp(ctx context.Context) (proto.Record, error) {
	rec, err := proto.ReadRecord(p.dir())
	if err == nil || !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
		return rec, err
	}
	if _, serr := os.Stat(p.dir()); serr != nil {
		return rec, fault.NotFound("no process %s", p.id)
	}
	rec, err = p.task.queryRecord(ctx, proto.Request{Op: proto.OpStatus})
	if err != nil {
		return rec, err
	}
	if rec.Exit == nil {
		return rec, fault.Internal("no record of process %s", p.id)
	}
	const killed = 137
	return proto.Record{Exit: &proto.Exit{Code: killed, At: rec.Exit.At, Error: rec.Exit.Error}}, nil
}

func (p *Process) isDeleted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

func (p *Process) dir() string { return proto.ExecDir(p.task.dir, p.id) }

func (p *Process) name() string { return "process " + p.id }

func (p *Process) notRunning() error { return fault.Conflict("%s is not running", p.name()) }
