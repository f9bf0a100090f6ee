package main

import (
	"net/http"
	"slices"
	"strings"
)

// state is a set of the states that a container may be in: one where the model is sure.
type state uint8

// The states.
const (
	absent state = 1 << iota
	created
	running
	paused
	exited
	anyState = absent | created | running | paused | exited
)

func (s state) String() string {
	var words []string
	for i, word := range []string{"absent", "created", "running", "paused", "exited"} {
		if s&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, "|")
}

// stateOf returns the state that a client sees by its word; 0 for one that no container of these tests stays in.
func stateOf(word string) state {
	switch word {
	case "created":
		return created
	case "running":
		return running
	case "paused":
		return paused
	case "exited":
		return exited
	default:
		return 0
	}
}

// verb is something that is asked of a container.
type verb int

// The verbs. Those of force and mercy are told apart, since their outcomes are.
const (
	start verb = iota
	stop
	restart
	kill // by a signal that ends it
	poke // by one that its process ignores
	oldKill
	oldPoke // the same before 1.20
	pause
	unpause
	remove
	forceRemove
	look     // inspect and whatever answers in every state
	change   // update, commit, archives: every state, 200
	needsRun // top
	upgraded // logs with an upgrade
	attach
	execute // exec create
	verbs
)

// outcome is a status that a verb may have in a state, and the state after it.
type outcome struct {
	code int
	next state
}

const (
	ok        = http.StatusOK
	done      = http.StatusNoContent
	same      = http.StatusNotModified
	conflict  = http.StatusConflict
	missing   = http.StatusNotFound
	bad       = http.StatusBadRequest
	made      = http.StatusCreated
	forbidden = http.StatusForbidden
	broken    = http.StatusInternalServerError
)

// outcomeIn returns the outcome of a verb in one state: the table of engine/container seen from outside, with the
// statuses of the API documents.
func (v verb) outcomeIn(s state) outcome {
	if s == absent {
		return outcome{missing, absent}
	}
	rest, alive := s == created || s == exited, s == running || s == paused
	refused := outcome{conflict, s}
	switch v {
	case start:
		return pick(rest, outcome{done, running}, pick(s == running, outcome{same, running}, refused))
	case stop:
		return pick(alive, outcome{done, exited}, outcome{same, s})
	case restart:
		return outcome{done, running}
	case kill:
		return pick(alive, outcome{done, exited}, refused)
	case poke:
		return pick(alive, outcome{done, s}, refused)
	case oldKill:
		return outcome{done, pick(alive, exited, s)}
	case pause:
		return pick(s == running, outcome{done, paused}, refused)
	case unpause:
		return pick(s == paused, outcome{done, running}, refused)
	case remove:
		return pick(rest, outcome{done, absent}, refused)
	default:
		return v.stillOutcome(s, alive, refused)
	}
}

// stillOutcome is outcomeIn for the verbs that leave a state as it is, and for the one that always comes to the same.
func (v verb) stillOutcome(s state, alive bool, refused outcome) outcome {
	switch v {
	case oldPoke:
		return outcome{done, s}
	case forceRemove:
		return outcome{done, absent}
	case look, change:
		return outcome{ok, s}
	case needsRun:
		return pick(alive, outcome{ok, s}, refused)
	case upgraded:
		return outcome{http.StatusSwitchingProtocols, s}
	case attach:
		return pick(s == paused, refused, outcome{http.StatusSwitchingProtocols, s})
	case execute:
		return pick(s == running, outcome{made, s}, refused)
	default:
		return outcome{}
	}
}

func pick[T any](is bool, yes, no T) T {
	if is {
		return yes
	}
	return no
}

// statesAfter returns the states that a verb's status leaves of those before it, 0 if none of them has that status;
// codes are the statuses that there could have been.
func (v verb) statesAfter(before state, code int) (next state, codes []int) {
	for s := absent; s <= exited; s <<= 1 {
		if before&s == 0 {
			continue
		}
		o := v.outcomeIn(s)
		if o.code == code || o.code == http.StatusSwitchingProtocols && code == ok {
			next |= o.next
		}
		if !slices.Contains(codes, o.code) {
			codes = append(codes, o.code)
		}
	}
	slices.Sort(codes)
	return next, codes
}
