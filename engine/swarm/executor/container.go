package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/moby/swarmkit/v2/api"
	"golang.org/x/sys/unix"

	"moss/api/client"
	"moss/api/types"
)

// persistence is how long a call goes on when the engine is away: callEngine, awaitEngine or tryOnce.
type persistence func(ctx context.Context, work func(context.Context) error) error

// firstRealTime is the least number of a real-time signal that programs use (signal(7)).
const firstRealTime = 34

func tryOnce(ctx context.Context, work func(context.Context) error) error { return work(ctx) }

// inspectContainer looks at the container. One of its name that is another task's, or none of the swarm's, is missing for this
// task.
func (c *controller) inspectContainer(ctx context.Context, persist persistence) (client.Inspect, error) {
	c.mu.Lock()
	ref := c.id
	c.mu.Unlock()
	if ref == "" {
		ref = c.name
	}
	var found client.Inspect
	err := persist(ctx, func(ctx context.Context) (err error) {
		found, err = c.engine.client.ContainerInspect(ctx, ref, false)
		return err
	})
	if err == nil && found.Config.Labels[labelTaskID] != c.task.ID {
		err = &client.Error{Status: statusNotFound, Message: fmt.Sprintf("container %s is not of task %s", ref, c.task.ID)}
	}
	if err != nil {
		return client.Inspect{}, err
	}
	c.noteContainer(found.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = &api.ContainerStatus{
		ContainerID: found.ID,
		PID:         int32(found.State.Pid),      //nolint:gosec // of the kernel, which has fewer
		ExitCode:    int32(found.State.ExitCode), //nolint:gosec // one byte, or a mark of the engine's
	}
	return found, nil
}

// containerID returns the container's id, errGone if there is none.
func (c *controller) containerID(ctx context.Context) (string, error) {
	c.mu.Lock()
	id := c.id
	c.mu.Unlock()
	if id != "" {
		return id, nil
	}
	found, err := c.inspectContainer(ctx, c.engine.awaitEngine)
	if isMissing(err) {
		return "", errGone
	}
	return found.ID, err
}

// endContainer does to the container what ends it; gently: once no connection is led to it any more. A container that is not
// there is no error.
func (c *controller) endContainer(
	ctx context.Context, persist persistence, gently bool, end func(ctx context.Context, id string) error,
) error {
	found, err := c.inspectContainer(ctx, persist)
	if err == nil {
		if gently && found.State.Running {
			c.takeOut(ctx)
		}
		err = persist(ctx, func(ctx context.Context) error { return end(ctx, found.ID) })
	}
	if isMissing(err) {
		return nil
	}
	return err
}

// removeContainer stops a container within its grace period and removes it with its anonymous volumes.
func removeContainer(ctx context.Context, e *engine, id string) error {
	if err := e.client.ContainerStop(ctx, id, client.StopOptions{}); isAway(err) || ctx.Err() != nil {
		return err
	}
	// What a stop could not end is killed.
	return e.client.ContainerRemove(ctx, id, client.RemoveOptions{Force: true, Volumes: true})
}

// wasStopped tells whether a client has ended a container: whether, of what the engine remembers, one has sent it a signal that
// ends it. The engine tells of a signal before it sends it.
func (c *controller) wasStopped(ctx context.Context, found *client.Inspect) (bool, error) {
	stopped := false
	err := c.engine.awaitEngine(ctx, func(ctx context.Context) error {
		stopped = false
		opts := client.EventsOptions{
			Since: "1", Until: formatTime(time.Now()),
			Filters: map[string][]string{"type": {"container"}, "container": {found.ID}, "event": {"kill"}},
		}
		return c.engine.client.Events(ctx, opts, func(e types.Event, _ json.RawMessage) error {
			stopped = stopped || isEndSignal(e.Actor.Attributes["signal"], string(found.Config.StopSignal))
			return nil
		})
	})
	return stopped, err
}

// formatTime writes a time as filters of events take it.
func formatTime(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }

// noteContainer remembers which container the task has.
func (c *controller) noteContainer(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id = id
}

// noteStart remembers the run that is the task's.
func (c *controller) noteStart(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = at
}

func (c *controller) startedAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started
}

// isEndSignal tells whether a signal, which an event names by its number, is one that ends a container: SIGKILL, SIGTERM and the
// container's own stop signal, a name or a number.
func isEndSignal(signal, stopSignal string) bool {
	number, err := strconv.Atoi(signal)
	if err != nil {
		return false
	}
	if own, err := strconv.Atoi(stopSignal); err == nil && own == number {
		return true
	}
	switch name := "SIG" + strings.TrimPrefix(strings.ToUpper(stopSignal), "SIG"); {
	case number == int(unix.SIGKILL), number == int(unix.SIGTERM):
		return true
	case strings.HasPrefix(name, "SIGRT"):
		return number >= firstRealTime // their names are the C library's; no other one of them is likely to be sent
	default:
		return number == int(unix.SignalNum(name)) && number != 0
	}
}
