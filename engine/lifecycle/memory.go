package lifecycle

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"moss/engine/container"
	"moss/engine/container/life"
	"moss/engine/task"
)

// memory is what the engine knows of a container at this moment. Its methods work on memory alone and know neither the
// container nor another lock: they may be called whatever is locked, and nothing can be locked below them.
type memory struct {
	published atomic.Pointer[container.Record]
	linking   atomic.Bool // a record with links to others was published

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

// setFirst notes the record that the container begins with. It is called once, before the container is known.
func (m *memory) setFirst(r *container.Record) {
	m.rest, m.end, m.removal = newMoment(), newMoment(), newMoment()
	m.publishRecord(r)
	if r.State.AtRest() {
		m.rest.complete(r.ExitCode)
		m.end.complete(r.ExitCode)
	}
}

// record returns the published record. It must not be changed.
func (m *memory) record() *container.Record { return m.published.Load() }

// publishRecord replaces the record. That it has links can be seen before it can.
func (m *memory) publishRecord(r *container.Record) {
	if hasLinks(r) {
		m.linking.Store(true)
	}
	m.published.Store(r)
}

// update publishes a changed copy of the record without writing it. change does nothing but that.
func (m *memory) update(change func(*container.Record)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.updateLocked(change)
}

func (m *memory) updateLocked(change func(*container.Record)) *container.Record {
	next := *m.published.Load()
	change(&next)
	m.publishRecord(&next)
	return &next
}

// stepLife publishes what a container is after an event, and returns what is to be done about it. The only way in which its life
// changes is applyEvent, which holds files meanwhile.
func (m *memory) stepLife(e life.Event) (before, after *container.Record, actions []life.Action, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.published.Load()
	l, actions, err := life.Life{Record: before, RestartDelay: m.restartDelay, Enders: m.enders}.Step(e)
	if err == nil {
		m.restartDelay, m.enders = l.RestartDelay, l.Enders
		m.publishRecord(l.Record)
	}
	return before, l.Record, actions, err
}

// wakeWaiters lets callers go on that wait for the end of the process or for the container to come to rest, or begins a new
// time of waiting.
func (m *memory) wakeWaiters(r *container.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case r.State.AtRest():
		m.rest.complete(r.ExitCode)
		m.endLocked(r.ExitCode)
		m.rest, m.end = newMoment(), newMoment() // the code of a failed start is another one
		m.rest.complete(r.ExitCode)
		m.end.complete(r.ExitCode)
	case r.State == container.Restarting:
		m.endLocked(r.ExitCode)
		m.end = newMoment()
	case r.State != container.Removing:
		awaitNext(&m.rest)
		awaitNext(&m.end)
	}
}

// awaitNext replaces a moment that has come by the next one.
func awaitNext(m **moment) {
	if (*m).past {
		*m = newMoment()
	}
}

// setStarting notes the task of a start. Unless the end of a run is waited for already, that of this one is from now on.
func (m *memory) setStarting(t task.Task, op container.Op) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.task = t
	if op == container.OpStart { // a Restarting container was given its next end before, unless a kill has ended that
		awaitNext(&m.end)
	}
}

// untilRest returns the present time of not being at rest; it has come if the container is at rest.
func (m *memory) untilRest() *moment {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rest
}

// nextEnd returns the end of the present process or of the next one; it has come if none is waited for.
func (m *memory) nextEnd() *moment {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end
}

// runningTask returns the task and whether there is a process.
func (m *memory) runningTask() (task.Task, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.task, m.task != nil
}

// isRemoved reports whether the container is gone for good.
func (m *memory) isRemoved() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone
}

// isEnding reports whether somebody waits for the end of the process, which they have asked for.
func (m *memory) isEnding() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.enders > 0
}

func (m *memory) setTask(t task.Task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.task = t
}

// addViewer registers a viewer for the next start, unless there is a run to join at once, which it returns then. Its task
// runs already or is about to; ended is one that the viewer came too late for. A run without a task is one whose process has
// ended while the state does not say so yet. ok is false where there will be no start.
func (m *memory) addViewer(v *viewer, ended task.Task) (now *run, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.published.Load().State
	switch {
	case m.gone || state == container.Removing:
		return nil, false
	case m.task != nil && m.task != ended:
		return &run{m.task, m.end}, true
	case state.HasProcess():
		return &run{nil, m.end}, true
	}
	m.viewers = append(m.viewers, v)
	return nil, true
}

// takeViewers empties the list of those who wait.
func (m *memory) takeViewers() []*viewer {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiting := m.viewers
	m.viewers = nil
	return waiting
}

// usualKeys returns what detaches a viewer that named no keys.
func (m *memory) usualKeys() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.detachKeys != nil {
		return m.detachKeys
	}
	return []byte{'p' & 0x1f, 'q' & 0x1f} // ctrl-p, ctrl-q
}

// awaitedMoment returns the moment that a condition means.
func (m *memory) awaitedMoment(condition container.WaitCondition) *moment {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch condition {
	case container.WaitNextExit:
		if !m.end.past { // of the process that there is, or of one that comes
			return m.end
		}
		if m.removal.past { // nothing will run any more
			return m.removal
		}
		if m.exit == nil {
			m.exit = newMoment()
		}
		return m.exit
	case container.WaitRemoved:
		return m.removal
	case container.WaitNotRunning:
		return m.end
	default:
		return m.end
	}
}

// endLocked lets those go on who wait for the end of the process, or of the next one.
func (m *memory) endLocked(code int) {
	m.end.complete(code)
	if m.exit != nil {
		m.exit.complete(code)
		m.exit = nil
	}
}

// completeRemoval lets those go on who wait for the removal of the container; nothing will run in it any more.
func (m *memory) completeRemoval() {
	m.mu.Lock()
	defer m.mu.Unlock()
	code := m.published.Load().ExitCode
	m.endLocked(code)
	m.removal.complete(code)
}

// failRemoval tells those who wait for the removal of the container that it has failed. The next one may work.
func (m *memory) failRemoval(cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removal.err = cause
	m.removal.complete(m.published.Load().ExitCode)
	m.removal = newMoment()
}

// newestRecord returns the published record and whether the container is gone for good.
func (m *memory) newestRecord() (r *container.Record, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.published.Load(), m.gone
}

func (m *memory) noteGone(gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = gone
}

// noteHealth is Inventory.SetHealth without writing it.
func (m *memory) noteHealth(began *container.Record, health *container.Health) (r *container.Record, noted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.published.Load()
	if !now.State.HasProcess() || !now.StartedAt.Equal(began.StartedAt) {
		return now, false
	}
	return m.updateLocked(func(r *container.Record) { r.Health = health }), true
}

// setDisarm notes what stops the restart timer.
func (m *memory) setDisarm(disarm func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disarm = disarm
}

// takeDisarm returns what stops the restart timer, once; nil when none runs.
func (m *memory) takeDisarm() func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	disarm := m.disarm
	m.disarm = nil
	return disarm
}

func (m *memory) dropViewer(v *viewer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.viewers = slices.DeleteFunc(m.viewers, func(have *viewer) bool { return have == v })
}

func (m *memory) setKeys(keys []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.detachKeys = keys
}

// buildStep returns the step of the build that the container runs for; nil if it runs for none.
func (m *memory) buildStep() *container.Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.step
}

func (m *memory) setStep(step *container.Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.step = step
}

// foundPoints returns where something is mounted in the container of a step; nil before its start.
func (m *memory) foundPoints() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.points
}

func (m *memory) setPoints(points []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.points = points
}
