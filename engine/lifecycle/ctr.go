package lifecycle

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/task"
)

// ctr is one container in memory.
type ctr struct {
	id    string
	dir   string // of its records
	token chan struct{}

	published atomic.Pointer[container.Record]

	files    sync.Mutex // held while an event is applied and while a file of its folder is written; guards revision and phase
	revision uint64     // of the last record written
	phase    phase      // as it was written last

	layer layerUse
	net   networkUse

	mu      sync.Mutex // guards the fields below and the replacement of published
	task    task.Task  // nil while there is no process
	rest    *moment    // when the container is at rest
	end     *moment    // when the end of its process is known; the end to come once one is there or waited for
	exit    *moment    // the next end of a container at rest; nil while nobody waits for it
	removal *moment    // when it is gone
	viewers []*viewer  // attached before the start
	disarm  func()     // stops the restart timer; nil when none runs
	enders  int        // as in life.Life
	// detachKeys are those that the last start named; nil for the usual ones.
	detachKeys []byte
	step       *container.Step // of the build that the container runs for; nil otherwise
	points     []string        // of a step, where something is mounted, as they were found at the start
	// restartDelay is that of life.Life.
	restartDelay time.Duration
	gone         bool // removed: nothing is written any more
}

// moment is something to come that callers wait for. done is closed when it has come; code and err are set before.
type moment struct {
	done chan struct{}
	code int   // the exit code that is known then
	err  error // why it did not come about after all
	past bool
}

func newCtr(r *container.Record, dir string) *ctr {
	c := &ctr{
		id: r.ID, dir: dir, revision: r.Revision, token: make(chan struct{}, 1), rest: newMoment(), end: newMoment(),
		removal: newMoment(),
	}
	c.published.Store(r)
	if r.State.AtRest() {
		c.rest.complete(r.ExitCode)
		c.end.complete(r.ExitCode)
	}
	return c
}

func newMoment() *moment { return &moment{done: make(chan struct{})} }

// complete lets those go on who wait. A moment comes once: a second call does nothing.
func (m *moment) complete(code int) {
	if !m.past {
		m.past, m.code = true, code
		close(m.done)
	}
}

// record returns the published record. It must not be changed.
func (c *ctr) record() *container.Record { return c.published.Load() }

// acquire takes the operation token; release gives it back. ctx ends the waiting.
func (c *ctr) acquire(ctx context.Context) error {
	select {
	case c.token <- struct{}{}:
		return nil
	default:
	}
	select {
	case c.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *ctr) release() { <-c.token }

// update publishes a changed copy of the record without writing it.
func (c *ctr) update(change func(*container.Record)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.updateLocked(change)
}

func (c *ctr) updateLocked(change func(*container.Record)) *container.Record {
	next := *c.published.Load()
	change(&next)
	c.published.Store(&next)
	return &next
}

// stepLife publishes what a container is after an event, and returns what is to be done about it. The only way in which its life
// changes is applyEvent, which holds files meanwhile.
func (c *ctr) stepLife(e life.Event) (before, after *container.Record, actions []life.Action, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before = c.published.Load()
	l, actions, err := life.Life{Record: before, RestartDelay: c.restartDelay, Enders: c.enders}.Step(e)
	if err == nil {
		c.restartDelay, c.enders = l.RestartDelay, l.Enders
		c.published.Store(l.Record)
	}
	return before, l.Record, actions, err
}

// wakeWaiters lets callers go on that wait for the end of the process or for the container to come to rest, or begins a new
// time of waiting.
func (c *ctr) wakeWaiters(r *container.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.State.AtRest():
		c.rest.complete(r.ExitCode)
		c.endLocked(r.ExitCode)
		c.rest, c.end = newMoment(), newMoment() // the code of a failed start is another one
		c.rest.complete(r.ExitCode)
		c.end.complete(r.ExitCode)
	case r.State == container.Restarting:
		c.endLocked(r.ExitCode)
		c.end = newMoment()
	case r.State != container.Removing:
		awaitNext(&c.rest)
		awaitNext(&c.end)
	}
}

// awaitNext replaces a moment that has come by the next one.
func awaitNext(m **moment) {
	if (*m).past {
		*m = newMoment()
	}
}

// setStarting notes the task of a start. Unless the end of a run is waited for already, that of this one is from now on.
func (c *ctr) setStarting(t task.Task, op container.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.task = t
	if op == container.OpStart { // a Restarting container was given its next end before, unless a kill has ended that
		awaitNext(&c.end)
	}
}

// untilRest returns the present time of not being at rest; it has come if the container is at rest.
func (c *ctr) untilRest() *moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rest
}

// nextEnd returns the end of the present process or of the next one; it has come if none is waited for.
func (c *ctr) nextEnd() *moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end
}

// runningTask returns the task and whether there is a process.
func (c *ctr) runningTask() (task.Task, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.task, c.task != nil
}

// isRemoved reports whether the container is gone for good.
func (c *ctr) isRemoved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// setGone says whether the container is gone for good. Once it is, its record is not written any more, and a write under way
// has ended: the folder can be removed. The watcher of an exit writes after those who wait for the exit go on.
func (c *ctr) setGone(gone bool) {
	c.files.Lock()
	defer c.files.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = gone
}

func (c *ctr) setTask(t task.Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.task = t
}
