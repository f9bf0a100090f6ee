package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// memories comes before anything else runs: a second engine of the same program would share its pages, and each would
// seem to need less.
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
