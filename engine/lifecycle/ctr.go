package lifecycle

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"moss/engine/container"
	"moss/engine/task"
)

// ctr is one container in memory.
type ctr struct {
	id    string
	dir   string // of its records
	token chan struct{}

	published atomic.Pointer[container.Record]

	save     sync.Mutex // held while a file of the record is written, so that the newest is the last; guards revision and phase
	revision uint64     // of the last record written
	phase    phase      // as it was written last

	layer   sync.Mutex // held while the layer is mounted or unmounted; guards holders and apart
	holders int        // of the mount: the task, and views on the files
	apart   bool       // the task's process has the layer in a mount namespace of its own

	views sync.RWMutex // read-locked while a view on its files is opened; locked while its layer is removed

	hosts sync.Mutex // held while the managed files of /etc are written

	net sync.Mutex // held while the networks of the running container change

	mu       sync.Mutex // guards the fields below and the replacement of published
	task     task.Task  // nil while there is no process
	rest     *moment    // when the container is at rest
	end      *moment    // when the end of its process is known; the end to come once one is there or waited for
	exit     *moment    // the next end of a container at rest; nil while nobody waits for it
	removal  *moment    // when it is gone
	viewers  []*viewer  // attached before the start
	stopWait func()     // ends the restart timer; nil when none runs
	enders   int        // callers that wait for its end
	// detachKeys are those that the last start named; nil for the usual ones.
	detachKeys []byte
	step       *container.Step // of the build that the container runs for; nil otherwise
	points     []string        // of a step, where something is mounted, as they were found at the start
	// restartDelay is what the restart policy waited last; 0 before its first restart since a start by a user.
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
		c.rest.come(r.ExitCode)
		c.end.come(r.ExitCode)
	}
	return c
}

func newMoment() *moment { return &moment{done: make(chan struct{})} }

// come lets those go on who wait. A moment comes once: a second call does nothing.
func (m *moment) come(code int) {
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

// transition is the only way a container's state changes: by the table. change is applied in the same step. It returns
// the record after it, with an error that before it.
func (c *ctr) transition(op container.Op, change func(*container.Record)) (*container.Record, error) {
	return c.transitionTold(op, change, func(*container.Record) {})
}

// transitionTold is transition with the telling of it: tell runs, with the record after it, before those who wait for the
// container to come to rest hear of it. What they do next is told after. It must not block.
func (c *ctr) transitionTold(op container.Op, change, tell func(*container.Record)) (*container.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.published.Load()
	state, err := before.Next(op)
	if err != nil {
		return before, err
	}
	after := c.updateLocked(func(r *container.Record) {
		r.State = state
		if change != nil {
			change(r)
		}
	})
	tell(after)
	c.wakeLocked(after)
	return after, nil
}

// wakeLocked wakes those who wait for the end of the process or for the container to come to rest, or begins a new time of
// waiting.
func (c *ctr) wakeLocked(r *container.Record) {
	switch {
	case r.State.AtRest():
		c.rest.come(r.ExitCode)
		c.endLocked(r.ExitCode)
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

// begin notes the task of a start. Unless the end of a run is waited for already, that of this one is from now on.
func (c *ctr) begin(t task.Task, op container.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.task = t
	if op == container.OpStart { // a Restarting container was given its next end before, unless a kill has ended that
		awaitNext(&c.end)
	}
}

// waiting returns the present time of not being at rest; it has come if the container is at rest.
func (c *ctr) waiting() *moment {
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

// running returns the task and whether there is a process.
func (c *ctr) running() (task.Task, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.task, c.task != nil
}

// removed reports whether the container is gone for good.
func (c *ctr) removed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// setGone says whether the container is gone for good. Once it is, its record is not written any more, and a write under way
// has ended: the folder can be removed. The watcher of an exit writes after those who wait for the exit go on.
func (c *ctr) setGone(gone bool) {
	c.save.Lock()
	defer c.save.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = gone
}

func (c *ctr) setTask(t task.Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.task = t
}
