package container

import (
	"moss/engine/fault"
)

// State is where a container is in its life. The zero value is Created.
type State int

// The states (API document 1, 3.1).
const (
	Created    State = iota // never ran
	Running                 // its process runs
	Paused                  // its process is frozen
	Restarting              // ended; waits for its restart policy's timer
	Exited                  // ended and cleaned up
	Removing                // being removed
	Dead                    // could not be removed whole
)

// States lists every state in its order.
func States() []State {
	return []State{Created, Running, Paused, Restarting, Exited, Removing, Dead}
}

// String returns the word clients see and filter by.
func (s State) String() string {
	switch s {
	case Created:
		return "created"
	case Running:
		return "running"
	case Paused:
		return "paused"
	case Restarting:
		return "restarting"
	case Exited:
		return "exited"
	case Removing:
		return "removing"
	case Dead:
		return "dead"
	default:
		return "unknown"
	}
}

// ParseState is the reverse of String. An unknown word gives fault.Invalid.
func ParseState(word string) (State, error) {
	for _, s := range States() {
		if s.String() == word {
			return s, nil
		}
	}
	return Created, fault.Invalid("Unrecognised container state %q", word)
}

// MarshalText returns the word, for record files.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes the word. An unknown one gives fault.Invalid.
func (s *State) UnmarshalText(text []byte) error {
	parsed, err := ParseState(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

// Running is the wire's Running: the container has a process or is about to have one again.
func (s State) Running() bool { return s == Running || s == Paused || s == Restarting }

// Paused is the wire's Paused.
func (s State) Paused() bool { return s == Paused }

// Restarting is the wire's Restarting.
func (s State) Restarting() bool { return s == Restarting }

// Dead is the wire's Dead.
func (s State) Dead() bool { return s == Dead }

// HasProcess reports whether a process of the container exists, running or frozen.
func (s State) HasProcess() bool { return s == Running || s == Paused }

// AtRest reports whether nothing of the container runs and no timer of it is pending.
func (s State) AtRest() bool { return s == Created || s == Exited || s == Dead }

// Op is something that may change a container's state.
type Op int

// The operations: the columns of the state table.
const (
	OpStart        Op = iota // a user starts it
	OpStop                   // a user stops it; from Paused it is thawed first, from Restarting the timer ends
	OpKill                   // a signal; from Restarting the timer ends
	OpPause                  // freeze
	OpUnpause                // thaw
	OpEnd                    // its process ended; what it held is being released, and OpExit or OpRestart follows
	OpExit                   // its process ended for good
	OpRestart                // its process ended and the policy restarts it; from Restarting: the timer fired
	OpRemove                 // remove it if it is at rest
	OpRemoveFailed           // the removal could not be completed
)

// String returns the operation's name.
func (o Op) String() string {
	switch o {
	case OpStart:
		return "start"
	case OpStop:
		return "stop"
	case OpKill:
		return "kill"
	case OpPause:
		return "pause"
	case OpUnpause:
		return "unpause"
	case OpEnd:
		return "end"
	case OpExit:
		return "exit"
	case OpRestart:
		return "policy restart"
	case OpRemove:
		return "remove"
	case OpRemoveFailed:
		return "remove-failed"
	default:
		return "unknown operation"
	}
}

// Next returns the state of the record's container after op, and is the only way a state changes. Nothing to do gives
// fault.NotModified, a state that rules op out fault.Conflict, and what only a bug of the engine can ask for fault.Internal; the
// state that comes with an error is the present one. A container whose process has ended and is being released has a row of its
// own.
func (r *Record) Next(op Op) (State, error) {
	if r.End == nil || !r.State.HasProcess() {
		return nextState(r.Name, r.State, op)
	}
	next, err := nextState(r.Name, ending, op)
	if err != nil {
		next = r.State
	}
	return next, err
}

// ending is the row of a container whose process has ended and what it held is being released. It is no state: clients
// see such a container as running.
const ending State = Dead + 1

// nextState looks the state after op up. ref names the container in errors.
func nextState(ref string, s State, op Op) (State, error) {
	cell := lookupTransition(s, op)
	switch cell {
	case same:
		return s, notModified(ref, op)
	case wrong:
		return s, wrongState(ref, s, op)
	case never:
		return s, fault.Internal("%s: %s does not happen to a container that is %s", subjectOf(ref), op, s)
	default:
		return cell, nil
	}
}

// What a cell of the table may hold beside a state.
const (
	same  State = -1 - iota // 304: nothing to do
	wrong                   // !: wrong state
	never                   // only a bug asks for it
)

// lookupTransition returns a cell of the table: a row per state, a column per operation.
func lookupTransition(s State, op Op) State {
	if s < Created || s > ending || op < OpStart || op > OpRemoveFailed {
		return never
	}
	// An exit while Removing is the end of a process that a crash has left to the removal: the container stays Removing.
	rows := [...][OpRemoveFailed + 1]State{
		//           start     stop    kill     pause   unpause  end       exit      restart     remove    force     failed
		Created:    {Running, same, wrong, wrong, wrong, never, never, never, Removing, never},
		Running:    {same, Exited, Running, Paused, wrong, Running, Exited, Restarting, wrong, never},
		Paused:     {wrong, Exited, Paused, wrong, Running, Running, Exited, Restarting, wrong, never},
		Restarting: {same, Exited, Exited, wrong, wrong, never, never, Running, wrong, never},
		Exited:     {Running, same, wrong, wrong, wrong, never, never, never, Removing, never},
		Removing:   {wrong, same, wrong, wrong, wrong, Removing, Removing, never, wrong, Dead},
		Dead:       {wrong, same, wrong, wrong, wrong, never, never, never, Removing, never},
		ending:     {same, Exited, Running, wrong, wrong, Running, Exited, Restarting, wrong, never},
	}
	return rows[s][op]
}

// subjectOf returns the subject of a sentence about a container.
func subjectOf(ref string) string {
	if ref == "" {
		return "Container"
	}
	return "Container " + ref
}

func notModified(ref string, op Op) error {
	if op == OpStart {
		return fault.NotModified("%s is already started", subjectOf(ref))
	}
	return fault.NotModified("%s is already stopped", subjectOf(ref))
}

// wrongState is the answer to an operation that the container's state rules out.
func wrongState(ref string, s State, op Op) error {
	who := subjectOf(ref)
	switch op {
	case OpPause:
		if s == Paused {
			return fault.Conflict("%s is already paused", who)
		}
		if s == Restarting {
			return fault.Conflict("%s is restarting, wait until the container is running", who)
		}
		return NotRunning(ref)
	case OpUnpause:
		return fault.Conflict("%s is not paused", who)
	case OpRemove:
		if s == Removing {
			return fault.Conflict("removal of container %s is already in progress", ref)
		}
		return fault.Conflict("You cannot remove a %s container %s. Stop the container before attempting removal or force remove", s,
			ref)
	case OpStart:
		if s == Paused {
			return fault.Conflict("cannot start a paused container, try unpause instead: %s", who)
		}
		return fault.Conflict("%s is marked for removal and cannot be started", who)
	case OpStop, OpKill, OpEnd, OpExit, OpRestart, OpRemoveFailed:
		return NotRunning(ref)
	default:
		return NotRunning(ref)
	}
}

// NotRunning is the answer to whatever needs a running container. It is fault.Conflict.
func NotRunning(ref string) error { return fault.Conflict("%s is not running", subjectOf(ref)) }
