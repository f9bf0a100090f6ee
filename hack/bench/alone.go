package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ensureAlone makes sure that nothing of this run is there but its registry: an engine that another one runs beside
// shares the pages of its programs and libraries with it, and each seems to need less. What an engine leaves when it is
// stopped (podman's pause process) is ended.
func (b *bench) ensureAlone(ctx context.Context) error {
	if len(b.running) > 0 || b.floor != nil {
		return errors.New("another engine runs already")
	}
	for {
		left, err := b.listLeftovers()
		if err != nil || len(left) == 0 {
			return err
		}
		var names []string
		for _, p := range left {
			names = append(names, p.name)
			_ = unix.Kill(p.pid, unix.SIGKILL) // it may have ended
		}
		if pause(ctx, pollEvery) != nil {
			return fmt.Errorf("still there: %s", strings.Join(names, ", "))
		}
	}
}

// listLeftovers lists what runs of this run's engines.
func (b *bench) listLeftovers() ([]process, error) {
	if os.Getenv(envReaped) == "" {
		return nil, nil // the parent is not this program
	}
	all, err := listProcesses()
	if err != nil {
		return nil, err
	}
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return nil, err
	}
	keep := []int{os.Getppid(), os.Getpid()}
	if b.shelf != nil {
		keep = append(keep, b.shelf.Pid())
	}
	return otherProcesses(engineProcesses(all, os.Getppid(), own), keep), nil
}

// otherProcesses returns the processes other than those to keep. One that has ended and is not reaped yet is none.
func otherProcesses(all []process, keep []int) []process {
	return slices.DeleteFunc(slices.Clone(all), func(p process) bool { return p.ended || slices.Contains(keep, p.pid) })
}

// measureMemories comes before anything else runs, and takes one engine after the other, round by round.
func (b *bench) measureMemories(ctx context.Context) {
	if !b.opt.wants("memory") {
		return
	}
	for round := range b.opt.slowRounds() {
		for _, e := range b.engines {
			b.attemptMetric(ctx, e.name, nil, "memory", quickLimit, func(ctx context.Context) error { return b.measureMemory(ctx, e, round) })
		}
	}
}

// measureMemory measures an engine that has only just been started, then adds containers.
func (b *bench) measureMemory(ctx context.Context, e *engine, round int) (err error) {
	if err := withLimit(ctx, stopLimit, "the end of the engine before", b.ensureAlone); err != nil {
		return err
	}
	dir := filepath.Join(b.dir, e.name+"-memory"+strconv.Itoa(round))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	first, err := e.launch(ctx, dir)
	if err != nil {
		return err
	}
	if err := errors.Join(first.api.importImage(ctx, b.image), first.stop()); err != nil {
		return err
	}
	if err := withLimit(ctx, stopLimit, "the end of the engine's first start", b.ensureAlone); err != nil {
		return err
	}
	i, err := e.launch(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.stop()) }()
	if err := pause(ctx, settle); err != nil {
		return err
	}
	idle, parts, err := memoryOf(i.cmd.Process.Pid)
	if err != nil {
		return err
	}
	var ids []string
	for range memoryContainers {
		id, err := i.api.createContainer(ctx, "none", "sleep", "600")
		if err != nil {
			return err
		}
		ids = append(ids, id)
		if err := i.api.startContainer(ctx, id); err != nil {
			return err
		}
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	full, _, err := memoryOf(i.cmd.Process.Pid)
	if err != nil {
		return err
	}
	s := samples{"idle": idle, "per container": (full - idle) / memoryContainers}
	for part, pss := range parts {
		s["idle: "+part] = pss
	}
	b.report.add(e.name, "memory", s)
	return b.removeContainers(ctx, i, ids)
}
