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

// alone makes sure that nothing of this run is there but its registry: an engine that another one runs beside shares the
// pages of its programs and libraries with it, and each seems to need less. What an engine leaves when it is stopped
// (podman's pause process) is ended.
func (b *bench) alone(ctx context.Context) error {
	if len(b.running) > 0 || b.floor != nil {
		return errors.New("another engine runs already")
	}
	for {
		left, err := b.leftovers()
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

// leftovers lists what runs of this run's engines.
func (b *bench) leftovers() ([]process, error) {
	if os.Getenv(envReaped) == "" {
		return nil, nil // the parent is not this program
	}
	all, err := processes()
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
	return strangers(family(all, os.Getppid(), own), keep), nil
}

// strangers are the processes other than those to keep. One that has ended and is not reaped yet is none.
func strangers(all []process, keep []int) []process {
	return slices.DeleteFunc(slices.Clone(all), func(p process) bool { return p.ended || slices.Contains(keep, p.pid) })
}

// memories comes before anything else runs, and takes one engine after the other, round by round.
func (b *bench) memories(ctx context.Context) {
	if !b.opt.wants("memory") {
		return
	}
	for round := range b.opt.slow() {
		for _, e := range b.engines {
			b.attempt(ctx, e.name, nil, "memory", quickLimit, func(ctx context.Context) error { return b.memory(ctx, e, round) })
		}
	}
}

// memory measures an engine that has only just been started, then adds containers.
func (b *bench) memory(ctx context.Context, e *engine, round int) (err error) {
	if err := bound(ctx, stopLimit, "the end of the engine before", b.alone); err != nil {
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
	if err := bound(ctx, stopLimit, "the end of the engine's first start", b.alone); err != nil {
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
		id, err := i.api.create(ctx, "none", "sleep", "600")
		if err != nil {
			return err
		}
		ids = append(ids, id)
		if err := i.api.start(ctx, id); err != nil {
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
	return b.clear(ctx, i, ids)
}
