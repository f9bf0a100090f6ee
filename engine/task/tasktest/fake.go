package tasktest

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"moss/engine/fault"
	"moss/engine/task"
)

// Fake is a Runner in memory. Its tasks run Script instead of a process, and ExecScript instead of added ones. They
// outlive whoever prepared them: a test plays the next engine with a second user of the same Fake. Set the fields before
// use.
type Fake struct {
	// Script plays a task's process and returns its exit code. Nil runs until a signal comes and ends with 128 + signal.
	Script func(spec task.Spec, p *Proc) int
	// ExecScript plays an added process as Script does the first one.
	ExecScript func(spec task.Spec, exec task.ExecSpec, p *Proc) int
	// PrepareErr and StartErr, if set, are asked before each Prepare and Start; an error refuses it.
	PrepareErr, StartErr func(spec task.Spec) error
	// ExecErr and ExecStartErr, if set, are asked before each Exec and each Start of an added process.
	ExecErr, ExecStartErr func(spec task.Spec, exec task.ExecSpec) error
	// GroupErr, if set, is asked before each "pause", "resume", "update" and "pids"; an error refuses it.
	GroupErr func(spec task.Spec, verb string) error
	// Lag is the time between SIGKILL and the end of a task's process.
	Lag time.Duration
	// Trace, if set, is told of every change that is asked of a task, after it was made: "prepare", "start", "signal 15", "pause",
	// "resume", "delete" and "destroy".
	Trace func(id, deed string)

	mu    sync.Mutex // guards the fields below
	tasks map[string]*FakeTask
	pid   int
}

var (
	_ task.Runner = (*Fake)(nil)
	_ task.Task   = (*FakeTask)(nil)
)

// Prepare makes a task.
func (f *Fake) Prepare(ctx context.Context, spec task.Spec) (task.Task, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.PrepareErr != nil {
		if err := f.PrepareErr(spec); err != nil {
			return nil, err
		}
	}
	t := newFakeTask(f, spec)
	f.mu.Lock()
	if f.tasks == nil {
		f.tasks = map[string]*FakeTask{}
	}
	f.tasks[spec.ID] = t
	f.mu.Unlock()
	return t, t.trace("prepare", nil)
}

// Adopt finds a task that was prepared and not deleted.
func (f *Fake) Adopt(_ context.Context, id, _ string) (task.Task, error) {
	if t := f.Task(id); t != nil {
		return t, t.silentError()
	}
	return nil, fault.NotFound("no task %s", id)
}

// Task returns a task that was prepared and not deleted; nil if there is none.
func (f *Fake) Task(id string) *FakeTask {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tasks[id]
}

// Forget loses a task as if its shim and record had vanished: it can no longer be adopted.
func (f *Fake) Forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.tasks, id)
}

func (f *Fake) nextPid() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pid++
	return 1000 + f.pid
}

// FakeTask is a task of a Fake. As a FakeProcess it is its first one.
type FakeTask struct {
	*FakeProcess
	fake *Fake
	spec task.Spec

	group   sync.Mutex // guards the fields below; taken before the mu of a process
	execs   map[string]*FakeProcess
	paused  bool
	updates []json.RawMessage
	silence chan struct{} // closed when the monitor answers again; nil while it does
	hushed  chan struct{} // closed when it no longer answers
}

func newFakeTask(f *Fake, spec task.Spec) *FakeTask {
	t := &FakeTask{fake: f, spec: spec, execs: map[string]*FakeProcess{}, hushed: make(chan struct{})}
	t.FakeProcess = newFakeProcess(&FakeProcess{
		name: "task " + spec.ID, terminal: spec.Terminal, openStdin: spec.OpenStdin, stdinOnce: spec.StdinOnce,
		script: func(p *Proc) int {
			if f.Script == nil {
				return untilSignal(p)
			}
			return f.Script(spec, p)
		},
		mayStart: func() error {
			if f.StartErr == nil {
				return nil
			}
			return f.StartErr(spec)
		},
		lag:     f.Lag,
		nextPid: f.nextPid,
		onEnd:   t.endExecs,
		onGone:  t.removeFromFake,
	})
	return t
}

// Spec returns what the task was prepared with.
func (t *FakeTask) Spec() task.Spec { return t.spec }

// Updates returns every object that Update was given so far.
func (t *FakeTask) Updates() []json.RawMessage {
	t.group.Lock()
	defer t.group.Unlock()
	return slices.Clone(t.updates)
}

// Execs returns the added processes that were not deleted, in the order of their ids.
func (t *FakeTask) Execs() []*FakeProcess {
	t.group.Lock()
	defer t.group.Unlock()
	return t.execsLocked()
}

func (t *FakeTask) execsLocked() []*FakeProcess {
	list := make([]*FakeProcess, 0, len(t.execs))
	for _, id := range slices.Sorted(maps.Keys(t.execs)) {
		list = append(list, t.execs[id])
	}
	return list
}

// Status returns what is known.
func (t *FakeTask) Status(ctx context.Context) (task.Status, error) {
	if err := t.silentError(); err != nil {
		return task.Status{}, err
	}
	s, err := t.FakeProcess.Status(ctx)
	t.group.Lock()
	defer t.group.Unlock()
	s.Paused = t.paused
	return s, err
}

// Exec adds a process.
func (t *FakeTask) Exec(ctx context.Context, spec task.ExecSpec) (task.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := t.silentError(); err != nil {
		return nil, err
	}
	if !t.isRunning() {
		return nil, t.notRunning()
	}
	if t.fake.ExecErr != nil {
		if err := t.fake.ExecErr(t.spec, spec); err != nil {
			return nil, err
		}
	}
	t.group.Lock()
	defer t.group.Unlock()
	if t.execs[spec.ID] != nil {
		return nil, fault.Conflict("task %s has a process %s", t.spec.ID, spec.ID)
	}
	p := t.newExec(spec)
	t.execs[spec.ID] = p
	return p, nil
}

func (t *FakeTask) newExec(spec task.ExecSpec) *FakeProcess {
	return newFakeProcess(&FakeProcess{
		exec: spec, name: "process " + spec.ID, terminal: spec.Terminal, openStdin: spec.OpenStdin, stdinOnce: true,
		script: func(p *Proc) int {
			if t.fake.ExecScript == nil {
				return untilSignal(p)
			}
			return t.fake.ExecScript(t.spec, spec, p)
		},
		mayBegin: func() error {
			t.group.Lock()
			defer t.group.Unlock()
			if t.paused {
				return fault.Conflict("task %s is paused", t.spec.ID)
			}
			return nil
		},
		mayStart: func() error {
			if t.fake.ExecStartErr == nil {
				return nil
			}
			return t.fake.ExecStartErr(t.spec, spec)
		},
		nextPid: t.fake.nextPid,
		onEnd:   func() {},
		onGone: func() {
			t.group.Lock()
			defer t.group.Unlock()
			delete(t.execs, spec.ID)
		},
	})
}

// AdoptExec finds a process that was added and not deleted.
func (t *FakeTask) AdoptExec(_ context.Context, id string) (task.Process, error) {
	if err := t.silentError(); err != nil {
		return nil, err
	}
	t.group.Lock()
	defer t.group.Unlock()
	if p := t.execs[id]; p != nil {
		return p, nil
	}
	return nil, fault.NotFound("task %s has no process %s", t.spec.ID, id)
}

// trace tells of a deed that had no error. It returns err.
func (t *FakeTask) trace(deed string, err error) error {
	if err == nil && t.fake.Trace != nil {
		t.fake.Trace(t.spec.ID, deed)
	}
	return err
}

// Start lets the task's process run.
func (t *FakeTask) Start(ctx context.Context) (int, error) {
	pid, err := t.FakeProcess.Start(ctx)
	return pid, t.trace("start", err)
}

// Pause notes that the task is paused. Scripts run on.
func (t *FakeTask) Pause(context.Context) error {
	return t.trace("pause", t.changeAll("pause", func() { t.paused = true }))
}

// Resume undoes Pause.
func (t *FakeTask) Resume(context.Context) error {
	return t.trace("resume", t.changeAll("resume", func() { t.paused = false }))
}

// Update keeps the object for Updates.
func (t *FakeTask) Update(_ context.Context, resources json.RawMessage) error {
	return t.changeAll("update", func() { t.updates = append(t.updates, slices.Clone(resources)) })
}

// Pids lists the pids that Start has given to what still runs.
func (t *FakeTask) Pids(ctx context.Context) ([]int, error) {
	var pids []int
	err := t.changeAll("pids", func() {
		for _, p := range append(t.execsLocked(), t.FakeProcess) {
			if s, err := p.Status(ctx); err == nil && s.Pid != 0 {
				pids = append(pids, s.Pid)
			}
		}
		slices.Sort(pids)
	})
	return pids, err
}

// changeAll does one thing to all processes of a running task.
func (t *FakeTask) changeAll(verb string, do func()) error {
	if err := t.silentError(); err != nil {
		return err
	}
	if !t.isRunning() {
		return t.notRunning()
	}
	if t.fake.GroupErr != nil {
		if err := t.fake.GroupErr(t.spec, verb); err != nil {
			return err
		}
	}
	t.group.Lock()
	defer t.group.Unlock()
	do()
	return nil
}

// endExecs ends what was added, as the end of the first process does.
func (t *FakeTask) endExecs() {
	t.group.Lock()
	t.paused = false
	execs := t.execsLocked()
	t.group.Unlock()
	for _, p := range execs {
		p.End(task.Exit{Code: 128 + int(syscall.SIGKILL)})
	}
}

// removeFromFake removes the task from its Fake.
func (t *FakeTask) removeFromFake() {
	t.fake.mu.Lock()
	defer t.fake.mu.Unlock()
	if t.fake.tasks[t.spec.ID] == t {
		delete(t.fake.tasks, t.spec.ID)
	}
}
