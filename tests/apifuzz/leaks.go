package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// places are where an engine can be looked at from outside. What is empty is not looked at.
type places struct {
	log, run, data string
	pid            int
}

// footprint is what an engine holds while it has nothing to do.
type footprint struct {
	files, goroutines, rss, mounts, shims int // rss in KiB
	folders                               map[string]int
}

func (f *footprint) String() string {
	return fmt.Sprintf("%d files, %d goroutines, %d KiB, %d mounts, %d shims, %v", f.files, f.goroutines, f.rss, f.mounts, f.shims, f.folders)
}

// How far a footprint may be from the one at the start.
const (
	moreFiles      = 12
	moreGoroutines = 25
	moreRSS        = 160 << 10 // KiB: the heap grows to twice of what lived at its worst, and is given back slowly
)

// leaksSince tells what an engine holds more of than before.
func (f *footprint) leaksSince(before *footprint) []string {
	var list []string
	grown := func(what string, now, then, more int) {
		if now > then+more {
			list = append(list, fmt.Sprintf("%s: %d, %d at the start", what, now, then))
		}
	}
	grown("files", f.files, before.files, moreFiles)
	grown("goroutines", f.goroutines, before.goroutines, moreGoroutines)
	grown("KiB in memory", f.rss, before.rss, moreRSS)
	grown("mounts", f.mounts, before.mounts, 0)
	grown("shims", f.shims, before.shims, 0)
	for _, name := range sortedKeys(f.folders) {
		grown("entries of "+name, f.folders[name], before.folders[name], 0)
	}
	return list
}

// measureEngine looks at an engine.
func (p *places) measureEngine(w *worker) *footprint {
	f := &footprint{folders: map[string]int{}}
	var info struct{ NFd, NGoroutines int }
	if w.fetchJSON("GET /info", &info) {
		f.files, f.goroutines = info.NFd, info.NGoroutines
	}
	if p.pid != 0 {
		f.rss = residentKiB(p.pid)
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", p.pid)) // Another finding tells that it has gone.
		f.mounts = bytes.Count(raw, []byte("\n"))
	}
	if p.run != "" {
		f.shims = len(shimProcesses(p.run))
	}
	for _, dir := range []string{filepath.Join(p.run, "tasks"), filepath.Join(p.run, "execs"), filepath.Join(p.data, "containers"), filepath.Join(p.data, "volumes")} {
		if entries, err := os.ReadDir(dir); err == nil && filepath.IsAbs(dir) {
			f.folders[filepath.Base(dir)] = len(entries)
		}
	}
	return f
}

// residentKiB returns the memory that a process has, 0 when it is not there.
func residentKiB(pid int) int {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // Then it has none.
	for line := range strings.Lines(string(raw)) {
		if rest, is := strings.CutPrefix(line, "VmRSS:"); is {
			n, _ := strconv.Atoi(strings.Fields(rest)[0]) // The kernel's own form.
			return n
		}
	}
	return 0
}

// shimProcesses returns the processes that serve containers of an engine: those that have its folder on their command line.
func shimProcesses(run string) []string {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // The pattern is right.
	return slices.DeleteFunc(lines, func(path string) bool {
		raw, err := os.ReadFile(path)
		return err != nil || !bytes.Contains(raw, []byte("moss-shim")) || !bytes.Contains(raw, []byte(run)) || bytes.Contains(raw, []byte("supervise"))
	})
}

// awaitSettled waits until an engine holds no more than before, and returns what it still does.
func (p *places) awaitSettled(ctx context.Context, w *worker, before *footprint, most time.Duration) (now *footprint, leaks []string) {
	for end := time.Now().Add(most); ; {
		now = p.measureEngine(w)
		leaks = now.leaksSince(before)
		if len(leaks) == 0 || time.Now().After(end) || ctx.Err() != nil {
			return now, leaks
		}
		<-time.After(500 * time.Millisecond)
	}
}

// alarms are lines of the engine's log that tell of a defect. Those that calm covers do not.
var (
	alarms = regexp.MustCompile(`panicked|request failed|defect|"level":"error"| ERR |fatal error|DATA RACE`)
	calm   = regexp.MustCompile(`dial tcp 127|returned a non-zero code|/containers/shared-[01]/(re)?start|cannot resize container|Path cannot be empty|/copy"|/copy |127\.0\.0\.1:1|/images/search|/distribution/|/auth"|/auth |context canceled|unexpected EOF|path=/auth|path=/v[0-9.]+/(auth|containers/[^ ]*/copy)`)
)

// defectLines returns the lines of the log, from an offset on, that tell of a defect, and the offset of its end.
func (p *places) defectLines(from int64) (lines []string, end int64) {
	f, err := os.Open(p.log)
	if err != nil {
		return nil, from
	}
	defer f.Close() //nolint:errcheck // only read
	if _, err := f.Seek(from, 0); err != nil {
		return nil, from
	}
	in := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return lines, from
		}
		from += int64(len(line))
		if alarms.MatchString(line) && !calm.MatchString(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
}

// isAlive reports whether the engine is the process that it was.
func (p *places) isAlive() bool {
	if p.pid == 0 {
		return true
	}
	_, err := os.Stat(fmt.Sprintf("/proc/%d", p.pid))
	return err == nil
}
