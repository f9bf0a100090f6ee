package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"time"
)

// attemptMetric measures one metric of an engine once. What fails is kept in the report with its reason and is not
// tried again in this run, and the rest goes on: a run of many minutes is not lost for one figure. i is nil if work
// starts its engine.
func (b *bench) attemptMetric(ctx context.Context, engine string, i *instance, metric string, limit time.Duration, work func(context.Context) error) {
	if ctx.Err() != nil || b.report.failureOf(engine, metric) != nil {
		return
	}
	if i != nil && i.lost != nil {
		b.report.addFailure(engine, metric, fmt.Errorf("the engine was lost: %w", i.lost))
		return
	}
	began := time.Now()
	err := withLimit(ctx, limit, metric, work)
	if ctx.Err() != nil {
		return // the user ends the run; what was measured so far is shown
	}
	if err != nil {
		b.report.addFailure(engine, metric, err)
		b.say("%s of %s: %v", metric, engine, err)
		if i != nil && !errors.Is(err, exec.ErrNotFound) {
			b.recoverEngine(ctx, i)
		}
	}
	b.report.addTime(metric, time.Since(began))
	if err := b.report.save(b.opt.out); err != nil {
		b.say("the results so far are not saved: %v", err)
	}
}

// recoverEngine removes the containers that a failed metric has left, or the next figures would be those of an engine
// that is busy with them. An engine that cannot is stopped.
func (b *bench) recoverEngine(ctx context.Context, i *instance) {
	i.box = "" // it goes too
	err := i.api.removeAll(ctx)
	if err == nil {
		return
	}
	i.lost = err
	b.say("%s is stopped, since it cannot be cleared: %v", i.name, errors.Join(err, i.stop()))
}

// removeAll removes every container.
func (a *api) removeAll(ctx context.Context) error {
	var all []struct{ ID string }
	if err := a.call(ctx, http.MethodGet, "/v1.24/containers/json?all=1", nil, "", &all); err != nil {
		return err
	}
	for _, c := range all {
		if err := a.removeContainer(ctx, c.ID); err != nil {
			return err
		}
	}
	return nil
}
