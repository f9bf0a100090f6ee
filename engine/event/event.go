// Package event carries what happened in the engine to whoever listens (API document 3, section 6).
package event

import (
	"sync/atomic"
	"time"
)

// Types of the objects that events are about.
const (
	TypeContainer = "container"
	TypeImage     = "image"
	TypeVolume    = "volume"
	TypeNetwork   = "network"
	TypeDaemon    = "daemon"
	TypeBuilder   = "builder" // the cache of builds
)

// Actions that versions of the API are told of from some version on.
const (
	ActionCreate  = "create"   // of an image: a build has ended with it
	ActionPrune   = "prune"    // of all objects of a type; the attribute reclaimed has the bytes
	ActionExecDie = "exec_die" // the end of a process that was added; its code is the attribute exitCode
)

// ScopeLocal is the scope of all events: those of a swarm are nobody's to tell here.
const ScopeLocal = "local"

// Event is one thing that happened. Attributes must not be changed once it is published.
type Event struct {
	Type       string
	Action     string
	ID         string // of the object; an image's name for image events
	Attributes map[string]string
	Time       time.Time // set by Bus.Publish when zero
}

// Published is an event that all its listeners share. Nothing of it may be changed.
type Published struct {
	Event

	// Seq counts the events of a bus and of its journal, from 1 on: what is missing between two of them was lost.
	Seq uint64

	lines atomic.Pointer[line]
}

// line is one form of an event, as clients are sent it; the next one is of another form.
type line struct {
	form int
	text []byte
	next *line
}

// Line returns the event in a form, which the first listener that asks makes and all others share: it must not be
// changed. The meaning of the forms' numbers is the caller's. An error is that of encode.
func (p *Published) Line(form int, encode func(*Event) ([]byte, error)) ([]byte, error) {
	head := p.lines.Load()
	for l := head; l != nil; l = l.next {
		if l.form == form {
			return l.text, nil
		}
	}
	text, err := encode(&p.Event)
	if err != nil {
		return nil, err
	}
	// Who comes second has made the line for nothing, and uses its own.
	p.lines.CompareAndSwap(head, &line{form: form, text: text, next: head})
	return text, nil
}

// size is about how much memory the event takes, in bytes.
func (p *Published) size() int {
	n := 256 + len(p.Type) + len(p.Action) + len(p.ID)
	for key, value := range p.Attributes {
		n += 32 + len(key) + len(value)
	}
	return n
}
