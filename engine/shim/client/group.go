package client

import (
	"context"
	"encoding/json"
	"fmt"

	"moss/engine/shim/proto"
)

// Pause freezes all processes: see task.Group.
func (t *Task) Pause(ctx context.Context) error {
	return t.callLiving(ctx, proto.Request{Op: proto.OpPause})
}

// Resume undoes Pause: see task.Group.
func (t *Task) Resume(ctx context.Context) error {
	return t.callLiving(ctx, proto.Request{Op: proto.OpResume})
}

// Update changes the limits of the container's cgroup: see task.Group.
func (t *Task) Update(ctx context.Context, resources json.RawMessage) error {
	return t.callLiving(ctx, proto.Request{Op: proto.OpUpdate, Resources: resources})
}

// Pids lists the container's processes: see task.Group.
func (t *Task) Pids(ctx context.Context) ([]int, error) {
	reply, err := t.shim.askBounded(ctx, proto.Request{Op: proto.OpPids})
	if err != nil && isGone(err) {
		err = t.notRunning()
	}
	if err != nil {
		return nil, fmt.Errorf("processes of task %s: %w", t.id, err)
	}
	return reply.Pids, nil
}
