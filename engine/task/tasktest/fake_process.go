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

// Proc is what a Script sees of its task or added process.
type Proc struct {
	Stdin   io.Reader       // at its end at once without OpenStdin
	Stdout  io.Writer       // the pty with Terminal
	Stderr  io.Writer       // the pty with Terminal
	Signals <-chan int      // what Signal sends, but SIGKILL
	Done    <-chan struct{} // closed when the process was killed; the script's code does not count any more
}

// FakeProcess is a process of a Fake.
type FakeProcess struct {
	exec      task.ExecSpec // zero of a task's first process
	name      string        // for error texts
	terminal  bool
	openStdin bool
	stdinOnce bool
	script    func(p *Proc) int
	mayBegin  func() error  // refuses a start that may be tried again; nil refuses none
	mayStart  func() error  // refuses a start for good
	lag       time.Duration // between SIGKILL and the end
	nextPid   func() int
	onEnd     func() // called after the end without a lock
	onGone    func() // called once after Delete without a lock

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

// newFakeProcess completes what was configured.
func newFakeProcess(p *FakeProcess) *FakeProcess {
	p.signals, p.killed, p.over, p.input = make(chan int, 64), make(chan struct{}), make(chan struct{}), newStream()
	if !p.openStdin {
		p.input.close()
	}
	return p
}

// ExecSpec returns what the process was added with; nothing for a task's first one.
func (p *FakeProcess) ExecSpec() task.ExecSpec { return p.exec }

// Signals returns every signal that was sent so far.
func (p *FakeProcess) Signals() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]int(nil), p.seen...)
}

// Size returns what Resize asked for last.
func (p *FakeProcess) Size() (width, height uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.width, p.height
}

// End ends a running task as given, as if its process or the kernel had. Ending it again does nothing.
func (p *FakeProcess) End(exit task.Exit) { p.endWith(exit) }

// Attach joins the streams.
func (p *FakeProcess) Attach(ctx context.Context, req task.Attach) (task.Streams, task.Mark, error) {
	if err := ctx.Err(); err != nil {
		return nil, task.Mark{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status.Exit != nil || p.deleted {
		return nil, task.Mark{}, p.notRunning()
	}
	v := &fakeView{process: p, req: req, out: newStream()}
	p.views = append(p.views, v)
	return v, task.Mark{}, nil
}

// Start runs the script.
func (p *FakeProcess) Start(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if p.mayBegin != nil {
		if err := p.mayBegin(); err != nil {
			return 0, err
		}
	}
	p.mu.Lock()
	if p.begun || p.deleted || p.status.Exit != nil {
		p.mu.Unlock()
		return 0, fault.Conflict("%s has been started before", p.name)
	}
	p.begun = true
	p.mu.Unlock()
	if err := p.mayStart(); err != nil {
		p.endWith(task.Exit{Code: refusalCode(err), Error: err.Error()})
		return 0, err
	}
	pid := p.nextPid()
	p.mu.Lock()
	if p.status.Exit == nil {
		p.status.Pid = pid
	}
	p.status.StartedAt = time.Now()
	p.mu.Unlock()
	go p.runScript()
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

func (p *FakeProcess) runScript() {
	code := p.script(&Proc{
		Stdin: p.input, Stdout: fakeOutput{p, stdio.Stdout}, Stderr: fakeOutput{p, stdio.Stderr}, Signals: p.signals, Done: p.killed,
	})
	select {
	case <-p.killed:
	default:
		p.endWith(task.Exit{Code: code})
	}
}

func untilSignal(p *Proc) int {
	select {
	case n := <-p.Signals:
		return 128 + n
	case <-p.Done:
		return 0
	}
}

func (p *FakeProcess) endWith(exit task.Exit) {
	p.mu.Lock()
	if p.status.Exit != nil || p.deleted {
		p.mu.Unlock()
		return
	}
	if exit.At.IsZero() {
		exit.At = time.Now()
	}
	p.status.Pid, p.status.Exit = 0, &exit
	p.shutLocked()
	p.mu.Unlock()
	p.onEnd()
}

func (p *FakeProcess) isRunning() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.Pid != 0
}

// shutLocked ends everything that waits.
func (p *FakeProcess) shutLocked() {
	for _, v := range p.views {
		v.out.close()
	}
	p.views = nil
	p.input.close()
	close(p.killed)
	close(p.over)
}

// noteSignal keeps a signal for Signals.
func (p *FakeProcess) noteSignal(signal int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, signal)
}

// Signal hands a signal to the script; SIGKILL ends the task, and 0 does nothing.
func (p *FakeProcess) Signal(ctx context.Context, signal int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	if p.status.Pid == 0 {
		defer p.mu.Unlock()
		return p.notRunning()
	}
	if signal == 0 {
		p.mu.Unlock()
		return nil
	}
	p.seen = append(p.seen, signal)
	p.mu.Unlock()
	if signal == int(syscall.SIGKILL) {
		if p.lag == 0 {
			p.endWith(task.Exit{Code: 128 + signal})
			return nil
		}
		time.AfterFunc(p.lag, func() { p.endWith(task.Exit{Code: 128 + signal}) })
		return nil
	}
	select {
	case p.signals <- signal:
	default: // a script that never looks
	}
	return nil
}

// Resize keeps the size for Size.
func (p *FakeProcess) Resize(_ context.Context, width, height uint16) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal || p.status.Exit != nil || p.deleted {
		return fault.Conflict("%s has no terminal", p.name)
	}
	p.width, p.height = width, height
	return nil
}

// Wait blocks until the script has returned or the task was killed.
func (p *FakeProcess) Wait(ctx context.Context) (task.Exit, error) {
	select {
	case <-p.over:
	case <-ctx.Done():
		return task.Exit{}, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status.Exit == nil {
		return task.Exit{}, fault.NotFound("%s was deleted before it was started", p.name)
	}
	return *p.status.Exit, nil
}

// Status returns what is known.
func (p *FakeProcess) Status(context.Context) (task.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	if s.Exit != nil {
		exit := *s.Exit
		s.Exit = &exit
	}
	return s, nil
}

// Delete forgets the process.
func (p *FakeProcess) Delete(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	if p.begun && p.status.Exit == nil {
		defer p.mu.Unlock()
		return fault.Conflict("%s is running", p.name)
	}
	if p.deleted {
		p.mu.Unlock()
		return nil
	}
	p.deleted = true
	if p.status.Exit == nil {
		p.shutLocked()
	}
	p.mu.Unlock()
	p.onGone()
	return nil
}

func (p *FakeProcess) notRunning() error { return fault.Conflict("%s is not running", p.name) }

// errClosed is what the streams of a fake return after Close.
var errClosed = errors.New("the view is closed")
