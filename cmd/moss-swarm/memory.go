package main

import (
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

const (
	gcPercent = 20 // a node is idle most of its life, and its heap is small
	trimPause = 30 * time.Second
	trimAbove = 8 << 20 // bytes that a node may keep although nothing happens
)

// holdMemory keeps this process small.
func holdMemory() {
	// Huge pages would turn a heap of some megabytes into tens. A kernel without them has nothing to disable.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	runtime.MemProfileRate = 0 // the runtime samples by itself in every program that could read it
	debug.SetGCPercent(gcPercent)
	go trimMemory()
}

// trimMemory gives back for the life of the program what starts and changes of services have left: at rest the runtime would
// keep it for minutes.
func trimMemory() {
	var last uint32 // how many collections there had been after ours
	for range time.Tick(trimPause) {
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
