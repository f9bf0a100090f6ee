package tasktest

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"moss/engine/fault"
	"moss/engine/stdio"
	"moss/engine/task"
)

// Fake is a Runner in memory. Its tasks run Script instead of a process. They outlive whoever prepared them: a test plays
// the next engine with a second user of the same Fake. Set the fields before use.
type Fake struct {
	// Script plays a task's process and returns its exit code. Nil runs until a signal comes and ends with 128 + signal.
	Script func(spec task.Spec, p *Proc) int
	// PrepareErr and StartErr, if set, are asked before each Prepare and Start; an error refuses it.
	PrepareErr, StartErr func(spec task.Spec) error

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
	defer f.mu.Unlock()
	if f.tasks == nil {
		f.tasks = map[string]*FakeTask{}
	}
	f.tasks[spec.ID] = t
	return t, nil
}

// Adopt finds a task that was prepared and not deleted.
func (f *Fake) Adopt(_ context.Context, id, _ string) (task.Task, error) {
	if t := f.Task(id); t != nil {
		return t, nil
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

// Proc is what a Script sees of its task.
type Proc struct {
	Stdin   io.Reader       // at its end at once without OpenStdin
	Stdout  io.Writer       // the pty with Terminal
	Stderr  io.Writer       // the pty with Terminal
	Signals <-chan int      // what Signal sends, but SIGKILL
	Done    <-chan struct{} // closed when the task was killed; the script's code does not count any more
}

// FakeTask is a task of a Fake.
type FakeTask struct {
	fake    *Fake
	spec    task.Spec
	signals chan int
	killed  chan struct{}
	over    chan struct{} // closed with the exit
	input   *stream

	mu      sync.Mutex // guards the fields below
	status  task.Status
	begun   bool
	deleted bool
	seen    []int
	views   []*fakeView
	width   uint16
	height  uint16
}

func newFakeTask(f *Fake, spec task.Spec) *FakeTask {
	t := &FakeTask{
		fake: f, spec: spec, signals: make(chan int, 64), killed: make(chan struct{}), over: make(chan struct{}), input: newStream(),
	}
	if !spec.OpenStdin {
		t.input.close()
	}
	return t
}

// Spec returns what the task was prepared with.
func (t *FakeTask) Spec() task.Spec { return t.spec }

// Signals returns every signal that was sent so far.
func (t *FakeTask) Signals() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]int(nil), t.seen...)
}

// Size returns what Resize asked for last.
func (t *FakeTask) Size() (width, height uint16) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.width, t.height
}

// End ends a running task as given, as if its process or the kernel had. Ending it again does nothing.
func (t *FakeTask) End(exit task.Exit) { t.end(exit) }

// Attach joins the streams.
func (t *FakeTask) Attach(ctx context.Context, req task.Attach) (task.Streams, task.Mark, error) {
	if err := ctx.Err(); err != nil {
		return nil, task.Mark{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status.Exit != nil || t.deleted {
		return nil, task.Mark{}, t.notRunning()
	}
	v := &fakeView{task: t, req: req, out: newStream()}
	t.views = append(t.views, v)
	return v, task.Mark{}, nil
}

// Start runs the script.
func (t *FakeTask) Start(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	t.mu.Lock()
	if t.begun || t.deleted {
		t.mu.Unlock()
		return 0, fault.Conflict("task %s has been started before", t.spec.ID)
	}
	t.begun = true
	t.mu.Unlock()
	if t.fake.StartErr != nil {
		if err := t.fake.StartErr(t.spec); err != nil {
			t.end(task.Exit{Code: refusalCode(err), Error: err.Error()})
			return 0, err
		}
	}
	pid := t.fake.nextPid()
	t.mu.Lock()
	t.status.Pid, t.status.StartedAt = pid, time.Now()
	t.mu.Unlock()
	go t.run()
	return pid, nil
}

func refusalCode(err error) int {
	switch {
	case fault.Is(err, fault.NotFound):
		return 127
	case fault.Is(err, fault.Forbidden):
		return 126
	default:
		return 128
	}
}

func (t *FakeTask) run() {
	script := t.fake.Script
	if script == nil {
		script = untilSignal
	}
	code := script(t.spec, &Proc{
		Stdin: t.input, Stdout: fakeOutput{t, stdio.Stdout}, Stderr: fakeOutput{t, stdio.Stderr}, Signals: t.signals, Done: t.killed,
	})
	select {
	case <-t.killed:
	default:
		t.end(task.Exit{Code: code})
	}
}

func untilSignal(_ task.Spec, p *Proc) int {
	select {
	case n := <-p.Signals:
		return 128 + n
	case <-p.Done:
		return 0
	}
}

func (t *FakeTask) end(exit task.Exit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status.Exit != nil || t.deleted {
		return
	}
	if exit.At.IsZero() {
		exit.At = time.Now()
	}
	t.status.Pid, t.status.Exit = 0, &exit
	t.shutLocked()
}

// shutLocked ends everything that waits.
func (t *FakeTask) shutLocked() {
	for _, v := range t.views {
		v.out.close()
	}
	t.views = nil
	t.input.close()
	close(t.killed)
	close(t.over)
}

// Signal hands a signal to the script; SIGKILL ends the task.
func (t *FakeTask) Signal(ctx context.Context, signal int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	if t.status.Pid == 0 {
		defer t.mu.Unlock()
		return t.notRunning()
	}
	t.seen = append(t.seen, signal)
	t.mu.Unlock()
	if signal == int(syscall.SIGKILL) {
		t.end(task.Exit{Code: 128 + signal})
		return nil
	}
	select {
	case t.signals <- signal:
	default: // a script that never looks
	}
	return nil
}

// Resize keeps the size for Size.
func (t *FakeTask) Resize(_ context.Context, width, height uint16) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.spec.Terminal || t.status.Exit != nil || t.deleted {
		return fault.Conflict("task %s has no terminal", t.spec.ID)
	}
	t.width, t.height = width, height
	return nil
}

// Wait blocks until the script has returned or the task was killed.
func (t *FakeTask) Wait(ctx context.Context) (task.Exit, error) {
	select {
	case <-t.over:
	case <-ctx.Done():
		return task.Exit{}, ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status.Exit == nil {
		return task.Exit{}, fault.NotFound("task %s was deleted before it was started", t.spec.ID)
	}
	return *t.status.Exit, nil
}

// Status returns what is known.
func (t *FakeTask) Status(context.Context) (task.Status, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.status
	if s.Exit != nil {
		exit := *s.Exit
		s.Exit = &exit
	}
	return s, nil
}

// Delete forgets the task.
func (t *FakeTask) Delete(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun && t.status.Exit == nil {
		return fault.Conflict("task %s is running", t.spec.ID)
	}
	if t.deleted {
		return nil
	}
	t.deleted = true
	if t.status.Exit == nil {
		t.shutLocked()
	}
	t.fake.mu.Lock()
	defer t.fake.mu.Unlock()
	if t.fake.tasks[t.spec.ID] == t {
		delete(t.fake.tasks, t.spec.ID)
	}
	return nil
}

func (t *FakeTask) notRunning() error { return fault.Conflict("task %s is not running", t.spec.ID) }

// errClosed is what the streams of a fake return after Close.
var errClosed = errors.New("the view is closed")
