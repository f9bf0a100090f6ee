package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// heavy is a metric that takes seconds each time, or changes what runs beside the others.
type heavy struct {
	name string
	own  bool // only for builds of moss
	do   func(ctx context.Context, i *instance) error
}

func (b *bench) heavyMetrics() []heavy {
	return []heavy{
		{"stress", false, b.measureStress},
		{"archive", false, b.measureArchives},
		{"logs", false, b.measureLogs},
		{"attach", false, b.measureAttach},
		{"net", false, b.measureNets},
		{"image", false, b.measurePulls},
		{"pulls", false, b.pullCrowd},
		{"build", false, b.measureBuilds},
		{"edge", false, b.measureEdge},
		{"events", false, b.measureEvents},
		{"streams", false, b.measureStreams},
		{"busy", true, b.measureBusy},
		{"crowd", true, b.measureCrowds},
		{"stopped", true, b.measureStopped},
		{"entries", true, b.measureEntries},
		{"forward", true, b.measureForward},
		{"hung", true, b.measureHung},
	}
}

// measureHeavies measures those that were asked for, engine by engine.
func (b *bench) measureHeavies(ctx context.Context) {
	for _, h := range b.heavyMetrics() {
		if !b.opt.wants(h.name) {
			continue
		}
		for round := range b.opt.slowRounds() {
			for k := range b.running {
				i := b.running[(k+round)%len(b.running)]
				if h.own && !i.own {
					continue
				}
				b.attemptMetric(ctx, i.name, i, h.name, heavyLimit, func(ctx context.Context) error {
					if err := b.writeBack(); err != nil {
						return err
					}
					return h.do(ctx, i)
				})
			}
		}
	}
}

// writeBack has the disk take what was written so far, or the next engine would be slower by what the last one left in
// the page cache.
func (b *bench) writeBack() error {
	dir, err := os.Open(b.dir)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(dir.Fd()))
	return errors.Join(err, dir.Close())
}

// withBox runs work beside a container that does nothing, and removes it.
func withBox(ctx context.Context, i *instance, work func(id string) error) error {
	id, err := i.api.createContainer(ctx, "none", "sleep", "86400")
	if err != nil {
		return err
	}
	if err = i.api.startContainer(ctx, id); err == nil {
		err = work(id)
	}
	return errors.Join(err, i.api.removeContainer(context.WithoutCancel(ctx), id))
}

// measureExecs measures one exec of true by the API in a container that runs: create, start with its streams, inspect.
func (b *bench) measureExecs(ctx context.Context, i *instance) error {
	if i.box == "" {
		id, err := i.api.createContainer(ctx, "none", "sleep", "86400")
		if err != nil {
			return err
		}
		if err := i.api.startContainer(ctx, id); err != nil {
			return err
		}
		i.box = id
	}
	began := time.Now()
	id, err := i.api.execCreate(ctx, i.box, "true")
	if err != nil {
		return err
	}
	s, last := samples{}, began
	s["create"], last = msSince(last)
	if _, err := i.api.execStart(ctx, id); err != nil {
		return err
	}
	s["start"], last = msSince(last)
	var state struct {
		Running  bool
		ExitCode *int
	}
	if err := i.api.call(ctx, "GET", "/v1.24/exec/"+id+"/json", nil, "", &state); err != nil {
		return err
	}
	if state.Running || state.ExitCode == nil || *state.ExitCode != 0 {
		return fmt.Errorf("exec %s: state %+v after its end, want code 0", id, state)
	}
	s["inspect"], last = msSince(last)
	s["sum"] = toMilliseconds(last.Sub(began))
	b.report.add(i.name, "exec", s)
	return nil
}
