package main

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"testing"
)

// TestInitialization looks that no package of the engine takes much memory before anything is asked of it: each of the engine's
// processes initializes all of them. A pattern takes some 20 kB to compile.
func TestInitialization(t *testing.T) {
	const most = 8 << 10 // bytes
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.list=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	traced, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, traced)
	}
	packages := regexp.MustCompile(`(?m)^init (moss/\S+) .* (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(string(traced), -1)
	if len(packages) == 0 {
		t.Fatalf("no package of the engine in %s", traced)
	}
	for _, p := range packages {
		if n, err := strconv.Atoi(p[2]); err != nil || n > most {
			t.Errorf("%s allocates %s bytes when it is initialized, want %d at most", p[1], p[2], most)
		}
	}
}

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
