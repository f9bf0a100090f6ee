package main

import (
	"runtime/debug"
	"time"
)

// The outer processes do next to nothing once the engine is up, but each holds a heap of its own. A low garbage
// collection target keeps those heaps near what they really hold, at the cost of work that nobody waits for.
const idleGCPercent = 20

// startOver is when an engine has long been up: what only the start needed then goes back to the system at once.
const startOver = 2 * time.Second

// thrifty keeps this process small once the start is over.
func thrifty() {
	time.AfterFunc(startOver, func() {
		debug.SetGCPercent(idleGCPercent)
		debug.FreeOSMemory()
	})
}
