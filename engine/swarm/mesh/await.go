package mesh

import (
	"context"
	"fmt"
	"time"
)

// Await returns once the engine has all these networks, given by their ids. It is bounded by ctx alone.
func (m *Mesh) Await(ctx context.Context, networks []string) error {
	for {
		now, woken := m.viewState()
		missing := ""
		for _, id := range networks {
			if now.hosted == nil {
				missing = id
			} else if _, ok := now.hosted.Networks[id]; !ok {
				missing = id
			}
		}
		if missing == "" {
			return nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			if why := now.refused[missing]; why != "" {
				return fmt.Errorf("network %s of the swarm cannot be on this node: %s", missing, why)
			}
			return fmt.Errorf("network %s of the swarm is not on this node: %w", missing, ctx.Err())
		}
	}
}

// drainLimit bounds TakenOut: a node that is slow or away does not keep a task from its end.
const drainLimit = time.Second

// TakenOut returns once every node has taken a task out of what leads to it, drainLimit later at the latest.
func (m *Mesh) TakenOut(ctx context.Context, taskID string) {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	out := uint64(0)
	for {
		now, woken := m.viewState()
		if now.view == nil {
			return
		}
		if out == 0 && !now.view.Tasks[taskID].Ready {
			out = now.view.Version
		}
		if out != 0 && now.settled >= out {
			return
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return
		}
	}
}
