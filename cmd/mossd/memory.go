package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

// The outer processes do next to nothing once the engine is up, but each holds a heap of its own. A low garbage
// collection target keeps those heaps near what they really hold, at the cost of work that nobody waits for.
const idleGCPercent = 20

// startOver is when an engine has long been up: what only the start needed then goes back to the system at once.
const startOver = 2 * time.Second

// shrinkAfterStart has the memory of this process shrink, and stay small, once the start is over.
func shrinkAfterStart() {
	time.AfterFunc(startOver, func() {
		debug.SetGCPercent(idleGCPercent)
		debug.FreeOSMemory()
	})
}

// holdSampling ends the sampling of allocations, which the runtime does by itself in every program that holds code to read
// it. What it returns begins it again, for an engine whose profiles may be asked for.
func holdSampling() (sample func()) {
	usual := runtime.MemProfileRate
	runtime.MemProfileRate = 0
	return func() { runtime.MemProfileRate = usual }
}

const (
	trimPause = 30 * time.Second
	trimAbove = 64 << 20 // bytes that an engine may keep although nothing happens
)

// trimMemory gives memory back that a crowd of clients or a large build has left, until ctx is done: at rest the runtime would
// keep it for minutes, since it collects garbage when more is asked for.
func trimMemory(ctx context.Context) {
	tick := time.NewTicker(trimPause)
	defer tick.Stop()
	var last uint32 // how many collections there had been after ours
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.NumGC == last || m.Sys-m.HeapReleased < trimAbove {
			continue
		}
		debug.FreeOSMemory()
		runtime.ReadMemStats(&m)
		last = m.NumGC
	}
}
