package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// stage is one part of the tests.
type stage struct {
	name    string
	lane    string        // stages of one lane do not run at the same time
	after   []string      // stages that have to end before, if they run at all
	limit   time.Duration // several times what it takes alone: it shares the processors
	nice    int           // what computes gives way to what is waited for
	command []string
}

// allStages returns the table of all. The lane "engine" holds the tests of one engine in bash, several files at a time;
// "compute" what compiles, an emulator, and the swarms, which wait as often as they compute. More lanes would gain nothing: where
// page faults are dear, as in some virtual machines, starts of processes wait for each other. There the limits of tests/run.sh
// leave files out, where the limits of stages would fail the run.
func allStages() []stage {
	bats := func(arguments ...string) []string { return append([]string{"tests/run.sh"}, arguments...) }
	target := func(name string) []string { return []string{"make", "--no-print-directory", name} }
	return []stage{
		{name: "build", lane: "engine", limit: 20 * time.Minute, command: target("build")},
		{name: "bats", lane: "engine", after: []string{"build"}, limit: 75 * time.Minute, command: bats("--minutes", "20")},
		{name: "bats-no-subids", lane: "engine", after: []string{"build"}, limit: 30 * time.Minute, command: bats("--no-subids", "--minutes", "8")},
		{name: "bats-cgroups", lane: "engine", after: []string{"build"}, limit: 30 * time.Minute, command: bats("--cgroups", "--minutes", "8")},
		{name: "bats-chance", lane: "engine", after: []string{"build"}, limit: 40 * time.Minute, command: bats("--chance", "--minutes", "8")},
		{name: "powercut", lane: "engine", after: []string{"build"}, limit: 20 * time.Minute, command: []string{"hack/powercut.sh", "--rounds", "3", "--seed", "1"}},
		{name: "unit", lane: "compute", after: []string{"build"}, limit: 60 * time.Minute, command: target("unit")},
		{name: "layers", lane: "compute", nice: 5, limit: 5 * time.Minute, command: target("layers")},
		{name: "lint", lane: "compute", nice: 5, limit: 30 * time.Minute, command: target("lint")},
		{name: "guest", lane: "compute", after: []string{"build"}, limit: 60 * time.Minute, command: target("guest")},
		{name: "swarm", lane: "compute", after: []string{"build"}, limit: 50 * time.Minute, command: []string{"tests/swarm.sh"}},
		{name: "compat", lane: "compute", after: []string{"bats", "bats-no-subids", "bats-cgroups", "bats-chance", "swarm", "unit", "guest"}, limit: 5 * time.Minute, command: target("compat")},
	}
}

// result is what came of a stage.
type result struct {
	stage
	err  error // nil: it passed
	log  string
	took time.Duration
	cpu  time.Duration // of all its processes
}

// runStages runs each stage as soon as it may. What a stage printed is copied to w when it ends.
func runStages(ctx context.Context, waiting []stage, logs string, w io.Writer) ([]result, error) {
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ends := make(chan result)
	var running []stage
	var results []result
	for len(waiting) > 0 || len(running) > 0 {
		for i := 0; i < len(waiting); {
			if !mayStart(waiting[i], waiting, running) {
				i++
				continue
			}
			s := waiting[i]
			waiting, running = slices.Delete(waiting, i, i+1), append(running, s)
			if _, err := io.WriteString(w, "... "+s.name+"\n"); err != nil {
				return results, err
			}
			go func() { ends <- runStage(ctx, self, s, filepath.Join(logs, s.name+".log")) }()
		}
		r := <-ends
		running = slices.DeleteFunc(running, func(s stage) bool { return s.name == r.name })
		results = append(results, r)
		if err := r.copyOutput(w); err != nil {
			return results, err
		}
	}
	return results, nil
}

// mayStart tells whether nothing that has to come before s is still to run, and its lane is free.
func mayStart(s stage, waiting, running []stage) bool {
	for _, other := range running {
		if other.lane == s.lane || slices.Contains(s.after, other.name) {
			return false
		}
	}
	return !slices.ContainsFunc(waiting, func(other stage) bool { return slices.Contains(s.after, other.name) })
}

// runStage runs one stage in a process of its own, which this program is as well.
func runStage(ctx context.Context, self string, s stage, log string) result {
	r := result{stage: s, log: log}
	out, err := os.Create(log)
	if err != nil {
		r.err = err
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, append([]string{"nice", "-n", strconv.Itoa(s.nice)}, s.command...)...)
	cmd.Env = append(os.Environ(), envStage+"="+s.name)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	began := time.Now()
	r.err = cmd.Run()
	r.took = time.Since(began)
	if ctx.Err() != nil {
		r.err = fmt.Errorf("not done within %s: %w", s.limit, ctx.Err())
	}
	if cmd.ProcessState != nil {
		r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	r.err = errors.Join(r.err, out.Close())
	return r
}
