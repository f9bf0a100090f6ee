package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const crowdSamples = 20 // of each figure beside each crowd

// measureCrowds measures what other containers that run cost: from create to running, and a list of them.
func (b *bench) measureCrowds(ctx context.Context, i *instance) (err error) {
	var ids []string
	defer func() { err = errors.Join(err, b.removeContainers(context.WithoutCancel(ctx), i, ids)) }()
	s := samples{}
	var alone float64
	for _, size := range []int{0, 100, 1000} {
		more, err := runClients(ctx, stressClients, size-len(ids), func(ctx context.Context) (string, error) {
			id, err := i.api.createContainer(ctx, "none", "sleep", "86400")
			if err != nil {
				return "", err
			}
			return id, i.api.startContainer(ctx, id)
		})
		ids = append(ids, more...)
		if err != nil {
			return fmt.Errorf("after %d containers: %w", len(ids), err)
		}
		if err := pause(ctx, settle); err != nil {
			return err
		}
		started, err := b.startBeside(ctx, i)
		if err != nil {
			return err
		}
		s["start beside "+strconv.Itoa(size)] = started
		if size == 0 {
			alone = started
			continue
		}
		s["start beside "+strconv.Itoa(size)+" / 0"] = started / alone
		if s["list of "+strconv.Itoa(size)], err = listTime(ctx, i, size); err != nil {
			return err
		}
	}
	b.report.add(i.name, "crowd", s)
	return nil
}

// startBeside returns the median time from create to running.
func (b *bench) startBeside(ctx context.Context, i *instance) (float64, error) {
	var all series
	for range crowdSamples {
		began := time.Now()
		id, err := i.api.createContainer(ctx, "none", "sleep", "86400")
		if err != nil {
			return 0, err
		}
		err = i.api.startContainer(ctx, id)
		all = append(all, toMilliseconds(time.Since(began)))
		if err := errors.Join(err, i.api.removeContainer(ctx, id)); err != nil {
			return 0, err
		}
	}
	return all.median(), nil
}

// listTime returns the median time of a list of at least so many running containers.
func listTime(ctx context.Context, i *instance, atLeast int) (float64, error) {
	var all series
	for range crowdSamples {
		began := time.Now()
		var list []json.RawMessage
		if err := i.api.call(ctx, http.MethodGet, "/v1.24/containers/json", nil, "", &list); err != nil {
			return 0, err
		}
		all = append(all, toMilliseconds(time.Since(began)))
		if len(list) < atLeast {
			return 0, fmt.Errorf("list of %d containers, want %d", len(list), atLeast)
		}
	}
	return all.median(), nil
}
