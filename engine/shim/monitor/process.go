package monitor

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/pidfd"
	"moss/engine/shim/proto"
)

type state int

const (
	prepared state = iota
	starting
	running
	ended   // it has ended or never started; the record follows
	deleted // given up before the start; there is no record
)

// process is the container's first process or an added one: its streams, its state and its end.
type process struct {
	m    *monitor
	id   string // of an added process; empty for the first one
	name string // for texts
	dir  string // where its files are: the task's folder or one below it

	terminal  bool
	openStdin bool
	stdinOnce bool // the end of a viewer's input is that of the process's
	hub       *hub
	stdin     *stdin

	mu     sync.Mutex // guards the fields down to the next blank line
	state  state
	pid    int
	record proto.Record
	reason string // why the engine's side ended the task
	tty    *terminal
	width  uint16
	height uint16

	pumps    []*source
	pumping  sync.WaitGroup
	started  chan struct{} // closed when the process runs
	over     chan struct{} // closed when the record is written, or the process was given up
	overOnce sync.Once
}

// newProcess completes what was configured.
func newProcess(p *process) *process {
	p.stdin, p.started, p.over = newStdin(), make(chan struct{}), make(chan struct{})
	return p
}

func (p *process) isFirst() bool { return p.id == "" }

// currentRecord returns what there is to know now.
func (p *process) currentRecord() proto.Record {
	p.mu.Lock()
	rec := p.record
	p.mu.Unlock()
	rec.Paused = p.isFirst() && rec.Exit == nil && p.m.container.isPaused()
	return rec
}

func (p *process) inState(s state) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == s
}

// runningPid returns the process's number; 0 if it does not run.
func (p *process) runningPid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != running {
		return 0
	}
	return p.pid
}

// isAlive reports whether the process has not ended. The kernel knows of an end before the shim does.
func (p *process) isAlive() bool {
	st, ok := pidfd.ReadStat(p.runningPid())
	return ok && !st.Dead()
}

func (p *process) notRunning() error { return fault.Conflict("%s is not running", p.name) }

// signal sends a signal to the process. It cannot hit another process that got its number: the number stays taken until
// collectExit, which holds the same lock.
func (p *process) signal(sig int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signalLocked(sig)
}

func (p *process) signalLocked(sig int) error {
	if p.state != running {
		return p.notRunning()
	}
	switch err := unix.Kill(p.pid, unix.Signal(sig)); err {
	case nil:
		return nil
	case unix.ESRCH:
		return p.notRunning()
	case unix.EINVAL:
		return fault.Invalid("signal %d is none", sig)
	default:
		return err
	}
}

// resize sets the size of the pty; before the start it is kept for it.
func (p *process) resize(width, height uint16) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.terminal:
		return fault.Conflict("%s has no terminal", p.name)
	case p.state == ended || p.state == deleted:
		return p.notRunning()
	}
	p.width, p.height = width, height
	if p.tty == nil {
		return nil
	}
	return p.tty.resize(width, height)
}

// neverStarted makes the failure of a start known.
func (p *process) neverStarted(err error) {
	code := codeRuntime
	switch {
	case fault.Is(err, fault.NotFound):
		code = codeMissing
	case fault.Is(err, fault.Forbidden):
		code = codeRefused
	}
	p.endUnstarted(proto.Exit{Code: code, At: time.Now().UTC(), Error: err.Error()})
}

// endUnstarted ends a process that never ran.
func (p *process) endUnstarted(exit proto.Exit) {
	p.mu.Lock()
	p.state = ended
	p.record = proto.Record{Exit: &exit}
	p.mu.Unlock()
	p.hub.unblockViewers()
	p.hub.close()
	if p.isFirst() {
		dropCgroup(p.dir)
	}
	p.publishRecord()
}

// releaseWaiters ends what waits for a process that was given up before its start.
func (p *process) releaseWaiters() {
	p.hub.unblockViewers()
	p.hub.close()
	p.finishOver()
}

// endStarted makes the end of a process known that has run, once its output is drained.
func (p *process) endStarted(ctx context.Context, code int, at time.Time) {
	if p.isFirst() {
		p.m.finishTask(ctx, code, at)
		return
	}
	p.drainOutput(p.m.container.ending)
	p.hub.close()
	p.recordExit(proto.Exit{Code: code, At: at})
	if p.m.reaper.collectStrangers() {
		p.m.reaper.adoptStrangers(ctx)
	}
	p.m.execs.trimLater()
}

// recordExit records the end.
func (p *process) recordExit(exit proto.Exit) {
	p.mu.Lock()
	if p.tty != nil {
		p.tty = nil // its master is closed with the pump
	}
	exit.Error = p.reason
	p.record.Exit = &exit
	p.mu.Unlock()
	p.pumps = nil
	p.publishRecord()
}

// publishRecord writes the record and wakes all waiters.
func (p *process) publishRecord() {
	if err := proto.WriteRecord(p.dir, p.currentRecord()); err != nil {
		logError("write record of "+p.name, err)
	}
	p.finishOver()
}

// finishOver tells all waiters that the process is over. With the first one the socket goes before: once a waiting
// engine knows, the folder may belong to the task's next run.
func (p *process) finishOver() {
	p.overOnce.Do(func() {
		p.stdin.close()
		if p.isFirst() {
			p.m.socket.close()
		}
		close(p.over)
	})
}

// drainOutput lets the outputs end. Processes that outlived this one may hold them for a limited time only: drainLimit, or less
// when hurry is closed. Viewers that do not read are waited for no longer either; what they have not taken is queued.
func (p *process) drainOutput(hurry <-chan struct{}) {
	p.mu.Lock()
	if p.tty != nil {
		p.tty.closeSlave()
	}
	p.mu.Unlock()
	drained := make(chan struct{})
	go func() {
		p.pumping.Wait()
		close(drained)
	}()
	limit := time.After(drainLimit)
	select {
	case <-drained:
		return
	case <-limit:
		p.hub.unblockViewers()
	case <-hurry:
		p.hub.unblockViewers()
		select {
		case <-drained:
			return
		case <-limit:
		}
	}
	for _, src := range p.pumps {
		src.stop()
	}
	<-drained
}
