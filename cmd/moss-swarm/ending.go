package main

import "sync"

// ending decides when the program ends: when it is told to, and when the node is in no swarm and nobody needs it. What comes
// after that is refused, so that the engine starts another one.
type ending struct {
	needed func() bool
	done   chan struct{} // closed at the end

	mu    sync.Mutex // guards the fields below
	users int        // requests under way
	over  bool
}

func newEnding(needed func() bool) *ending { return &ending{needed: needed, done: make(chan struct{})} }

// enter begins a request. It reports false after the end.
func (e *ending) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return false
	}
	e.users++
	return true
}

// leave ends a request.
func (e *ending) leave() {
	e.mu.Lock()
	e.users--
	e.mu.Unlock()
	e.consider()
}

// consider ends the program if nobody needs it.
func (e *ending) consider() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users == 0 && !e.over && !e.needed() {
		e.over = true
		close(e.done)
	}
}

// now ends the program.
func (e *ending) now() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.over = true
		close(e.done)
	}
}
