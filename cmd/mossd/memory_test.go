package main

import (
	"io"
	"runtime"
	"testing"
)

// TestSampling looks that no process samples its allocations unless it is told to.
func TestSampling(t *testing.T) {
	usual := runtime.MemProfileRate
	defer func() { runtime.MemProfileRate = usual }()
	if code := run([]string{"--version"}, io.Discard, io.Discard); code != 0 || runtime.MemProfileRate != 0 {
		t.Errorf("after run: code %d, one sample in %d bytes, want 0 and none", code, runtime.MemProfileRate)
	}
	runtime.MemProfileRate = usual
	sample := holdSampling()
	if runtime.MemProfileRate != 0 {
		t.Errorf("held: one sample in %d bytes, want none", runtime.MemProfileRate)
	}
	if sample(); runtime.MemProfileRate != usual {
		t.Errorf("begun again: one sample in %d bytes, want %d", runtime.MemProfileRate, usual)
	}
}
