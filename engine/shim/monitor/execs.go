package monitor

import (
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"moss/engine/fault"
)

// trimAfter is how long after the end of the last added process memory is given back.
const trimAfter = time.Second

// execTable holds the added processes of a task.
type execTable struct {
	first *process

	mu   sync.Mutex // guards the fields below
	byID map[string]*process
	trim *time.Timer
}

// addProcess adds a process while the first one runs.
func (t *execTable) addProcess(p *process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.first.inState(running): // asked under the lock: endExecs will see what is added before the end
		return t.first.notRunning()
	case t.byID[p.id] != nil:
		return fault.Conflict("%s has a process %s", t.first.name, p.id)
	}
	t.byID[p.id] = p
	return nil
}

// findProcess returns the process that a request is about; the first one for an empty id.
func (t *execTable) findProcess(id string) (*process, error) {
	if id == "" {
		return t.first, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byID[id]; p != nil {
		return p, nil
	}
	return nil, noExec(id)
}

func (t *execTable) removeProcess(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[p.id] == p {
		delete(t.byID, p.id)
	}
}

func (t *execTable) listProcesses() []*process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.byID))
}

// watchedPids returns the processes that watchExit collects.
func (t *execTable) watchedPids() map[int]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	pids := map[int]bool{}
	note := func(p *process) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.state == running {
			pids[p.pid] = true
		}
	}
	note(t.first)
	for _, p := range t.byID {
		note(p)
	}
	return pids
}

// trimLater gives memory back to the system once no added process has ended for a while: a container with a health check
// would otherwise keep a heap several times as large as one without.
func (t *execTable) trimLater() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trim == nil {
		t.trim = time.AfterFunc(trimAfter, debug.FreeOSMemory)
		return
	}
	t.trim.Reset(trimAfter)
}
