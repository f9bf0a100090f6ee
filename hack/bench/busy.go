package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	busyUpload  = 2 << 30 // bytes
	busyExecs   = 20
	busySamples = 500 // of each call at least
	busyPause   = 2 * time.Millisecond
)

// measureBusy measures how fast an engine answers while it has an archive uploaded, stops a container that does not
// want to end and runs execs.
func (b *bench) measureBusy(ctx context.Context, i *instance) error {
	return withBox(ctx, i, func(box string) error {
		stubborn, err := i.api.createContainer(ctx, "none", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
		if err != nil {
			return err
		}
		if err := i.api.startContainer(ctx, stubborn); err != nil {
			return err
		}
		load, stop := context.WithCancel(ctx)
		var working sync.WaitGroup
		uploads, uploadErr := 0, error(nil)
		uploaded := make(chan struct{})
		working.Go(func() {
			for load.Err() == nil {
				if uploadErr = i.api.putArchive(load, box, "/data", bigTar(busyUpload)); uploadErr != nil {
					break
				}
				if uploads++; uploads == 1 {
					close(uploaded)
				}
			}
			if uploads == 0 {
				close(uploaded)
			}
		})
		working.Go(func() {
			i.api.drainAnswer(load, http.MethodPost, "/v1.24/containers/"+stubborn+"/stop?t=60", nil, "") //nolint:errcheck // it is cut off
		})
		var execErr error
		for range busyExecs {
			working.Go(func() {
				id, err := i.api.execCreate(load, box, "sleep", "86400")
				if err == nil {
					_, err = i.api.execStart(load, id)
				}
				if err != nil && load.Err() == nil {
					execErr = err
				}
			})
		}
		s, err := timeAnswers(ctx, i, box, uploaded)
		stop()
		working.Wait()
		if uploads == 0 {
			err = errors.Join(err, uploadErr)
		}
		if err == nil {
			b.report.add(i.name, "busy", s)
		}
		kill := i.api.call(ctx, http.MethodPost, "/v1.24/containers/"+stubborn+"/kill", nil, "", nil) // or the stop has its minute
		return errors.Join(err, execErr, kill, i.api.removeContainer(ctx, stubborn))
	})
}

// timeAnswers times calls until enough is done, and returns the 99th percentile of each.
func timeAnswers(ctx context.Context, i *instance, box string, enough <-chan struct{}) (samples, error) {
	times := map[string]series{}
	for over := false; !over || len(times["_ping p99"]) < busySamples; {
		for figure, path := range map[string]string{
			"_ping p99": "/_ping", "list p99": "/v1.24/containers/json", "inspect p99": "/v1.24/containers/" + box + "/json",
		} {
			began := time.Now()
			if err := i.api.call(ctx, http.MethodGet, path, nil, "", nil); err != nil {
				return nil, err
			}
			times[figure] = append(times[figure], toMilliseconds(time.Since(began)))
		}
		if err := pause(ctx, busyPause); err != nil {
			return nil, err
		}
		select {
		case <-enough:
			over = true
		default:
		}
	}
	s := samples{}
	for figure, all := range times {
		s[figure] = all.quantile(0.99)
	}
	return s, nil
}
