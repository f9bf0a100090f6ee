package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/progress"
	"moss/cmd/moss/rollout"
	"moss/cmd/moss/show"
)

// pollTasks is the time between two looks at a service's tasks: the API has no events of them.
const pollTasks = 200 * time.Millisecond

// mostPlaces bounds how many tasks are shown one by one: as many as fit most terminals. Those with errors are shown always.
const mostPlaces = 20

// awaitService waits until a service's tasks are as they shall be and shows how far they are. An interrupt ends the wait; the
// service goes on.
func (a *app) awaitService(ctx context.Context, engine *client.Client, id string, quiet bool) error {
	waiting := ctx
	if !signal.Ignored(os.Interrupt) {
		var stop func()
		waiting, stop = signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
	}
	shown := follower(silent{})
	if !quiet {
		shown = a.newProgress(a.stderr)
	}
	service, err := a.followService(waiting, engine, id, shown)
	err = cmp.Or(err, shown.Close())
	name := cmp.Or(service.Spec.Name, id)
	switch {
	case waiting.Err() != nil && ctx.Err() == nil:
		text := "the service goes on in the background; see 'moss service ps " + name + "'"
		_, _ = fmt.Fprintln(a.stderr, a.messagePrefix(show.Yellow)+text)
		return nil
	case err != nil:
		return fmt.Errorf("wait for service %s: %w", name, err)
	case !quiet:
		_, _ = fmt.Fprintln(a.stderr, "service "+name+" converged")
	}
	return nil
}

// followService returns the service as it was seen last.
func (a *app) followService(ctx context.Context, engine *client.Client, id string, shown follower) (types.Service, error) {
	var last types.Service
	for {
		service, err := inspectService(ctx, engine, id)
		if err != nil {
			return last, err
		}
		last = service
		tasks, err := engine.TaskList(ctx, map[string][]string{"service": {id}})
		if err != nil {
			return last, err
		}
		at := rollout.Look(service, tasks)
		if err := showRollout(shown, at); err != nil {
			return last, err
		}
		switch {
		case at.Done(service.Spec.Mode.Global != nil):
			return last, nil
		case at.Paused != "":
			return last, fmt.Errorf("%w: %s", errPaused, at.Paused)
		}
		select {
		case <-time.After(pollTasks):
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// showRollout shows how far a service is: the sum everywhere, single tasks where one line can replace another.
func showRollout(shown follower, at rollout.Progress) error {
	sum := fmt.Sprintf("%d out of %d tasks", at.Ready(), at.Wanted)
	if err := shown.Show(client.Progress{Progress: types.Progress{ID: "overall progress", Status: sum}}); err != nil {
		return err
	}
	_, stays := shown.(*progress.Lines)
	places := at.Places[:min(len(at.Places), at.Wanted)]
	for _, place := range places {
		text := cmp.Or(place.State, "to be updated")
		if place.Err != "" && !place.Ready {
			text += ": " + place.Err
		} else if stays || len(places) > mostPlaces {
			continue
		}
		if err := shown.Show(client.Progress{Progress: types.Progress{ID: show.ID(place.Name), Status: text}}); err != nil {
			return err
		}
	}
	return nil
}
